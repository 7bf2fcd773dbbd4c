"""The files by which trials differ although the data of their sweep is the same."""

import hashlib

from estimator_trainer.common.sweep import shared_data


def test_files_have_checksums_wherever_hyper_parameters_name_them(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    for name in ('a.json', 'b.json', 'words.vec', 'suspects.csv'):
        (tmp_path / name).write_text(name)
    params = {'embeddings': f'{tmp_path}/words.vec', 'exclude': f'{tmp_path}/suspects.csv', 'schema': '', 'batch_size': 8}
    space = {
        'schema': ['~/a.json', f'{tmp_path}/b.json', '', f'{tmp_path}/missing.json', str(tmp_path)],
        'text': [f'{tmp_path}/a.json'],  # Not a path.
        'learning_rate': {'low': 0.1, 'high': 1},
    }
    names = ('a.json', 'b.json', 'suspects.csv', 'words.vec')
    expected = {f'{tmp_path}/{name}': hashlib.sha256(name.encode()).hexdigest() for name in names}
    assert shared_data.of_files(params, space) == expected
    assert shared_data.of_files({}, {}) == {}

"""What a training may resume with another value of, and the history of it in hparams.json."""

import pytest

from common.errors import UsageError
from hparams import build, overrides

PARAMS = build.make_hparams('m', {'depth': 1}, 'd', {})


def change(text, step, history=()):
    """Returns the history after a training of PARAMS has resumed at a step with other values."""
    params, names = build.add_overrides(PARAMS, text)
    return overrides.add_entry(list(history), PARAMS, params, names, step)


MISTAKES = [
    ('optimizer=sgd', 'a training cannot resume with another optimizer; it can with batch_size, .*, depth'),
    ('rate=1', 'unknown hyper-parameter rate'),
    ('batch_size', "'batch_size' is not of the form name=value"),
]


@pytest.mark.parametrize('text, message', MISTAKES)
def test_what_a_restart_cannot_bear_is_named(text, message):
    with pytest.raises(UsageError, match=f'^--override_hparams: {message}'):
        overrides.check_names(build.add_overrides(PARAMS, text)[1], ['depth'])
    overrides.check_names(['depth', 'learning_rate', 'batch_size'], ['depth'])


def test_the_history_has_what_changed_and_knows_the_examples_seen(tmp_path):
    assert change('batch_size=128', 5) == []  # The value of before.
    first = change('batch_size=10,depth=2', 4)
    assert first == [{'global_step': 4, 'hparams': {'batch_size': [128, 10], 'depth': [1, 2]}}]
    history = [*first, {'global_step': 6, 'hparams': {'depth': [2, 3]}}, {'global_step': 9, 'hparams': {'batch_size': [10, 3]}}]
    assert overrides.batch_start([]) == (0, 0) and overrides.batch_start(history) == (9, 4 * 128 + 5 * 10)
    assert PARAMS.with_batch_start((9, 562)).examples_at(11) == 562 + 2 * 128
    # The checkpoints of later steps are lost.
    lost = change('depth=5', 6, history)
    assert [entry['global_step'] for entry in lost] == [4, 6, 6, 6] and lost[-1]['hparams'] == {'depth': [1, 5]}
    path = str(tmp_path / 'hparams.json')
    for saved in ([], history):
        overrides.save(PARAMS, saved, path)
        assert overrides.read_history(path) == saved and build.compare(PARAMS, path) == PARAMS


def test_a_corrupt_history_is_named(tmp_path):
    path = str(tmp_path / 'hparams.json')
    for entry in (5, {'global_step': '1', 'hparams': {}}, {'global_step': 1, 'hparams': {'x': [1]}}, {'hparams': {}}):
        overrides.save(PARAMS, [entry], path)
        with pytest.raises(UsageError, match='hparams.json: override_history is corrupt: restore the file, or choose another'):
            overrides.read_history(path)
    with pytest.raises(UsageError, match='absent.json: cannot be read.*; choose another --output_dir'):
        overrides.read_history(str(tmp_path / 'absent.json'))

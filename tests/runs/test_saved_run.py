"""What a run keeps of its hyper-parameters and its dataset, and what a later one takes from it, or must not change."""

import hashlib
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from common.data import records
from tests.runs.words import WORDS
from tests.shared import POLYNOMIAL
import trainer

MODULES = ('--model=tests.runs.words', '--dataset=tests.runs.words')
HPARAMS = '--hparams=batch_size=2,eval_batch_size=5'
SAVED = ('results', 'hparams', 'dataset')


@pytest.fixture(scope='module')
def original(tmp_path_factory):
    """A directory with data.txt, data, and in `run` a training of tests/runs/words.py that has evaluated two splits."""
    directory = tmp_path_factory.mktemp('words')
    (directory / 'data.txt').write_text(WORDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        flags = ('--data_dir=data', '--output_dir=run', '--train_steps=60', '--save_checkpoints_steps=60', '--seed=5')
        assert trainer.main(['trainer.py', *MODULES, HPARAMS, *flags, '--eval_splits=train,fold3']) == 0
    return directory


@pytest.fixture
def words(original, execute, tmp_path, monkeypatch):
    """Calls the trainer in a directory with a copy of the run: words('--schedule=evaluate') -> (exit code, result, stderr)."""
    shutil.copytree(original / 'run', tmp_path / 'run')
    monkeypatch.chdir(tmp_path)
    return lambda *flags: execute(trainer.main, ['trainer.py', '--output_dir=run', *flags])


def read_lines(path):
    return [json.loads(line) for line in open(path)]


def test_a_run_is_asked_without_the_flags_of_its_training_and_knows_its_classes(words, original):
    results, params, dataset = (json.loads((original / 'run' / f'{name}.json').read_text()) for name in SAVED)
    assert results['train']['accuracy'] == results['fold3']['accuracy'] == 1
    assert (params['num_classes'], params['batch_size'], params['seed']) == (2, 2, 5)
    assert dataset['metadata'] == {'class_names': ['consonants', 'vowels'], 'num_classes': 2}
    data_dir = os.path.realpath(original / 'data')
    assert dataset['data_dir'] == data_dir
    for schedule in ('evaluate', 'continuous_eval'):
        code, result, log = words(f'--schedule={schedule}', '--eval_splits=train,fold3')
        assert code == 0 and result == results
        assert f'From the run: {", ".join(MODULES)}, --data_dir={data_dir}, --hparams_set=run/hparams.json.' in log
    code, result, _ = words('--schedule=predict', '--predict_split=fold3')
    found = [(line['example_id'], line['class'], line['class_name']) for line in read_lines(result['predictions'])]
    assert code == 0 and found == [(0, 1, 'vowels'), (1, 0, 'consonants')]


def test_files_are_predicted_and_a_model_exported_without_the_data(words, original, tmp_path):
    (tmp_path / 'input.txt').write_text('ie\nbcdbcd\n')
    code, result, err = words('--schedule=predict', '--input=input.txt', '--data_dir=lost')
    assert code == 0, err
    assert [line['class_name'] for line in read_lines(result['predictions'])] == ['vowels', 'consonants']
    code, result, err = words('--schedule=export', '--data_dir=lost')
    assert code == 0, err
    extra = pathlib.Path(result['export']) / 'assets.extra'
    assert (extra / 'class_names.txt').read_text() == 'consonants\nvowels\n'
    card = json.loads((extra / 'model_card.json').read_text())
    assert card['global_step'] == 60 and card['hparams']['num_classes'] == 2 and card['metrics']['fold3']['accuracy'] == 1
    files = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((original / 'data').glob('train-*.tfrecord'))]
    assert card['data_sha256'] == hashlib.sha256(' '.join(files).encode()).hexdigest()
    assert '| 2 classes | consonants, vowels |' in (extra / 'model_card.md').read_text()
    signatures = tf.saved_model.load(result['export']).signatures
    letters = np.array([[ord(letter) for letter in word] for word in ('ie\0\0', 'bcdb')], np.int32)
    assert signatures['serving_default'](letters=tf.constant(letters))['class'].numpy().tolist() == [1, 0]
    examples = [records.encode({'word': word}) for word in ('ie', 'bcdbcd', 'u')]
    assert signatures['examples:serving_default'](examples=tf.constant(examples))['class'].numpy().tolist() == [1, 0, 1]


def test_flags_that_are_given_take_precedence(words, tmp_path):
    (tmp_path / 'other.txt').write_text('aa consonants\nbbbb vowels\n')
    code, result, _ = words('--schedule=evaluate', '--eval_splits=train', '--data_dir=other', '--hparams=num_classes=2')
    assert code == 0 and result['train']['accuracy'] == 0
    flags = ('--hparams_set=run/hparams.json', '--hparams=eval_batch_size=4', *MODULES)
    code, result, _ = words('--schedule=evaluate', '--eval_splits=train', *flags)
    assert code == 0 and result['train']['accuracy'] == 1
    for flags, message in (
        (['--schedule=evaluate', '--hparams=learning_rate=0.3'], 'learning_rate was 0.1, now it is 0.3'),
        (['--schedule=predict', '--seed=6'], 'seed was 5, now it is 6'),
        (['--schedule=export', *POLYNOMIAL], 'model was "tests.runs.words", now it is "polynomial"'),
        (['--schedule=train', *MODULES, '--train_steps=61', '--seed=5'], 'batch_size was 2, now it is 4; eval_batch_size was'),
        (['--schedule=train_and_evaluate', *MODULES, HPARAMS, '--train_steps=61'], 'seed was 5, now it is 1'),
    ):
        code, result, err = words(*flags)
        assert code == 2 and result is None and 'From the run' not in (err if 'train' in flags[0] else ''), err
        assert 'run/hparams.json: ' in err.splitlines()[-1] and message in err.splitlines()[-1]


def test_a_run_of_before_has_no_dataset_json_and_a_training_writes_it_anew(words, original, tmp_path):
    file = tmp_path / 'run' / 'dataset.json'
    content = file.read_bytes()
    file.unlink()
    flags = ('--eval_splits=train', f'--data_dir={original}/data')
    code, result, err = words('--schedule=evaluate', *flags)
    assert code == 0 and result['train']['accuracy'] == 1, err
    code, _, err = words('--schedule=train', f'--data_dir={original}/data', *MODULES, HPARAMS, '--train_steps=60', '--seed=5')
    assert code == 0 and 'Nothing to train' in err and file.read_bytes() == content

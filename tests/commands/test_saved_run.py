"""Saved facts of a run's hyper-parameters and dataset, and their use by later commands."""

import copy
import functools
import hashlib
import json
import operator
import os
import pathlib
import re
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import trainer
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.common.runs import saved_dataset
from estimator_trainer.common.runs.saved_dataset import SavedDataset
from estimator_trainer.hparams import build
from tests.runs import words as words_module
from tests.shared import POLYNOMIAL

MODULES = ('--model=tests.runs.words', '--dataset=tests.runs.words')
HPARAMS = '--hparams=batch_size=2,eval_batch_size=5'
SAVED = ('results', 'hparams', 'dataset')


@pytest.fixture(scope='module')
def original(tmp_path_factory):
    """A directory with data.txt, data, and in `run` a run of tests/runs/words.py that has evaluated two splits."""
    directory = tmp_path_factory.mktemp('words')
    (directory / 'data.txt').write_text(words_module.WORDS)
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


def test_a_run_is_evaluated_without_its_flags_and_knows_its_classes(words, original):
    results, params, dataset = (json.loads((original / 'run' / f'{name}.json').read_text()) for name in SAVED)
    assert results['train']['accuracy'] == results['fold3']['accuracy'] == 1
    assert (params['num_classes'], params['batch_size'], params['seed']) == (2, 2, 5)
    assert dataset['metadata'] == {'class_names': ['consonants', 'vowels'], 'num_classes': 2}
    data_dir = os.path.realpath(original / 'data')
    assert dataset['data_dir'] == data_dir
    for schedule in ('evaluate', 'continuous_eval'):
        code, result, log = words(f'--schedule={schedule}', '--eval_splits=train,fold3')
        assert code == 0 and result == results
        assert f'From the run: {", ".join(MODULES)}, --data_dir={data_dir}, ' in log
    code, result, _ = words('--schedule=predict', '--predict_split=fold3')
    names = ('example_id', 'class', 'class_name', 'label', 'label_name')
    found = [tuple(line[name] for name in names) for line in read_lines(result['predictions'])]
    assert code == 0 and found == [(0, 1, 'vowels', 1, 'vowels'), (1, 0, 'consonants', 0, 'consonants')]


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
    signatures = tf2.saved_model.load(result['export']).signatures
    letters = np.array([[ord(letter) for letter in word] for word in ('ie\0\0', 'bcdb')], np.int32)
    answers = signatures['serving_default'](letters=tf.constant(letters))
    assert answers['class'].numpy().tolist() == [1, 0]
    assert answers['class_name'].numpy().tolist() == [b'vowels', b'consonants']
    examples = [records.encode({'word': word}) for word in ('ie', 'bcdbcd', 'u')]
    assert signatures['examples:serving_default'](examples=tf.constant(examples))['class'].numpy().tolist() == [1, 0, 1]


def test_given_flags_take_precedence(words, tmp_path):
    (tmp_path / 'other.txt').write_text('aa consonants\nbbbb vowels\n')
    differs = 'The split train differs from that which the run has evaluated: if the data was divided anew, the model may have'
    for flags in (
        ['--schedule=evaluate', '--hparams=num_classes=2'],
        ['--train_steps=60'],
    ):  # Of which nothing is left to train.
        code, result, err = words(*flags, '--eval_splits=train', '--data_dir=other')
        assert code == 0 and result['train']['accuracy'] == 0 and differs in err
    flags = ('--hparams_set=run/hparams.json', '--hparams=eval_batch_size=4', *MODULES)
    code, result, err = words('--schedule=evaluate', '--eval_splits=train', *flags)
    assert code == 0 and result['train']['accuracy'] == 1 and differs not in err
    for flags, message in (
        (['--schedule=evaluate', '--hparams=learning_rate=0.3'], 'learning_rate was 0.1, now it is 0.3'),
        (['--schedule=predict', '--seed=6'], 'seed was 5, now it is 6'),
        (['--schedule=export', *POLYNOMIAL], 'model was "tests.runs.words", now it is "polynomial"'),
        (
            ['--schedule=train', '--train_steps=61', '--hparams=batch_size=4,cache=false'],
            'batch_size was 2, now it is 4; cache was',
        ),
        (['--schedule=train_and_evaluate', *MODULES, HPARAMS, '--train_steps=61', '--seed=6'], 'seed was 5, now it is 6'),
    ):
        code, result, err = words(*flags)
        assert code == 2 and result is None, err
        assert 'run/hparams.json: ' in err.splitlines()[-1] and message in err.splitlines()[-1]


@pytest.fixture
def make(tmp_path):
    """Returns a prepared DataSource of words, with replaceable functions: make('text of data.txt', read=...)."""

    def call(text=words_module.WORDS, number=0, **functions):
        (tmp_path / f'data{number}.txt').write_text(text)
        module = types.SimpleNamespace(**{**vars(words_module), **functions})
        params = build.make_hparams('m', {}, 'd', words_module.get_params())
        return saved_dataset.prepare(DataSource(module, f'{tmp_path}/data{number}', params), None, trains=True)

    return call


def test_a_dataset_json_with_other_contents_than_those_written_is_reported(tmp_path, make):
    saved_dataset.saving(str(tmp_path), make(), False, ['fold3'])()
    file, expected = tmp_path / 'dataset.json', saved_dataset.load(str(tmp_path))
    content = json.loads(file.read_text())
    cure = '--schedule=train rewrites it if deleted'
    for *parents, key, value in (
        ('metadata', [1]),
        ('metadata', 'class_names', {'a': 1}),
        ('metadata', 'class_names', 0, 5),
        ('features', 'dict', 'letters', {'dict': {}}),
        ('features', 'dict', 'letters', {'dtype': 'int32', 'shape': [-5]}),
        ('features', 'dict', 'letters', {'dtype': 'no_such', 'shape': []}),
        ('records', None),
        ('sha256', []),
        ('data_dir', 1),
        ('evaluated', 'fold3', 1),
    ):
        changed = copy.deepcopy(content)
        functools.reduce(operator.getitem, parents, changed)[key] = value
        file.write_text(json.dumps(changed))
        with pytest.raises(RunError, match=f'/dataset.json: was changed after it was written: restore the file; {cure}'):
            saved_dataset.load(str(tmp_path))
        del changed['checksum']  # As in files of older versions.
        file.write_text(json.dumps(changed))
        with pytest.raises(RunError, match=f'/dataset.json: does not describe a dataset; {cure}'):
            saved_dataset.load(str(tmp_path))
    for text in ('', '{}', '[1]', '{"metadata": 3}'):
        file.write_text(text)
        with pytest.raises(RunError, match=f'/dataset.json.*; {cure}'):
            saved_dataset.load(str(tmp_path))
    del content['checksum']
    file.write_text(json.dumps(content))
    assert saved_dataset.load(str(tmp_path)) == expected


def test_data_with_different_metadata_is_rejected_where_it_matters(make):
    def prepare(trains, **metadata):
        return saved_dataset.prepare(source, SavedDataset(metadata, None, None, None), trains).params.metadata

    source, names = make(), ['consonants', 'vowels']
    refusal = 'differs from that of the data that the model was trained on: choose another --output_dir, or restore the data$'
    for trains in (True, False):
        with pytest.raises(RunError, match=f'^--dataset=d: class_names {refusal}'):
            prepare(trains, class_names=['a', 'b'], num_classes=2)
    with pytest.raises(RunError, match=f'^--dataset=d: mean {refusal}'):
        prepare(True, class_names=names, num_classes=2, mean=1)
    with pytest.raises(RunError, match=f'^--dataset=d: which rows of the file are held out {refusal}'):
        prepare(True, class_names=names, num_classes=2, moved_rows=[3])
    assert prepare(False, class_names=names, num_classes=2, mean=1)['mean'] == 1


def test_resuming_with_other_data_warns(tmp_path, make, caplog):
    sources = [make(), make(words_module.WORDS.replace('aa', 'oo'), 1)]
    warnings = []
    for source, is_resumed in ((0, False), (0, True), (1, False), (0, True), (0, True)):
        caplog.clear()
        saved_dataset.saving(str(tmp_path), sources[source], is_resumed)()
        warnings.append('The training data differs from the data that this model was trained on so far.' in caplog.text)
    assert warnings == [False, False, False, True, False]


def test_other_data_of_an_evaluated_split_is_warned_of_once(tmp_path, make, caplog):
    changed = make(words_module.WORDS.replace('aa', 'oo'), 1)
    text = 'The split fold3 differs from that which this run has evaluated so far'

    def save(source, *evaluated):
        caplog.clear()
        saved_dataset.saving(str(tmp_path), source, True, evaluated)()
        return text in caplog.text

    assert not save(make()) and not save(changed, 'fold3')  # An older version did not know which data it had.
    assert save(make(), 'train', 'fold3') and not save(changed) and not save(make(), 'fold3')  # Or trained alone meanwhile.
    saved = saved_dataset.load(str(tmp_path))
    caplog.clear()
    saved_dataset.warn_of_changes(make(), saved, ['fold3', 'train'])
    assert not caplog.text
    saved_dataset.warn_of_changes(changed, saved, ['fold3'])
    assert 'The split fold3 differs from that which the run has evaluated: ' in caplog.text


@pytest.mark.parametrize(
    'parse, message',
    [
        (lambda params, _: params.metadata['no_such'], r"predict and export will fail: --dataset=d: .*'no_such' \(.*, line"),
        (lambda *_: tf.sparse.from_dense([1]), 'predict and export will fail: .* x must be a tensor, not a SparseTensor'),
        (
            lambda _, record: record['i'],
            '--dataset=d: --input and export will need the data: its records or features contain Ragged',
        ),
    ],
)
def test_restrictions_without_the_data_are_logged(tmp_path, make, caplog, parse, message):
    def read(split, data_dir, params):
        return tf.data.Dataset.from_tensors({'i': 1, 'ragged': tf.ragged.constant([[1], []])} if 'Ragged' in message else '')

    source = make(read=read, parse=lambda mode, params, record: ({'x': parse(params, record)}, {}))
    saved_dataset.saving(str(tmp_path), source, is_resumed=False)()
    assert re.search(message, caplog.text), caplog.text
    assert saved_dataset.load(str(tmp_path)).specs is None

"""What a run keeps of its dataset, and what it uses of that."""

import hashlib
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from common.errors import RunError
from common.runs import saved_dataset

pytestmark = pytest.mark.slow

MODULE = '''
"""A model and a dataset of words, which are told apart by their letters."""

import json
import os

import tensorflow.compat.v1 as tf

from common.data import records


def get_params():
    return {'num_classes': 0, 'batch_size': 4, 'learning_rate': 0.1}


def prepare(data_dir, params):
    if not records.is_written(data_dir):
        words = [line.split() for line in open(data_dir + '.txt')]
        rows = [{'word': word, 'name': name, 'number': i} for i, (word, name) in enumerate(words)]
        records.write(data_dir, {'train': rows, 'fold3': rows[:2]})


def metadata(data_dir, params):
    names = sorted({line.split()[1] for line in open(data_dir + '.txt')})
    return {'class_names': names, 'num_classes': len(names)}


def read(split, data_dir, params):
    return records.read(data_dir, split)


def parse(mode, params, record):
    spec = {'word': tf.io.FixedLenFeature([], tf.string), 'number': tf.io.FixedLenFeature([], tf.int64, -1)}
    example = tf.io.parse_single_example(record, spec)
    features = {'letters': tf.cast(tf.io.decode_raw(example['word'], tf.uint8), tf.int32), 'example_id': example['number']}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return features, None
    name = tf.io.parse_single_example(record, {'name': tf.io.FixedLenFeature([], tf.string)})['name']
    return features, {'label': tf.argmax(tf.cast(tf.equal(params.metadata['class_names'], name), tf.int32), 0)}


def read_input(path, params):
    for number, line in enumerate(open(path), 1):
        yield {'line': number}, records.encode({'word': line.strip()})


def model(features, labels, mode, params):
    assert 'example_id' not in features
    counts = tf.reduce_sum(tf.one_hot(features['letters'], 256), 1) * tf.cast(tf.range(256) > 0, tf.float32)
    logits = tf.layers.dense(counts, params.num_classes)
    predictions = {'class': tf.argmax(logits, 1), 'logits': logits}
    if labels is None:
        return predictions, None
    return predictions, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)


def eval_metrics(features, labels, predictions, params):
    return {'accuracy': tf.metrics.accuracy(labels['label'], predictions['class'])}
'''
WORDS = 'aa vowels\nbbbb consonants\neoi vowels\ncdfg consonants\nu vowels\ntt consonants\n'


@pytest.fixture
def command(tmp_path, monkeypatch, execute):
    """Calls the trainer on the module above: command('--schedule=train') -> (exit code, result, stderr)."""
    import trainer

    name = f'with_metadata_{abs(hash(str(tmp_path)))}'
    (tmp_path / name).mkdir()
    (tmp_path / name / 'words.py').write_text(MODULE)
    (tmp_path / 'data.txt').write_text(WORDS)
    monkeypatch.syspath_prepend(str(tmp_path))
    fixed = [f'--model={name}.words', f'--dataset={name}.words', f'--data_dir={tmp_path}/data', f'--output_dir={tmp_path}/o']

    def call(*flags):
        return execute(trainer.main, ['trainer.py', *fixed, *flags])

    return call


def train(command, *flags):
    code, result, err = command('--train_steps=60', '--save_checkpoints_steps=60', '--eval_splits=train,fold3', *flags)
    assert code == 0, err
    return result


def lines(path):
    return [json.loads(line) for line in open(path)]


def test_metadata_sets_hyper_parameters_and_reaches_parser_and_model(command, tmp_path):
    result = train(command)
    assert result['train']['accuracy'] == result['fold3']['accuracy'] == 1
    assert json.load(open(tmp_path / 'o' / 'hparams.json'))['num_classes'] == 2
    assert json.load(open(tmp_path / 'o' / 'dataset.json'))['metadata'] == {
        'class_names': ['consonants', 'vowels'],
        'num_classes': 2,
    }


def test_predictions_of_a_split_of_any_name_have_ids_and_class_names(command):
    train(command)
    code, result, _ = command('--schedule=predict', '--predict_split=fold3')
    assert code == 0
    found = [(line['example_id'], line['class'], line['class_name']) for line in lines(result['predictions'])]
    assert found == [(0, 1, 'vowels'), (1, 0, 'consonants')]


def test_files_are_predicted_and_a_model_exported_without_the_data(command, tmp_path):
    train(command)
    files = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((tmp_path / 'data').glob('train-*.tfrecord'))]
    data_sha256 = hashlib.sha256(' '.join(files).encode()).hexdigest()
    shutil.rmtree(tmp_path / 'data')
    (tmp_path / 'data.txt').unlink()
    (tmp_path / 'input.txt').write_text('ie\nbcdbcd\n')
    code, result, err = command('--schedule=predict', f'--input={tmp_path}/input.txt')
    assert code == 0, err
    assert [line['class_name'] for line in lines(result['predictions'])] == ['vowels', 'consonants']

    code, result, err = command('--schedule=export')
    assert code == 0, err
    extra = pathlib.Path(result['export']) / 'assets.extra'
    assert (extra / 'class_names.txt').read_text() == 'consonants\nvowels\n'
    card = json.loads((extra / 'model_card.json').read_text())
    assert card['global_step'] == 60 and card['hparams']['num_classes'] == 2
    assert card['metrics']['fold3']['accuracy'] == 1
    assert card['versions']['tensorflow'] == tf.__version__
    assert card['data_sha256'] == data_sha256
    text = (extra / 'model_card.md').read_text()
    assert data_sha256 in text and '| 2 classes | consonants, vowels |' in text

    signatures = tf.saved_model.load(result['export']).signatures
    letters = np.array([[ord(letter) for letter in word] for word in ('ie\0\0', 'bcdb')], np.int32)
    assert signatures['serving_default'](letters=tf.constant(letters))['class'].numpy().tolist() == [1, 0]
    examples = [
        tf.train.Example(
            features=tf.train.Features(feature={'word': tf.train.Feature(bytes_list=tf.train.BytesList(value=[word]))})
        ).SerializeToString()
        for word in (b'ie', b'bcdbcd', b'u')
    ]
    assert signatures['examples:serving_default'](examples=tf.constant(examples))['class'].numpy().tolist() == [1, 0, 1]


@pytest.mark.parametrize('schedule', ['train', 'evaluate'])
def test_data_with_other_classes_is_refused(command, tmp_path, schedule):
    train(command)
    shutil.rmtree(tmp_path / 'data')
    (tmp_path / 'data.txt').write_text(WORDS + '. dots\n')
    code, _, err = command(f'--schedule={schedule}', '--train_steps=90', '--eval_splits=train')
    assert code == 1 and err.splitlines()[-1].endswith(
        'class_names differs from that of the data that the model was trained on: '
        'choose another --output_dir, or restore the data'
    )


def test_a_training_that_resumes_with_other_data_warns_of_it(command, tmp_path):
    train(command)
    shutil.rmtree(tmp_path / 'data')
    (tmp_path / 'data.txt').write_text(WORDS.replace('aa', 'oo'))
    code, _, err = command('--schedule=train', '--train_steps=62')
    assert code == 0 and 'The training data is not the data that this model was trained on so far.' in err
    code, _, err = command('--schedule=train', '--train_steps=64')
    assert code == 0 and 'trained on so far' not in err


def test_a_hyper_parameter_that_contradicts_the_data_is_refused(command):
    code, _, err = command('--hparams=num_classes=3', '--train_steps=1')
    assert code == 2 and err.splitlines()[-1].endswith('the data has num_classes=2, not 3: omit num_classes')


def test_training_on_a_split_of_another_name(command):
    code, _, err = command('--schedule=train', '--hparams=train_split=fold3', '--num_epochs=2')
    assert code == 0 and 'Saving checkpoints for 1 into' in err


def test_a_run_of_before_has_no_dataset_json_and_is_used_with_its_data(command, tmp_path):
    train(command)
    (tmp_path / 'o' / 'dataset.json').unlink()
    code, result, err = command('--schedule=evaluate', '--eval_splits=train')
    assert code == 0 and result['train']['accuracy'] == 1, err


@pytest.mark.parametrize('content', ['', '{}', '[1]', '{"metadata": 3}', '{"metadata": {}, "features": 1, "records": 2}'])
def test_a_corrupt_dataset_json_is_reported(command, tmp_path, content):
    train(command)
    (tmp_path / 'o' / 'dataset.json').write_text(content)
    code, _, err = command('--schedule=evaluate', '--eval_splits=train')
    assert code == 1
    assert 'o/dataset.json' in err.splitlines()[-1] and 'if it is deleted' in err.splitlines()[-1]


@pytest.mark.parametrize(
    'path, value',
    [
        (['metadata'], {}),
        (['metadata', 'class_names'], {'a': 1}),
        (['metadata', 'class_names', 0], 5),
        (['features', 'dict', 'letters'], {'dtype': 'int32', 'shape': ['a']}),
        (['sha256'], []),
    ],
)
def test_a_dataset_json_with_other_contents_than_those_written_is_reported(command, tmp_path, path, value):
    train(command)
    file = tmp_path / 'o' / 'dataset.json'
    content = json.loads(file.read_text())
    *parents, key = path
    item = content
    for parent in parents:
        item = item[parent]
    item[key] = value
    file.write_text(json.dumps(content))
    for flags in (['--schedule=evaluate', '--eval_splits=train'], ['--schedule=export']):
        code, _, err = command(*flags)
        assert code == 1 and 'Traceback' not in err
        assert err.splitlines()[-1].endswith(
            'o/dataset.json: was changed after it was written: restore the file; '
            '--schedule=train writes it anew if it is deleted'
        )


def test_a_dataset_json_of_before_has_no_checksum(command, tmp_path):
    train(command)
    file = tmp_path / 'o' / 'dataset.json'
    content = json.loads(file.read_text())
    del content['checksum']
    file.write_text(json.dumps(content))
    assert command('--schedule=export')[0] == 0


def test_wrong_contents_of_a_dataset_json_without_a_checksum_are_reported(command, tmp_path):
    train(command)
    file = tmp_path / 'o' / 'dataset.json'
    content = file.read_text()
    for *parents, key, value in (
        ('metadata', [1]),
        ('metadata', 'class_names', {'a': 1}),
        ('metadata', 'class_names', 0, 5),
        ('features', {'tuple': []}),
        ('features', 'dict', 'letters', {'dict': {}}),
        ('features', 'dict', 'letters', {'dtype': 'int32', 'shape': ['a']}),
        ('features', 'dict', 'letters', {'dtype': 'int32', 'shape': [-5]}),
        ('features', 'dict', 'letters', {'dtype': 'no_such', 'shape': []}),
        ('records', None),
        ('sha256', []),
    ):
        changed = json.loads(content)
        del changed['checksum']
        item = changed
        for parent in parents:
            item = item[parent]
        item[key] = value
        file.write_text(json.dumps(changed))
        with pytest.raises(RunError, match='o/dataset.json: does not describe a dataset; --schedule=train writes it anew'):
            saved_dataset.load(str(tmp_path / 'o'))


def test_a_deleted_dataset_json_is_written_anew_even_if_there_is_nothing_to_train(command, tmp_path):
    train(command)
    file = tmp_path / 'o' / 'dataset.json'
    content = file.read_bytes()
    file.unlink()
    code, _, err = command('--schedule=train', '--train_steps=60')
    assert code == 0 and 'Nothing to train' in err and file.read_bytes() == content


@pytest.mark.parametrize(
    'old, new, message',
    [
        (
            'if mode == tf.estimator.ModeKeys.PREDICT:',
            "if mode == tf.estimator.ModeKeys.PREDICT and params.metadata['no_such']:",
            "--schedule=predict and export will fail: --dataset=.*KeyError: 'no_such' \\(.*words.py, line .*\\)",
        ),
        (
            "{'letters': tf.cast(",
            "{'bad': tf.sparse.from_dense([1]), 'letters': tf.cast(",
            '--schedule=predict and export will fail: --dataset=.*: the feature bad must be a tensor, not a SparseTensor',
        ),
        (
            'return records.read(data_dir, split)',
            "return records.read(data_dir, split).map(lambda record: {'record': record, 'x': tf.ragged.constant([[1], []])})",
            '--input and export will need the data: its records contain RaggedTensorSpec',
        ),
    ],
)
def test_what_will_not_work_without_the_data_is_logged(command, tmp_path, old, new, message):
    path = next(tmp_path.glob('*/words.py'))
    parse = 'def parse(mode, params, record):\n'
    taken = parse + '    record = record if isinstance(record, tf.Tensor) else record["record"]\n'
    path.write_text(MODULE.replace(old, new, 1).replace(parse, taken))
    code, _, err = command('--train_steps=1', '--schedule=train', '--hparams=batch_size=1')
    assert code == 0 and re.search(message, err), err

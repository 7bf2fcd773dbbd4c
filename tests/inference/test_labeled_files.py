"""Evaluation of the files of --input."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.labeled_files import make_evaluator
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.common.runs.diagnosis import diagnose_errors
from estimator_trainer.hparams import build
from tests.linear import X, Y
from tests.shared import failed, refused


def read_labeled(path, params):
    for number, line in enumerate(open(path), 1):
        x, y, label = (float(word) for word in line.split())
        example = records.encode({'x': [x, y], 'y': label})
        yield {'line': number}, example if x < 5 else RunError(f'{path}: line {number}: is too large')


def parse_with(parse_example, mode, record):
    x = parse_example(record, {'x': tf.io.FixedLenFeature([2], tf.float32)})['x']
    texts = tf.where(x < -5, tf.fill(tf.shape(x), 'none'), tf.fill(tf.shape(x), '0'))
    features = {'x': x + tf.strings.to_number(texts)}  # An error that labels alone do not raise.
    if mode == tf.estimator.ModeKeys.PREDICT:
        return features, None
    y = parse_example(record, {'y': tf.io.FixedLenFeature([], tf.float32)})['y']
    check = tf.debugging.Assert(tf.reduce_all(y < 5), ['Key: y. Must be less than 5'])
    with tf.control_dependencies([check]):
        return features, {'y': tf.identity(y)}


PARSERS = {
    'one by one': {'parse': lambda mode, params, record: parse_with(tf.io.parse_single_example, mode, record)},
    'in batches': {'parse_batch': lambda mode, params, record: parse_with(tf.io.parse_example, mode, record)},
}


def make_source(**functions):
    functions = {'read': lambda *_: tf.data.Dataset.from_tensor_slices([b'']), **functions}
    params = build.make_hparams('m', {}, 'd', {}, text='eval_batch_size=4')
    return DataSource(types.SimpleNamespace(**functions), '', params)


def write(path, rows):
    path.write_text(''.join(f'{x[0]} {x[1]} {y}\n' for x, y in rows))
    return str(path)


@pytest.mark.parametrize('parser', PARSERS)
def test_the_metrics_are_those_of_all_examples_of_the_files_and_the_first_that_is_wrong_is_named(trained, tmp_path, parser):
    source = make_source(read_labeled=read_labeled, **PARSERS[parser])
    (tmp_path / 'in').mkdir()
    first, second = (write(tmp_path / 'in' / name, [*zip(X, Y)][part]) for name, part in (('a', slice(7)), ('b', slice(7, 10))))
    before = sorted(tmp_path.rglob('*'))
    evaluator = make_evaluator(trained, source, str(tmp_path / 'in'))
    found = evaluator.evaluate(f'{tmp_path}/model.ckpt-4')
    errors = X @ tf.train.load_variable(f'{tmp_path}/model.ckpt-4', 'w')[:, 0] - Y
    assert found['loss'] == pytest.approx(np.square(errors).mean(), rel=1e-5) and found['global_step'] == 4
    assert sorted(tmp_path.rglob('*')) == before  # Not even events are written.
    found = make_evaluator(trained, source, str(tmp_path / 'in'), max_steps=1).evaluate(f'{tmp_path}/model.ckpt-4')
    assert found['loss'] == pytest.approx(np.square(errors[:4]).mean(), rel=1e-5)

    pattern = f'{tmp_path}/in/*'
    for x, y, problem in ((0, 5, 'Key: y. Must be less than 5'), (7, 0, 'is too large: correct it, or leave it out')):
        write(tmp_path / 'in' / 'b', [(X[0], 0), ([x, 0], y), (X[0], 0)])
        assert failed(make_evaluator, trained, source, pattern) == f'{second}: line 2: {problem}'
    write(tmp_path / 'in' / 'b', [*zip(X[:5], Y), ([-9, 0], 0)])
    evaluates = types.SimpleNamespace(evaluates=True, trains=False, predicts=False)
    experiment = types.SimpleNamespace(source=source, schedule=evaluates, options=types.SimpleNamespace(input=pattern))
    with pytest.raises(RunError, match=f'^{second}: line 6: StringToNumberOp could not correctly convert string: none'):
        with diagnose_errors(experiment):
            make_evaluator(trained, source, pattern).evaluate(f'{tmp_path}/model.ckpt-4')
    with pytest.raises(tf.errors.InvalidArgumentError):
        with diagnose_errors(experiment):  # Of the model, not of a file.
            raise tf.errors.InvalidArgumentError(None, None, 'At {{node model/Reshape}}: a message')
    write(tmp_path / 'in' / 'a', [])
    assert refused(make_evaluator, trained, source, first) == f'--input={first}: has no examples'
    with pytest.raises(UsageError, match='no such file'):
        make_evaluator(trained, source, f'{tmp_path}/none')


def test_tfrecord_files_need_no_function_but_others_do(trained, tmp_path):
    source = make_source(**PARSERS['in batches'])
    with tf.io.TFRecordWriter(f'{tmp_path}/a.tfrecord') as writer:
        for x, y in zip(X, Y):
            writer.write(records.encode({'x': x, 'y': y}))
        writer.write(records.encode({'x': x}))
    message = failed(make_evaluator, trained, source, f'{tmp_path}/a.tfrecord')
    assert message.startswith(f'{tmp_path}/a.tfrecord: record 10: ') and ' y (data type: float) is required' in message
    kinds = 'takes no files other than *.tfrecord to evaluate: it has no read_labeled()'
    path = write(tmp_path / 'a.txt', [])
    assert refused(make_evaluator, trained, source, path) == f'--input={path}: --dataset=d {kinds}'

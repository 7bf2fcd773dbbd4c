"""--record_margins: what a margin is, and that the file has exactly those of the steps up to a checkpoint."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.options.table import Options
from estimator_trainer.common.storage import margins_file
from estimator_trainer.common.training import margins, model_fn
from estimator_trainer.common.training.training import Training
from estimator_trainer.hparams import build
from tests.shared import refused

RANDOM = np.random.RandomState(0)
X, Y = RANDOM.normal(size=[10, 3]).astype(np.float32), RANDOM.randint(0, 4, 10)
W = RANDOM.normal(size=[3, 4]).astype(np.float32)


def model(features, labels, mode, params):
    logits = tf.matmul(features['x'], tf.get_variable('w', initializer=W))
    predictions = {'class': tf.argmax(logits, 1), 'probabilities': tf.nn.softmax(logits)}
    return predictions, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)


def by_hand(logits, labels):
    rows = np.arange(len(labels))
    others = logits.copy()
    others[rows, labels] = -np.inf
    return logits[rows, labels] - others.max(1)


def make_estimator(directory, steps, towers=0, rate=0.0, loop=1):
    params = build.make_hparams('m', {}, 'd', {}, '', f'batch_size=5,optimizer=sgd,learning_rate={rate}')
    options = Options(save_summary_steps=4, record_margins=True, steps_per_loop=loop)
    devices = [f'/cpu:{i}' for i in range(towers)]
    fn = model_fn.ModelFn(
        types.SimpleNamespace(model=model), devices, Training(options, total_steps=steps, checkpoint_periods=[6])
    )
    session = tf.ConfigProto(device_count={'CPU': 4})
    return tf.estimator.Estimator(
        fn, config=tf.estimator.RunConfig(str(directory), session_config=session, log_step_count_steps=None), params=params
    )


def input_fn(start=0):
    features, labels = {'x': X}, {'label': Y.astype(np.int32)}
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().skip(start).batch(5)


def test_a_margin_is_the_logit_of_the_label_minus_the_largest_other_one(session):
    logits = np.float32([[3, 1, 2], [1, 5, 4.5], [0, 0, 0], [200, 0, 0]])
    found = session.run(margins.margins(tf.constant([0, 2, 1, 1]), tf.nn.softmax(logits)))
    np.testing.assert_allclose(found, [1, -0.5, 0, np.log(np.finfo(np.float32).tiny)], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('towers, loop', [(0, 1), (2, 1), (0, 5)])
def test_the_file_has_the_margin_of_each_example_at_each_step(tmp_path, towers, loop, monkeypatch):
    monkeypatch.setattr(margins, '_MAX_STEPS', 4)  # So that it is written in parts.
    make_estimator(tmp_path, 11, towers, loop=loop).train(input_fn, max_steps=11)
    found = margins_file.read(str(tmp_path), 1000)
    np.testing.assert_allclose(found, np.resize(by_hand(X @ W, Y), 55), rtol=1e-3, atol=1e-3)


def test_what_was_written_after_the_restored_checkpoint_is_replaced(tmp_path):
    make_estimator(tmp_path / 'whole', 11, rate=0.1).train(input_fn, max_steps=11)
    make_estimator(tmp_path / 'parts', 6, rate=0.1).train(input_fn, max_steps=6)
    margins_file.append(str(tmp_path / 'parts'), np.full(7, 9.0))  # As a process that is killed may leave it.
    make_estimator(tmp_path / 'parts', 11, rate=0.1).train(lambda: input_fn(30), max_steps=11)
    whole, parts = (margins_file.read(str(tmp_path / name), 1000) for name in ('whole', 'parts'))
    assert len(whole) == 55 and np.unique(whole).size > 40
    np.testing.assert_array_equal(parts, whole)


def test_steps_that_were_not_recorded_have_no_margins(tmp_path):
    margins_file.append(str(tmp_path), np.float32([1, 2]))
    margins_file.restart(str(tmp_path), 4)
    margins_file.append(str(tmp_path), np.float32([5]))
    np.testing.assert_array_equal(margins_file.read(str(tmp_path), 10), np.float16([1, 2, np.nan, np.nan, 5]))
    margins_file.restart(str(tmp_path), 1)
    np.testing.assert_array_equal(margins_file.read(str(tmp_path), 10), np.float16([1]))


@pytest.mark.parametrize(
    'labels, predictions, text, output_dir, message',
    [
        ({}, {}, 'mixup_alpha=0.2', '', '--record_margins excludes mixup_alpha=0.2: a mixed example has two labels: omit one'),
        ({}, {}, '', 'gs://bucket/x', '--output_dir=gs://bucket/x must be on this machine'),
        ({'y': [1.0]}, {}, '', '', '--record_margins needs a label of classes named label, int [batch]; --dataset=d has: y'),
        ({'label': [1.0]}, {}, '', '', 'named label, int [batch]; --dataset=d has a tensor of float32 (1,)'),
        ({'label': [1]}, {'value': [1.0]}, '', '', 'class and probabilities, float [batch, classes]; --model=m has: value'),
    ],
)
def test_what_has_no_margins_is_refused(labels, predictions, text, output_dir, message):
    params = build.make_hparams('m', {}, 'd', {}, '', text)

    def make():
        tensors = ({name: tf.constant(value) for name, value in values.items()} for values in (labels, predictions))
        margins.Margins(*tensors, params, output_dir, [])

    assert message in refused(make)

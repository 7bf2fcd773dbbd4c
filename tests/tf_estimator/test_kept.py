"""Calls of predict and evaluate in a loop keep their graph where it is right, and give the same numbers, bit by bit."""

import threading

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import estimator as estimators

est = tf.estimator
FACTOR = 2.0
MODES = est.ModeKeys


def dense(x):
    return tf.layers.dense(tf.layers.dense(x, 16, tf.nn.relu), 3)


def images(x):
    net = tf.nn.relu(tf.layers.conv2d(tf.reshape(x, [-1, 2, 2, 2]), 8, 2, padding='same'))
    return tf.layers.dense(tf.layers.flatten(tf.layers.batch_normalization(net)), 3)


def recurrent(x):
    return tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(4), tf.expand_dims(x, 2), dtype=tf.float32)[0]


def table(x):
    words = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['0', '1'], [1, 2]), 0)
    embedding = tf.get_variable('embedding', [3, 4])
    return tf.nn.embedding_lookup(embedding, words.lookup(tf.as_string(tf.cast(x, tf.int64)))) * FACTOR


def noisy(x):
    return tf.layers.dropout(dense(x), training=True)


def counting(x):
    count = tf.get_variable('count', [], initializer=tf.zeros_initializer(), collections=[tf.GraphKeys.LOCAL_VARIABLES])
    return dense(x) + tf.assign_add(count, 1)


def python(x):
    return dense(x) + tf.numpy_function(lambda value: value * FACTOR, [x], tf.float32)[:, :3]


def make(directory, network, **params):
    def model_fn(features, labels, mode, params):
        y = network(features['x']) * params.get('scale', 1.0)
        if mode == MODES.PREDICT:
            return est.EstimatorSpec(mode, {'y': y, 'x': features['x']})
        loss = tf.reduce_mean(y**2)
        return est.EstimatorSpec(
            mode, loss=loss, train_op=tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        )

    return est.Estimator(model_fn, str(directory), est.RunConfig(tf_random_seed=1), params)


def data(seed, rows=5, batch=2):
    x = np.random.RandomState(seed).uniform(0, 2, [rows, 8]).astype(np.float32)
    return lambda: tf2.data.Dataset.from_tensor_slices({'x': x}).shuffle(3).batch(batch)


def outputs(estimator, input_fn, **arguments):
    return [found['y'].tobytes() for found in estimator.predict(input_fn, **arguments)]


def plain(estimator, input_fn, **arguments):
    return outputs(estimator, input_fn, hooks=[tf.train.SessionRunHook()], **arguments)  # Hooks need a graph of their own.


@pytest.fixture
def built(monkeypatch):
    """The graphs that have been built."""
    graphs, call = [], estimators.Estimator._call_model_fn

    def counted(*args, **kwargs):
        graphs.append(tf.get_default_graph())
        return call(*args, **kwargs)

    monkeypatch.setattr(estimators.Estimator, '_call_model_fn', counted)
    return graphs


@pytest.mark.parametrize('network', [images, recurrent, table, noisy, counting, python])
def test_predictions_in_a_loop_are_those_of_separate_calls_bit_by_bit(tmp_path, built, network):
    estimator = make(tmp_path, network).train(data(0), steps=2)
    expected = [plain(estimator, data(seed)) for seed in range(3)]
    built.clear()
    assert [outputs(estimator, data(seed)) for seed in range(3)] == expected
    assert len(built) == (3 if network in (noisy, counting, python) else 2)


def test_what_changes_between_calls_counts(tmp_path, built, monkeypatch):
    estimator = make(tmp_path, table, scale=1.0).train(data(0), steps=2)

    def check():
        found = [outputs(estimator, data(1)) for _ in range(3)]
        assert found == [plain(estimator, data(1))] * 3
        return found[0]

    seen = [check()]
    monkeypatch.setitem(globals(), 'FACTOR', 3.0)
    seen.append(check())
    estimator._params['scale'] = 0.5
    seen.append(check())
    first = estimator.latest_checkpoint()
    make(tmp_path, table).train(data(0), steps=2)
    seen.append(check())
    assert len({*map(tuple, seen)}) == 4
    assert outputs(estimator, data(1), checkpoint_path=first) == seen[2]
    built.clear()
    for rows, batch in ((4, 2), (6, 3), (1, 1)):
        assert outputs(estimator, data(2, rows, batch)) == plain(estimator, data(2, rows, batch))
    assert [{*found} for found in estimator.predict(data(1, 1), predict_keys=['y'])] == [{'y'}]
    batches = [*estimator.predict(data(1), yield_single_examples=False)]
    assert [batch['y'].shape[0] for batch in batches] == [2, 2, 1]


def test_an_override_of_latest_checkpoint_is_not_asked(tmp_path):  # As by Estimator itself.
    class Own(est.Estimator):
        def latest_checkpoint(self):
            return self.answer

    estimator = make(tmp_path, dense)
    first = estimator.train(data(0), steps=1).latest_checkpoint()
    expected = plain(estimator.train(data(0), steps=1), data(1))
    assert outputs(estimator, data(1), checkpoint_path=first) != expected
    for answer in (first, None):
        own = Own(estimator._model_fn, config=estimator.config, params=estimator.params)
        own.answer = answer
        assert [outputs(own, data(1)) for _ in range(3)] == [expected] * 3
        assert [own.evaluate(data(1))['global_step'] for _ in range(3)] == [2] * 3


def test_an_input_that_the_model_sees_otherwise_than_by_features_is_not_left_out(tmp_path):
    seen = {}

    def model_fn(features, labels, mode):
        bias = tf.get_variable('bias', [], initializer=tf.zeros_initializer())
        added = tf.get_collection('added')[0] if mode == MODES.PREDICT else 0.0
        loss = tf.reduce_mean(features + bias)
        return est.EstimatorSpec(mode, features + bias + added, loss, tf.assign_add(tf.train.get_global_step(), 1))

    def input_fn(value=0.0):
        tf.add_to_collection('added', tf.constant(value))
        seen[value] = seen.get(value, 0) + 1
        return tf2.data.Dataset.from_tensors(np.float32([1]))

    estimator = est.Estimator(model_fn, str(tmp_path)).train(input_fn, steps=1)
    found = [next(estimator.predict(lambda value=value: input_fn(value))) for value in (1.0, 2.0, 3.0, 4.0)]
    assert found == [2, 3, 4, 5] and [seen[value] for value in (1.0, 2.0, 3.0, 4.0)] == [1, 1, 1, 1]


def test_generators_that_are_mixed_left_or_in_threads_have_their_own_input_and_checkpoint(tmp_path, built):
    estimator = make(tmp_path, dense).train(data(0), steps=2)
    expected = {seed: plain(estimator, data(seed)) for seed in range(6)}
    for _ in range(2):
        outputs(estimator, data(0))
    one, other, left = (estimator.predict(data(seed)) for seed in (1, 2, 3))
    next(left)
    mixed = [(a['y'].tobytes(), b['y'].tobytes()) for a, b in zip(one, other)]
    assert [*zip(*mixed)] == [tuple(expected[1]), tuple(expected[2])]
    late = estimator.predict(data(4))
    start = next(late)['y'].tobytes()
    make(tmp_path, dense).train(data(0), steps=3)
    for _ in range(3):
        assert outputs(estimator, data(1)) == plain(estimator, data(1)) != expected[1]
    assert [start, *(found['y'].tobytes() for found in late)] == expected[4]

    expected = {seed: plain(estimator, data(seed)) for seed in range(6)}
    found = {}
    threads = [threading.Thread(target=lambda i=i: found.update({i: outputs(estimator, data(i))})) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def events(directory):
    """Returns the values of an evaluation's event files, without those of time."""
    found = (event for path in sorted(directory.glob('*')) for event in tf.train.summary_iterator(str(path)))
    return [(event.step, repr(event.summary)) for event in found if event.HasField('summary')]


@pytest.mark.parametrize('network', [table, noisy, python])
def test_evaluations_in_a_loop_are_those_of_separate_calls_bit_by_bit(tmp_path, built, network):
    estimator, found, expected = make(tmp_path, network), [], []
    checkpoints = [estimator.train(data(0), steps=1).latest_checkpoint() for _ in range(3)]
    built.clear()
    for seed, checkpoint in enumerate(checkpoints):
        found.append(estimator.evaluate(data(seed), seed or None, checkpoint_path=checkpoint, name='kept'))
    assert len(built) == (3 if network is python else 2)
    for seed, checkpoint in enumerate(checkpoints):
        hooks = [tf.train.SessionRunHook()]
        expected.append(estimator.evaluate(data(seed), seed or None, hooks, checkpoint_path=checkpoint, name='plain'))
    assert repr(found) == repr(expected)
    assert events(tmp_path / 'eval_kept') == events(tmp_path / 'eval_plain') != []


def test_evaluations_after_each_checkpoint_keep_their_graph_and_find_empty_inputs(tmp_path, built):
    estimator = make(tmp_path, dense)
    estimator._config = estimator._config.replace(save_checkpoints_steps=1)
    spec = est.EvalSpec(data(1), steps=None, throttle_secs=0, start_delay_secs=0)
    metrics, _ = est.train_and_evaluate(estimator, est.TrainSpec(lambda: data(0)().repeat(), 4), spec)
    assert len(built) == 3 and metrics['global_step'] == 4  # One to train, and one of an evaluation that is not kept.
    assert repr(metrics) == repr(estimator.evaluate(data(1), hooks=[tf.train.SessionRunHook()]))
    for _ in range(3):
        with pytest.raises(ValueError, match='The evaluation input is empty: there is nothing to evaluate'):
            estimator.evaluate(data(1, rows=0))


def test_features_that_are_arrays_are_evaluated_and_predicted_again(tmp_path):
    estimator = make(tmp_path, dense).train(data(0), steps=2)
    x = np.ones([2, 8], np.float32)
    assert len({repr(estimator.evaluate(lambda: {'x': x}, 1)) for _ in range(3)}) == 1
    found = [next(estimator.predict(lambda: {'x': tf.constant(x), 'more': x}, ['y']))['y'].tobytes() for _ in range(3)]
    assert found == [found[0]] * 3

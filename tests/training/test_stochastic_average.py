"""Stochastic weight averaging, and the statistics of batch norm for averaged weights."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.keras.layers import collect_keras_layers
from estimator_trainer.common.training import model_fn
from estimator_trainer.common.training.recalibration import Recalibration
from estimator_trainer.common.training.stochastic_average import check_steps, with_averages
from estimator_trainer.hparams import build
from tests.cluster import tiny_data
from tests.cluster.tasks import TINY
from tests.linear import X, check_loop, deep, gradient, input_fn, loss_of, make_estimator, train_in_session
from tests.shared import assert_equal, copy_without, read_weights, refused

SWA = 'StochasticWeightAverage'


def weights(steps):
    """Returns the weights after 0, 1, ... steps of the linear model."""
    found = [np.array([1.0, 2.0])]
    for step in range(steps):
        found.append(found[-1] - 0.1 * gradient(found[-1], step))
    return found


@pytest.mark.parametrize(
    'start, every, steps, averaged',
    [(2, 2, 6, [2, 4, 6]), (2, 2, 5, [2, 4]), (3, 4, 6, [3]), (5, 1, 4, [4]), (1, 1, 3, [1, 2, 3])],
)
def test_the_average_is_the_mean_at_regular_steps_and_before_the_weights_themselves(tmp_path, start, every, steps, averaged):
    estimator = make_estimator(tmp_path, 2, text=f',swa_start={start},swa_every={every}')
    found, _ = train_in_session(estimator, steps)
    of_steps = weights(steps)
    np.testing.assert_allclose(found['w'][:, 0], of_steps[steps], rtol=1e-5)
    np.testing.assert_allclose(found[f'w/{SWA}'][:, 0], np.mean([of_steps[i] for i in averaged], 0), rtol=1e-5)


def test_evaluations_and_predictions_have_the_averages(tmp_path):
    estimator = make_estimator(tmp_path, text=',swa_start=2,swa_every=2')
    estimator.train(input_fn(), max_steps=6)
    average = np.mean(weights(6)[2::2], 0)
    assert estimator.evaluate(input_fn(repeat=False))['loss'] == pytest.approx(loss_of(average), rel=1e-5)
    predicted = [found['y'] for found in estimator.predict(lambda: tf.data.Dataset.from_tensors({'x': X}))]
    np.testing.assert_allclose(predicted, X @ average, rtol=1e-4)


def test_a_loop_has_the_bits_of_single_steps(tmp_path):
    text = ',swa_start=2,swa_every=2,gradient_accumulation_steps=3'
    _, after = check_loop(make_estimator(tmp_path, 2, deep, text, optimizer='adamw'))
    assert (after[f'dense/kernel/{SWA}'] != after['dense/kernel']).any()  # A unit may be dead.


@pytest.mark.parametrize('make_layer', [tf.layers.BatchNormalization, tf.keras.layers.BatchNormalization])
def test_statistics_are_means_over_the_batches_that_follow_the_step_with_averaged_weights(make_layer):
    batches = [np.random.RandomState(i).normal(i, 1 + i, [8, 1, 1, 2]).astype(np.float32) for i in range(4)]

    def network(x):
        scale = tf.get_variable('scale', initializer=[1.0, 1.0])
        return make_layer(axis=3, name='norm')(x * scale, training=True)

    def build():
        first = tf.train.get_or_create_global_step()
        data = tf.data.Dataset.from_tensor_slices(np.stack(batches)).skip(tf.cast(first, tf.int64))
        iterator = tf.data.make_initializable_iterator(data)
        network(iterator.get_next())
        return iterator.initializer

    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.create_global_step()
        network(tf.constant(batches[0]))
        with_averages(tf.no_op(), step, 1, build_params('swa_start=1'))
        recalibrate = Recalibration(build, 1, 2, seed=1)
        session.run(tf.global_variables_initializer())
        names = {variable.op.name: variable for variable in tf.global_variables()}
        names[f'scale/{SWA}'].load([2.0, 3.0], session)
        recalibrate(session, 0)
        assert session.run(names[f'norm/moving_mean/{SWA}']).tolist() == [0, 0]  # There are no averages yet.
        for _ in range(2):  # It does not depend on earlier ones.
            recalibrate(session, 1)
            mean, variance = session.run([names[f'norm/moving_{kind}/{SWA}'] for kind in ('mean', 'variance')])
            used = [batch[:, 0, 0] * [2, 3] for batch in batches[1:3]]
            np.testing.assert_allclose(mean, np.mean([x.mean(0) for x in used], 0), rtol=1e-4)
            np.testing.assert_allclose(variance, np.mean([x.var(0, ddof=1) for x in used], 0), rtol=1e-4)
        assert session.run(names['norm/moving_mean']).tolist() == [0, 0] and session.run(names['scale']).tolist() == [1, 1]


def test_statistics_of_a_functional_keras_model_and_of_a_layer_that_is_called_twice_are_means():
    batches = [np.random.RandomState(i).normal(i, 1 + i, [8, 2]).astype(np.float32) for i in range(3)]

    def network(x):
        norm = tf.keras.layers.BatchNormalization(momentum=0.5, name='norm')
        inputs = tf.keras.Input([2])
        model = tf.keras.Model(inputs, norm(inputs))
        return model(x, training=True) + model(x + 10, training=True)

    def build():
        first = tf.train.get_or_create_global_step()
        data = tf.data.Dataset.from_tensor_slices(np.stack(batches)).skip(tf.cast(first, tf.int64))
        iterator = tf.data.make_initializable_iterator(data)
        with collect_keras_layers(is_training=True):
            network(iterator.get_next())
        return iterator.initializer

    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.create_global_step()
        with collect_keras_layers(is_training=True):
            network(tf.constant(batches[0]))
        with_averages(tf.no_op(), step, 1, build_params('swa_start=1'))
        recalibrate = Recalibration(build, 1, 2, seed=1)
        session.run(tf.global_variables_initializer())
        recalibrate(session, 1)
        names = {variable.op.name.rpartition('norm/')[2]: variable for variable in tf.global_variables()}
        mean = session.run(names[f'moving_mean/{SWA}'])
        np.testing.assert_allclose(mean, np.mean([x.mean(0) + more for x in batches[1:] for more in (0, 10)], 0), rtol=1e-4)


@pytest.fixture
def statistic(session):
    """A mean that no layer moves, as that of frozen batch norm."""
    tf.train.create_global_step()
    return tf.get_variable('moving_mean', initializer=[1.0], trainable=False)


def test_statistics_that_do_not_move_are_those_of_a_warm_start(session, statistic):
    step = tf.train.get_global_step()
    train_op = with_averages(tf.assign_add(step, 1).op, step, 1, build_params('swa_start=1'))
    session.run(tf.global_variables_initializer())
    statistic.load([5.0], session)
    session.run(train_op)
    Recalibration(tf.no_op, 1, 1, None)
    average = next(variable for variable in tf.global_variables() if variable.op.name == f'moving_mean/{SWA}')
    assert session.run(average).tolist() == [5.0]


def test_statistics_that_cannot_be_recomputed_are_refused(statistic):
    tf.assign(statistic, [2.0])
    with pytest.raises(UsageError, match='^swa_start: moving_mean is assigned, so it cannot be recomputed'):
        Recalibration(tf.no_op, 1, 1, None)


def build_params(text):
    return build.make_hparams('m', {}, 'd', {}, text=text)


def test_averages_that_exclude_each_other_and_undefined_steps_are_refused(caplog):
    both = build_params('swa_start=3,ema_decay=0.9')
    assert refused(model_fn.check_hparams, both) == 'swa_start=3 excludes ema_decay=0.9: both average the weights: omit one'
    params = build_params('swa_start=3')
    assert refused(check_steps, params, 5, 10, True).startswith('swa_start excludes parameter servers')
    assert refused(check_steps, params, 0, 10, False).startswith('swa_every=0 is an epoch, but those are undefined here')
    changed = params.with_batch_start((4, 40))
    assert refused(check_steps, changed, 5, 10, False).endswith('do not override batch_size')
    check_steps(build_params('swa_start=3,swa_every=2').with_batch_start((4, 40)), 0, 10, False)
    check_steps(params, 5, 2, False)
    assert caplog.messages == ['swa_start=3: training ends at step 2, before any weights are averaged.']


def test_a_run_with_batch_norm_resumes_exactly_and_its_statistics_are_saved(run, tmp_path, monkeypatch):
    monkeypatch.setattr(model_fn, 'NUM_BATCHES', 3)
    hparams = '--hparams=batch_size=12,normalizes=true,learning_rate_schedule=constant,swa_start=4,swa_every=3'
    data = f'--data_dir={tiny_data.write(tmp_path / "tiny")}'
    flags = (*TINY, hparams, data, '--schedule=train', '--train_steps=12', '--save_checkpoints_steps=7')
    assert run(*flags, output_dir=tmp_path / 'whole')[0] == 0
    copy_without(12, tmp_path / 'whole', tmp_path / 'output')
    code, _, log = run(*flags)
    assert code == 0 and 'model.ckpt-7' in log
    assert "Batch norm's statistics for the averaged weights are means over 3 batches" in log
    found = read_weights(tmp_path / 'output')
    assert_equal(found, read_weights(tmp_path / 'whole'))
    name = 'batch_normalization/moving_variance'
    assert (found[f'{name}/{SWA}'] != found[name]).all()
    assert run('--schedule=evaluate', '--eval_steps=1', data)[0] == 0

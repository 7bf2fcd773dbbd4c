"""--debug_numerics names the first op that produced a NaN or an infinity."""

import re
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.ops.debug import assert_finite
from estimator_trainer.common.training.numerics import check_numerics, name_the_op
from estimator_trainer.models import polynomial
from tests.linear import MODEL, deep, input_fn, make_estimator, train_in_session
from tests.shared import POLYNOMIAL, assert_equal, failed, read_weights


def make_checked(tmp_path, towers=0, model=MODEL, **settings):
    plain = make_estimator(tmp_path, towers, model, **settings)
    fn = check_numerics(lambda features, labels, mode, params, config: plain.model_fn(features, labels, mode, config))
    return tf.estimator.Estimator(fn, config=plain.config, params=plain.params)


def failure_of(tmp_path, expression, towers=0, is_checked=True):
    """Returns the error line of training on an expression of w, 1, the inputs x [4] and `fuse`, 2, 1 and then 0."""

    def model(features, labels, mode, params):
        w = tf.get_variable('w', initializer=1.0)
        fuse = tf.maximum(2 - tf.cast(tf.train.get_or_create_global_step(), tf.float32), 0)
        y = expression(w, features['x'][:, 0], fuse)
        return {'y': y}, tf.square(y - labels['y']) * 1e-3

    make = make_checked if is_checked else make_estimator
    return failed(name_the_op()(train_in_session), make(tmp_path, towers, model), 5)


def check_of_the_model(w, x, fuse):
    return w * assert_finite(tf.ensure_shape(tf.py_func(lambda x: x * np.float32('nan'), [x], tf.float32), [None]), 'layer 3')


def test_the_first_op_is_named_with_its_type_its_values_and_its_line(tmp_path):
    for expression, towers, op, values, line in (
        (lambda w, x, fuse: tf.exp(tf.square(tf.log(w * fuse))) + w * x, 0, r'model/Log \(Log\)', '-Inf', 0),
        # Not of a division, whose gradient has a quotient of its own, which may come first.
        (lambda w, x, fuse: tf.map_fn(lambda _: w * tf.math.reciprocal(fuse), x), 0, r'Reciprocal \(Reciprocal\)', r'\+Inf', 0),
        (lambda w, x, fuse: w * x * tf.math.reciprocal(fuse), 2, r'model/tower_\d/Reciprocal \(Reciprocal\)', r'\+Inf', 0),
        (lambda w, x, fuse: tf.sqrt(w * fuse) + w * x, 0, r'gradients/model/Sqrt_grad/SqrtGrad \(SqrtGrad\)', '.*', None),
        (check_of_the_model, 0, r'model/PyFunc \(PyFunc\)', 'NaN', 1),
    ):
        found = failure_of(tmp_path, expression, towers)
        place = '' if line is None else f', made at {re.escape(__file__)}:{expression.__code__.co_firstlineno + line}'
        assert re.fullmatch(f'--debug_numerics: the op {op} produced {values} values{place}', found)


def test_an_input_is_named(tmp_path):
    def model(features, labels, mode, params):
        y = features['petal length (cm)'] * tf.get_variable('w', initializer=1.0)
        return {'y': y}, tf.square(y - tf.cast(labels['n'], tf.float32))

    batch = {'petal length (cm)': [np.nan, 1.0]}, {'n': [1, 2]}
    train = name_the_op()(train_in_session)
    found = failed(train, make_checked(tmp_path, model=model), 1, lambda: tf.data.Dataset.from_tensors(batch))
    assert found == '--debug_numerics: the input petal length (cm): NaN values'


def test_other_errors_are_shown_as_they_are(tmp_path):
    assert failure_of(tmp_path, check_of_the_model, is_checked=False) == 'layer 3: NaN values'
    with pytest.raises(tf.errors.InvalidArgumentError, match='^something else$'), name_the_op():
        raise tf.errors.InvalidArgumentError(None, None, 'something else')


def test_an_op_of_an_evaluation_is_named(trained):
    def metrics(features, labels, predictions, params):
        return {'bad': tf.metrics.mean(tf.log(-tf.abs(labels['y'])))}

    bad = types.SimpleNamespace(model=MODEL.model, eval_metrics=metrics)
    with pytest.raises(RunError, match=r'the op metrics/Log \(Log\) produced NaN values'), name_the_op():
        make_checked(trained.model_dir, model=bad).evaluate(input_fn(repeat=False))


def test_the_weights_of_a_sound_run_are_the_same(tmp_path):
    def model(*arguments):
        with tf.variable_scope('', initializer=tf.constant_initializer(0.3)):
            return deep(*arguments)

    found = [train_in_session(make(tmp_path, 2, model, optimizer='adam'), 3)[0] for make in (make_estimator, make_checked)]
    assert_equal(*found, tolerance=1e-5)


def test_a_checked_run_starts_from_weights_and_saves_a_checkpoint(run, trained_run, tmp_path, monkeypatch):
    def risky_model(features, labels, mode, params, sound_model=polynomial.model):
        predictions, loss = sound_model(features, labels, mode, params)
        left = tf.maximum(4 - tf.cast(tf.train.get_or_create_global_step(), tf.float32), 0)
        return predictions, loss + 1e-3 * tf.log(left, name='risky')

    start = trained_run('polynomial')
    monkeypatch.setattr(polynomial, 'model', risky_model)
    flags = (*POLYNOMIAL, '--schedule=train', '--train_steps=20', '--save_checkpoints_steps=2', '--debug_numerics')
    code, result, err = run(*flags, f'--warm_start_from={start}', output_dir=tmp_path / 'checked')
    assert (code, result) == (1, None) and 'Traceback' not in err
    line = f'{__file__}:{risky_model.__code__.co_firstlineno + 3}'
    assert err.endswith(f'\ntrainer.py: --debug_numerics: the op model/risky (Log) produced -Inf values, made at {line}\n')
    first, last = (read_weights(tmp_path / 'checked' / f'model.ckpt-{step}') for step in (0, 4))
    np.testing.assert_array_equal(first['w'], read_weights(start)['w'])
    assert read_weights(tmp_path / 'checked')['global_step'] == 4 and np.isfinite(last['w']).all()

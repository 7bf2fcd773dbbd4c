"""Results of a module's `estimator`."""

import functools
import logging
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.plugins.estimator_contract import check_batches, make_estimator
from estimator_trainer.common.plugins.module_check import check_module
from estimator_trainer.hparams import build
from tests.shared import refused

PARAMS = build.make_hparams('m', {}, 'd', {})
CONFIG = tf.estimator.RunConfig('/nowhere', tf_random_seed=1, save_checkpoints_secs=None, session_config=tf.ConfigProto())


def make(config, given=CONFIG):
    def estimator(_, params):
        return tf.estimator.Estimator(lambda features: None, config=config)

    return make_estimator(types.SimpleNamespace(estimator=estimator), given, PARAMS)


@pytest.mark.parametrize(
    ('config', 'message'),
    [
        (CONFIG.replace(model_dir='/elsewhere'), 'must pass on its config: the Estimator has the model_dir /elsewhere'),
        (
            tf.estimator.RunConfig('/nowhere'),
            'must pass on its config: write config.replace(...) in place of a RunConfig of its',
        ),
        (CONFIG.replace(device_fn=lambda op: '/cpu:0'), 'must pass on its config: write config.replace(...)'),
        (
            CONFIG.replace(train_distribute=tf.distribute.OneDeviceStrategy('/cpu:0')),
            ': the trainer has no distribution strategies',
        ),
    ],
)
def test_an_estimator_that_could_not_be_trained_as_the_flags_say_is_refused(config, message):
    assert refused(make, config).startswith(f'--model=m: estimator(){message if message[0] == ":" else f" {message}"}')


def test_settings_of_a_config_that_do_not_count_are_warned_of_and_others_are_kept(caplog):
    caplog.set_level(logging.WARNING)
    made = make(CONFIG.replace(keep_checkpoint_max=2, save_summary_steps=7, tf_random_seed=5))
    assert (made.config.keep_checkpoint_max, made.config.save_summary_steps, made.config.tf_random_seed) == (2, 7, 5)
    assert not caplog.text
    make(CONFIG.replace(save_checkpoints_steps=7, session_config=tf.ConfigProto(inter_op_parallelism_threads=1)))
    assert 'estimator(): --save_checkpoints_steps decides when to save' in caplog.text
    assert 'estimator(): its session_config overrides --precision, --xla and the flags for threads' in caplog.text


def test_batches_of_three_parts_are_refused():
    batches = tf.data.Dataset.from_tensors(([1.0], [2], [3.0]))
    message = refused(check_batches, '--dataset=d', batches)
    assert message == '--dataset=d: input_fn() must return batches (features, labels), not of 3 parts'


class Place:
    def __call__(self, op):
        return '/cpu:0'


def test_a_copy_of_the_config_of_a_task_is_the_same_task():
    of_task = CONFIG.replace(device_fn=Place())
    assert make(of_task.replace(keep_checkpoint_max=2), of_task).config.keep_checkpoint_max == 2


def test_what_a_program_has_bound_to_its_model_fn_stays():
    given = []

    def model_fn(features, labels, mode, params, units, **others):
        given.append((features, labels, params, units, others))
        return tf.estimator.EstimatorSpec(mode, predictions=tf.zeros([]))

    bound = functools.partial(model_fn, params={'learning_rate': 0.5}, units=3)
    module = types.SimpleNamespace(model_fn=bound)
    check_module('model', 'm', module)
    make_estimator(module, CONFIG, PARAMS).model_fn('x', 'y', tf.estimator.ModeKeys.PREDICT, CONFIG)
    assert given == [('x', 'y', {'learning_rate': 0.5}, 3, {})]

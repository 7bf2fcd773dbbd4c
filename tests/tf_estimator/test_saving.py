"""A training that goes on does not write the checkpoint again that it restored."""

import os

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.tf_estimator import slope


class Listener(tf.train.CheckpointSaverListener):
    def __init__(self):
        self.calls = []

    def before_save(self, session, step):
        self.calls.append(('before', int(step)))

    def after_save(self, session, step):
        self.calls.append(('after', int(step)))


class Swap(tf.train.CheckpointSaverListener):
    """Saves another value."""

    def before_save(self, session, step):
        with session.graph.as_default():
            tf.trainable_variables()[0].load(7.0, session)


class Damage(tf.train.CheckpointSaverListener):
    """Cuts the data off, after they are restored."""

    def __init__(self, directory):
        self._path = directory / 'model.ckpt-2.data-00000-of-00001'

    def before_save(self, session, step):
        if step == 2:
            os.truncate(self._path, 4)


def written(directory):
    """Returns when the files of the checkpoint of step 2 were written."""
    return {path.name: path.stat().st_mtime_ns for path in directory.glob('model.ckpt-2.*')}


def test_a_resumed_checkpoint_stays_as_it_is_and_listeners_are_called(tmp_path):
    slope.make_estimator(tmp_path).train(slope.input_fn, max_steps=2)
    before, listener = written(tmp_path), Listener()
    slope.make_estimator(tmp_path, save_checkpoints_steps=1).train(slope.input_fn, steps=1, saving_listeners=[listener])
    assert written(tmp_path) == before and len(before) == 3
    assert listener.calls == [('before', 2), ('after', 2), ('before', 3), ('after', 3)]
    assert [os.path.basename(path) for path in tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths] == [
        f'model.ckpt-{step}' for step in (0, 2, 3)
    ]
    found = tf.train.load_checkpoint(str(tmp_path / 'model.ckpt-2')).get_tensor('slope')
    assert found == np.float32(slope.slope_after(2))


@pytest.mark.parametrize('change', ['value', 'variables', 'meta', 'damage'])
def test_a_checkpoint_without_all_that_the_session_has_is_written(tmp_path, change):
    def more(features, labels, mode, params):
        tf.get_variable('more', [], initializer=tf.zeros_initializer())
        return slope.model_fn(features, labels, mode, params)

    model_fn = more if change == 'variables' else slope.model_fn
    tf.estimator.Estimator(model_fn, str(tmp_path), params={}).train(slope.input_fn, max_steps=2)
    if change == 'meta':
        os.remove(tmp_path / 'model.ckpt-2.meta')
    before = written(tmp_path)
    listener = Swap() if change == 'value' else Damage(tmp_path) if change == 'damage' else Listener()
    slope.make_estimator(tmp_path).train(slope.input_fn, steps=1, saving_listeners=[listener])
    after = written(tmp_path)
    assert len(after) == 3 and all(after[name] != time for name, time in before.items())
    found = tf.train.load_checkpoint(str(tmp_path / 'model.ckpt-2')).get_tensor('slope')
    assert found == np.float32(7 if change == 'value' else slope.slope_after(2))

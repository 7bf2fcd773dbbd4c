"""The weights of another run's checkpoint in a model's graph."""

from collections.abc import Iterator
import contextlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError

_AVERAGES = ('/ExponentialMovingAverage', '/StochasticWeightAverage')  # Of ema_decay and of swa_start.


@contextlib.contextmanager
def frozen_weights(scope: str, checkpoint_path: str) -> Iterator[None]:
    """Within the block, new variables have the values of a checkpoint: their averages, if it has any.

    They are local variables, with their values in the graph: they are not trained, and no checkpoint of the graph has them.

    Args:
      scope: the variable scope of the block; the checkpoint's names lack it.
      checkpoint_path: without suffix.

    Raises:
      UsageError: the checkpoint cannot be read, or lacks a variable of the block, or has it in another shape.
    """
    try:
        reader = tf.train.load_checkpoint(checkpoint_path)
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UsageError(f'{checkpoint_path}: cannot be read: {error}') from None

    def create(next_creator, **kwargs):
        name = kwargs['name'].partition(f'{scope}/')[2]
        found = next((f'{name}{end}' for end in _AVERAGES if f'{name}{end}' in shapes), name)
        if found not in shapes:
            raise UsageError(f'{checkpoint_path}: has no variable {name}')
        if not tf.TensorShape(shapes[found]).is_compatible_with(kwargs.get('shape')):
            raise UsageError(f'{checkpoint_path}: {name} has the shape {shapes[found]}, not {list(kwargs["shape"])}')
        local = {'trainable': False, 'collections': [tf.GraphKeys.LOCAL_VARIABLES]}
        return next_creator(**{**kwargs, **local, 'initial_value': reader.get_tensor(found)})

    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE), tf.variable_creator_scope(create):
        yield

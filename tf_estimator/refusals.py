"""Refuses what cannot be restored, with an error that names the alternative."""

import functools
import inspect
from typing import Any

TPU_ADVICE = 'TPUs need TensorFlow 2.15 or older; here, use tf.estimator.Estimator, or TPUEstimator(use_tpu=False).'
INPUT_HOOK_ADVICE = (
    'this needs TensorFlow 2.15 or older; here, add '
    'tf.data.experimental.make_saveable_from_iterator(iterator) to tf.GraphKeys.SAVEABLE_OBJECTS.'
)


def unavailable(name: str, advice: str) -> type:
    """Returns a class in place of one that TensorFlow has dropped; to make an instance of it is an error."""

    class Unavailable:
        def __init__(self, *unused_args: Any, **unused_kwargs: Any) -> None:
            raise NotImplementedError(f'{name}: {advice}')

    Unavailable.__name__ = Unavailable.__qualname__ = name
    return Unavailable


def unavailable_on_tpu(name: str) -> type:
    """Returns a class in place of any name of the dropped TPU modules: code gets to them only on a TPU."""
    if name.startswith('__'):
        raise AttributeError(name)
    return unavailable(name, TPU_ADVICE)


def refuse_tpu(estimator_class: Any) -> None:
    """Makes TPUEstimator raise at once, rather than in training, unless it is made with use_tpu=False."""
    init = estimator_class.__init__

    @functools.wraps(init)
    def checked_init(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(init).bind(self, *args, **kwargs)
        bound.apply_defaults()
        if bound.arguments['use_tpu']:
            raise NotImplementedError(TPU_ADVICE)
        init(self, *args, **kwargs)

    estimator_class.__init__ = checked_init

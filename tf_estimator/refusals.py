"""Errors for names that cannot be restored, which name the alternative."""

import inspect
from typing import Any

from tf_estimator.mending import around

TPU_ADVICE = 'TPUs need TensorFlow 2.15 or older; here, use tf.estimator.Estimator, or TPUEstimator(use_tpu=False).'
INPUT_HOOK_ADVICE = (
    'this needs TensorFlow 2.15 or older; here, add '
    'tf.data.experimental.make_saveable_from_iterator(iterator) to tf.GraphKeys.SAVEABLE_OBJECTS.'
)


class Unavailable:
    """A substitute for a class dropped by TensorFlow, whose instantiation raises an error."""

    advice: str

    def __init__(self, *unused_args: Any, **unused_kwargs: Any) -> None:
        raise NotImplementedError(f'{type(self).__name__}: {self.advice}')


def unavailable(name: str, advice: str) -> type[Unavailable]:
    """Returns a substitute for the class of this name."""
    return type(name, (Unavailable,), {'advice': advice})


def unavailable_on_tpu(name: str) -> type:
    """Returns a substitute for any name of the dropped TPU modules, which only code on a TPU uses."""
    if name.startswith('__'):
        raise AttributeError(name)
    return unavailable(name, TPU_ADVICE)


def refuse_tpu(estimator_class: Any) -> None:
    """Makes TPUEstimator raise on construction rather than in training, unless use_tpu=False."""

    @around(estimator_class, '__init__')
    def check(init: Any, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(init).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.arguments['use_tpu']:
            raise NotImplementedError(TPU_ADVICE)
        init(*args, **kwargs)

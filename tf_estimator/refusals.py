"""What cannot be restored: it raises an error that says so, and what to use instead."""

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


def refuse_strategy_over_machines(config: Any, tf_config: dict[str, Any]) -> None:
    """Raises ValueError if a RunConfig would train with a distribution strategy on several machines."""
    cluster = tf_config.get('cluster', {})
    if config.train_distribute and cluster and 'master' not in cluster:
        raise ValueError(
            'train_distribute over the machines of TF_CONFIG needs TensorFlow 2.15 or older: use it on '
            'one machine without TF_CONFIG, or drop train_distribute and let TF_CONFIG name parameter '
            'servers.'
        )
    if config._experimental_distribute is not None:
        raise ValueError('experimental_distribute needs TensorFlow 2.15 or older: use train_distribute and eval_distribute.')

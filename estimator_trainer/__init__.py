"""A trainer on tf.estimator.Estimator, in Python: `train`, `load` and `compare` runs, `sweep` spaces, read and write `records`.

The names are imported when they are first used, since importing TensorFlow takes seconds.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# In a checkout, the subpackages are the folders beside this one; a wheel has them in this one.
CHECKOUT = None if os.path.isdir(os.path.join(__path__[0], 'common')) else os.path.dirname(os.path.abspath(__path__[0]))
if CHECKOUT:
    __path__.append(CHECKOUT)

if TYPE_CHECKING:
    from estimator_trainer.common.commands.api import Predictor, Run, compare, find_batch_size, find_learning_rate, load, train
    from estimator_trainer.common.commands.folds_api import Folds, load_folds, train_folds
    from estimator_trainer.common.commands.sweep_api import Sweep, sweep
    from estimator_trainer.common.errors import RunError, UsageError
    from estimator_trainer.common.pipeline.example_seed import example_seed
    from estimator_trainer.common.plugins.feature_columns import feature_columns, weight_column
    from estimator_trainer.common.records import records
    from estimator_trainer.common.training.parallel import make_parallel

__all__ = [
    'Folds',
    'Predictor',
    'Run',
    'RunError',
    'Sweep',
    'UsageError',
    'compare',
    'example_seed',
    'feature_columns',
    'find_batch_size',
    'find_learning_rate',
    'load',
    'load_folds',
    'make_parallel',
    'records',
    'sweep',
    'train',
    'train_folds',
    'weight_column',
]
__version__ = '0.2.0'

_MODULES = {
    **dict.fromkeys(['Predictor', 'Run', 'compare', 'find_batch_size', 'find_learning_rate', 'load', 'train'], 'commands.api'),
    **dict.fromkeys(['RunError', 'UsageError'], 'errors'),
    **dict.fromkeys(['Folds', 'load_folds', 'train_folds'], 'commands.folds_api'),
    **dict.fromkeys(['Sweep', 'sweep'], 'commands.sweep_api'),
    'example_seed': 'pipeline.example_seed',
    'feature_columns': 'plugins.feature_columns',
    'make_parallel': 'training.parallel',
    'records': 'records.records',
    'weight_column': 'plugins.feature_columns',
}

importlib.import_module(f'{__name__}.common.import_names').install(CHECKOUT)
importlib.import_module(f'{__name__}.common.processor').use_onednn()


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f'module {__name__} has no attribute {name}')
    if _MODULES[name] != 'errors':
        importlib.import_module('tf_estimator')  # Before TensorFlow.
    module = importlib.import_module(f'{__name__}.common.{_MODULES[name]}')
    return globals().setdefault(name, getattr(module, name, module))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

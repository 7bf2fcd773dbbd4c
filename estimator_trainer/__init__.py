"""A trainer on tf.estimator.Estimator, for Python programs: `train`, `load`, `records`.

Names are imported at their first use, as importing TensorFlow takes seconds.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

# In a checkout, the subpackages are folders beside this one; in a wheel, within it.
if os.path.exists(os.path.join(os.path.dirname(os.path.dirname(__file__)), 'setup.cfg')):
    __path__.append(os.path.dirname(os.path.dirname(__file__)))

from estimator_trainer.common import former_names

if TYPE_CHECKING:
    from estimator_trainer.common.commands.api import Predictor, Run, load, train
    from estimator_trainer.common.errors import RunError, UsageError
    from estimator_trainer.common.pipeline.example_seed import example_seed
    from estimator_trainer.common.records import records
    from estimator_trainer.common.training.parallel import make_parallel

__all__ = ['Predictor', 'Run', 'RunError', 'UsageError', 'example_seed', 'load', 'make_parallel', 'records', 'train']
__version__ = '0.2.0'

_MODULES = {
    **dict.fromkeys(['Predictor', 'Run', 'load', 'train'], 'commands.api'),
    **dict.fromkeys(['RunError', 'UsageError'], 'errors'),
    'example_seed': 'pipeline.example_seed',
    'make_parallel': 'training.parallel',
    'records': 'records.records',
}

former_names.refuse(sys.meta_path)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f'module {__name__} has no attribute {name}')
    importlib.import_module('tf_estimator')  # Before TensorFlow.
    module = importlib.import_module(f'{__name__}.common.{_MODULES[name]}')
    return getattr(module, name, module)

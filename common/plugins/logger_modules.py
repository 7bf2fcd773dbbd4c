"""The modules that --loggers names: those of common/loggers, whose packages are extras, or a user's own by dotted path."""

from collections.abc import Sequence
import importlib
import importlib.util

from estimator_trainer.common import import_names
from estimator_trainer.common.errors import UsageError

BUILT_IN = ('mlflow', 'wandb')  # Each is the name of its package, and of its extra, too.
METHODS = ('start', 'log', 'end')


def check_names(names: Sequence[str]) -> None:
    """Raises UsageError if a logger is unknown, given twice, or its package is missing; imports none."""
    for name in names:
        if name in BUILT_IN:
            spec = importlib.util.find_spec(name)
            if spec is None or spec.origin is None:  # The latter for a folder of this name, such as that of W&B's files.
                raise UsageError(
                    f"--loggers={name}: the package {name} is not installed: pip install 'estimator-trainer[{name}]'"
                )
        elif '.' not in name or not all(part.isidentifier() for part in name.split('.')):
            known = ', '.join(BUILT_IN)
            raise UsageError(
                f'--loggers={",".join(names)}: there is no logger {name or "without a name"}: the loggers are {known}; give '
                'your own by its dotted path, such as my_package.my_logger'
            )
        if list(names).count(name) > 1:
            raise UsageError(f'--loggers: {name} is given twice')


def check_modules(names: Sequence[str]) -> None:
    """Raises UsageError as check_names does, or if a module of the user's lacks the class Logger or a method; imports it."""
    check_names(names)
    for name in names:
        if name not in BUILT_IN:
            _check_module(name)


def _check_module(name):
    import_names.find_in_working_directory()
    if not import_names.exists(name):
        raise UsageError(f'--loggers={name}: there is no module {name}')
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f'--loggers={name}: needs {error.name}, which is not installed') from None
    logger = getattr(module, 'Logger', None)
    missing = [method for method in METHODS if not callable(getattr(logger, method, None))]
    if missing:
        what = f'the class Logger has no {" and no ".join(missing)}' if isinstance(logger, type) else 'has no class Logger'
        raise UsageError(f'--loggers={name}: {what}; see docs/loggers.md')


def modules(names: Sequence[str]) -> dict[str, str]:
    """Returns {name: dotted path} of the loggers' modules."""
    return {name: f'estimator_trainer.common.loggers.{name}_logger' if name in BUILT_IN else name for name in names}

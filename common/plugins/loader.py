"""Imports of model and dataset modules by file name or dotted path, without a registry."""

import contextlib
import importlib
import inspect
import os
import pkgutil
import sys
import types
from typing import Any

from estimator_trainer.common import import_names
from estimator_trainer.common.errors import UsageError

_ARGUMENTS = {
    'model': {
        'get_params': '',
        'model': 'features, labels, mode, params',
        'eval_metrics': 'features, labels, predictions, params',
        'variables': 'params',
        'loss_steps': 'params',
        'optimizer': 'rate, params',
        'learning_rate': 'step, total_steps, params',
        'hooks': 'mode, params',
    },
    'dataset': {
        'get_params': '',
        'prepare': 'data_dir, params',
        'metadata': 'data_dir, params',
        'summary': 'data_dir, params',
        'read': 'split, data_dir, params',
        'places': 'split, data_dir, params',
        'parse': 'mode, params, record',
        'parse_batch': 'mode, params, records',
        'image_features': 'params, images',
        'raw_specs': 'params',
        'from_raw': 'params, raw',
        'cell_readers': 'params',
        'read_input': 'path, params',
        'read_labeled': 'path, params',
    },
}
_REQUIRED = ('get_params', 'model', 'prepare', 'read')


def _path(kind):
    return f'estimator_trainer.{kind}s'


def available(kind: str) -> list[str]:
    """Returns the names of the modules under models/ or datasets/; `kind` is 'model' or 'dataset'."""
    package = importlib.import_module(_path(kind))
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg)


def load(kind: str, name: str) -> types.ModuleType:
    """Imports a model or dataset module.

    Args:
      kind: 'model' or 'dataset'.
      name: a file name under models/ or datasets/, or the dotted path of any importable module.

    Raises:
      UsageError: there is no such module, or a required function is missing or takes other arguments.
    """
    with contextlib.suppress(FileNotFoundError):  # It may have been deleted.
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
    path = name if '.' in name else f'{_path(kind)}.{name}'
    module = None
    if all(part.isidentifier() for part in path.split('.')):
        try:
            module = importlib.import_module(path)
        except ImportError as error:
            if former := import_names.explain(error):
                raise UsageError(f'--{kind}={name}: {former}') from None
            # A failed import inside the module needs the traceback.
            if not isinstance(error, ModuleNotFoundError) or not f'{path}.'.startswith(f'{error.name}.'):
                raise
        except (ValueError, SyntaxError) as error:
            if 'null bytes' not in str(error):  # Python does not name the file.
                raise
            raise UsageError(
                f'--{kind}={name}: {path}, or a module that it imports, contains NUL bytes, as UTF-16 does: save it as UTF-8'
            ) from None
    if module is None:
        raise _missing(kind, name)
    check_module(kind, name, module)
    return module


def check_name(kind: str, name: str) -> None:
    """Raises UsageError if there is no such module under models/ or datasets/; accepts any dotted path."""
    if '.' not in name and not (name.isidentifier() and import_names.exists(f'{_path(kind)}.{name}')):
        raise _missing(kind, name)


def _missing(kind, name):
    path = name if '.' in name else f'{kind}s.{name}'
    return UsageError(
        f'--{kind}={name}: no module {path}; the {kind}s are: {", ".join(available(kind))}; '
        f'give your own by its dotted path, such as my_package.my_{kind}'
    )


def check_module(kind: str, name: str, module: Any) -> None:
    """Raises UsageError if a required function of a module is missing or takes other arguments.

    Args:
      kind: 'model' or 'dataset'.
      name: the value of the flag.
    """
    functions: dict[str, Any] = {function: getattr(module, function, None) for function in _ARGUMENTS[kind]}
    missing = [function for function, value in functions.items() if function in _REQUIRED and not callable(value)]
    if kind == 'dataset' and not (functions['parse'] or functions['parse_batch']):
        missing.append('parse')
    if missing:
        source = getattr(module, '__name__', name)
        raise UsageError(f'--{kind}={name}: {source} must define {", ".join(missing)}; see docs/modules.md')
    if kind == 'dataset' and bool(functions['raw_specs']) != bool(functions['from_raw']):
        raise UsageError(f'--{kind}={name}: raw_specs() and from_raw() belong together: define both, or neither')
    if kind == 'model' and functions['loss_steps'] and not functions['variables']:
        raise UsageError(f'--{kind}={name}: loss_steps() needs variables(), which says what each loss is for')
    if kind == 'model' and hasattr(module, 'FREE_HPARAMS'):
        raise UsageError(f'--{kind}={name}: FREE_HPARAMS is now called INFERENCE_HPARAMS')
    for attribute in ('INFERENCE_HPARAMS', 'OVERRIDABLE_HPARAMS'):
        if isinstance(getattr(module, attribute, ()), str):
            raise UsageError(f'--{kind}={name}: {attribute} must be a tuple of names, such as ("drop_rate",)')
    for function, value in functions.items():
        if value is not None and not _takes(value, _ARGUMENTS[kind][function].split(', ')):
            raise UsageError(f'--{kind}={name}: {function}() must be a function of ({_ARGUMENTS[kind][function]})')


def _takes(function, names):
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*filter(None, names))
    except TypeError:
        return False
    except ValueError:  # Some functions implemented in C have no signature.
        pass
    return True

"""Checks of the functions that model and dataset modules define, as specified in docs/modules.md."""

from collections.abc import Callable
import functools
import inspect
import types
from typing import Any

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
        'estimator': 'config, params',
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
        'take_rows': 'params, rows',
        'input_parts': 'params',
        'read_input': 'path, params',
        'read_labeled': 'path, params',
        'feature_columns': 'params',
        'by_column': 'params, features',
        'input_fn': 'split, params',
        'serving_input_receiver_fn': 'params',
    },
}
_MODELS = ('model', 'model_fn', 'estimator')
_OF_MODEL = ('eval_metrics', 'variables', 'loss_steps', 'optimizer', 'learning_rate', 'hooks')
_OF_MODEL_FN = {'labels', 'mode', 'params', 'config'}  # Each is optional, as in Estimator.
_OF_READ = ('parse', 'parse_batch', 'image_features', 'raw_specs', 'read_input', 'read_labeled', 'places')


def check_module(kind: str, name: str, module: Any) -> None:
    """Raises UsageError if a required function of a module is missing, takes other arguments, or would be ignored.

    Args:
      kind: 'model' or 'dataset'.
      name: the value of the flag.
    """
    flag, source = f'--{kind}={name}', getattr(module, '__name__', name)
    if missing := _missing_of_model(module) if kind == 'model' else _missing_of_dataset(module):
        raise UsageError(f'{flag}: {source} must define {missing}; see docs/modules.md')
    (_check_model if kind == 'model' else _check_dataset)(flag, module)
    for function, arguments in _ARGUMENTS[kind].items():
        value = getattr(module, function, None)
        if isinstance(value, types.ModuleType):  # An import of the same name, such as that of a program's model.py.
            continue
        if value is not None and not _takes(value, arguments.split(', ')):
            raise UsageError(f'{flag}: {function}() must be a function of ({arguments})')


def of_function(kind: str, value: Any) -> Any:
    """Returns a module, or an object with its functions; for a lone function, one that has it by its name in modules.

    Args:
      kind: 'model' or 'dataset'.
      value: a module, an object, a name, or a function with the arguments of model_fn, estimator or input_fn.
    """
    if not isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
        return value
    name = 'input_fn' if kind == 'dataset' else 'model_fn' if 'features' in inspect.signature(value).parameters else 'estimator'
    return types.SimpleNamespace(**{name: value}, __name__=getattr(value, '__name__', name))


def arguments_of(model_fn: Callable[..., Any]) -> set[str]:
    """Returns the names of the arguments that an Estimator gives to a model_fn: none that a functools.partial has bound."""
    found, bound = inspect.signature(model_fn).parameters.values(), getattr(model_fn, 'keywords', {})
    variable = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return {argument.name for argument in found if argument.kind not in variable and argument.name not in bound}


def params_of(module: Any) -> dict[str, Any]:
    """Returns the hyper-parameters of a module with their defaults; {} if it has no `get_params`."""
    return module.get_params() if hasattr(module, 'get_params') else {}


def made_of(kind: str, name: str, module: Any) -> list[str]:
    """Returns the names of the modules under models/ or datasets/ that a module has functions of, after its own.

    Args:
      kind: 'model' or 'dataset'.
      name: the value of the flag.
    """
    package = f'estimator_trainer.{kind}s.'
    values = getattr(module, '__dict__', {}).values()
    found = {value.__name__ if isinstance(value, types.ModuleType) else getattr(value, '__module__', '') for value in values}
    return [name, *sorted(other.removeprefix(package) for other in found if str(other).startswith(package))]


def makes_step(module: Any) -> bool:
    """Whether a model module makes its own training step, by `model_fn` or `estimator`."""
    return not _defined(module, ['model'])


def _defined(module, names):
    return [name for name in names if callable(getattr(module, name, None))]


def _missing_of_model(module):
    found = _defined(module, _MODELS)
    if len(found) > 1:
        return f'only one of {", ".join(found)}'
    return '' if found else 'model, or else model_fn or estimator'


def _missing_of_dataset(module):
    if _defined(module, ['input_fn']):
        return 'only one of input_fn, read' if _defined(module, ['read']) else ''
    missing = [name for name in ('prepare', 'read') if not _defined(module, [name])]
    if not _defined(module, ['parse', 'parse_batch']):
        missing.append('parse')
    return ', '.join(missing) + (', or else input_fn' if 'read' in missing else '')


def _check_model(flag, module):
    if hasattr(module, 'FREE_HPARAMS'):
        raise UsageError(f'{flag}: FREE_HPARAMS is now called INFERENCE_HPARAMS')
    for attribute in ('INFERENCE_HPARAMS', 'OVERRIDABLE_HPARAMS'):
        if isinstance(getattr(module, attribute, ()), str):
            raise UsageError(f'{flag}: {attribute} must be a tuple of names, such as ("drop_rate",)')
    if not isinstance(getattr(module, 'INDEPENDENT_EXAMPLES', False), bool):
        raise UsageError(f'{flag}: INDEPENDENT_EXAMPLES must be True or False')
    if _defined(module, ['loss_steps']) and not _defined(module, ['variables']):
        raise UsageError(f'{flag}: loss_steps() needs variables(), which says what each loss is for')
    if not makes_step(module):
        return
    (made_by,) = _defined(module, _MODELS)
    if ignored := _defined(module, _OF_MODEL):
        raise UsageError(f'{flag}: {ignored[0]}() would be ignored: {made_by}() makes the training step and its metrics')
    if made_by == 'model_fn':
        names = arguments_of(module.model_fn)
        if 'features' not in names or names - {'features', *_OF_MODEL_FN}:
            raise UsageError(f'{flag}: model_fn() must be a function of features and any of labels, mode, params, config')


def _check_dataset(flag, module):
    if bool(_defined(module, ['raw_specs'])) != bool(_defined(module, ['from_raw'])):
        raise UsageError(f'{flag}: raw_specs() and from_raw() belong together: define both, or neither')
    if _defined(module, ['input_fn']) and (ignored := _defined(module, _OF_READ)):
        raise UsageError(f'{flag}: {ignored[0]}() would be ignored: input_fn() returns the batches')


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

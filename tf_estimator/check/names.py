"""Finds the names that a program uses in TensorFlow 2, and in TensorFlow 1 by --tf1."""

import dataclasses
import functools
import importlib
import inspect
import types
from typing import Any

from tf_estimator import moved_names, refusals, replacements, requirements, restore
from tf_estimator.check.source import Use
from tf_estimator.tf1 import modules
from tf_estimator.tf1.imports import SHARED

# Modules of libraries that stand on Estimator, or come with TensorFlow. pip installs them by the name with hyphens.
LIBRARIES = (
    *('adanet', 'deepctr', 'mesh_tensorflow', 'tensorflow', 'tensorflow_addons', 'tensorflow_estimator', 'tensorflow_gan'),
    *('tensorflow_hub', 'tensorflow_probability', 'tensorflow_ranking', 'tf_slim'),
)
_MOVED = (*moved_names.MISSING_MODULES, *(f'{module}.{name}' for module, names in moved_names.NAMES.items() for name in names))


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What happens where a name is used.

    Attributes:
      status: 'there'; 'bridged', by this package; 'install', 'edit' or 'gone', for which `cure` says what to do or use.
    """

    status: str
    cure: str = ''

    @property
    def needs_edit(self) -> bool:
        return self.status in ('edit', 'gone')

    @property
    def is_of_v1(self) -> bool:
        """Whether compat.v1 has the name, which decides between as many edits as it is and with --tf1."""
        return self.cure.startswith('tf.compat.v1.')


class Names:
    """Names as a program sees them.

    Args:
      tf1: whether `tensorflow` is TensorFlow 1 for the program.
    """

    def __init__(self, tf1: bool):
        import tensorflow.compat.v1 as v1

        self._tensorflow = modules.TensorFlow1(v1) if tf1 else importlib.import_module('tensorflow')
        self.find = functools.cache(self._find)

    def judge(self, use: Use) -> Verdict:
        """Returns what happens where a name is used."""
        if use.cure:
            return Verdict('edit', use.cure)
        found = self.find(use.name, use.is_module)
        if isinstance(found, Verdict):
            return found
        if isinstance(found, type) and issubclass(found, refusals.Unavailable) and found.advice != refusals.TPU_ADVICE:
            return Verdict('gone', found.advice)
        if mistake := _mistake(found, use):
            return Verdict('edit', mistake)
        return Verdict('bridged' if _is_bridged(use.name) else 'there')

    def _find(self, name: str, is_module: bool = False) -> Any:
        """Returns what a name stands for, None if only a run shows it, or a Verdict on its absence.

        Args:
          is_module: whether it is imported as a module, as by `import a.b.c`.
        """
        top, *parts = name.split('.')
        try:
            module = self._tensorflow if top == 'tensorflow' else importlib.import_module(top)
        except ModuleNotFoundError as error:
            if error.name == top:
                return Verdict('install', f'pip install {top.replace("_", "-")}')
            return Verdict('gone', f'{top} does not load: {error}')
        except Exception as error:  # A library may raise anything.
            return Verdict('gone', f'{top} does not load: {error}'.splitlines()[0])
        try:
            has_files = top != 'tensorflow' or bool(parts) and parts[0] in SHARED
            return _walk(module, parts, has_files, is_module)
        except ModuleNotFoundError as error:  # Of what TensorFlow loads at the first use of a name.
            return Verdict('install', f'pip install {error.name}')
        except modules.MissingPackage as error:
            return Verdict('install', str(error).partition(': ')[2])
        except AttributeError:
            return _absent(top, '.'.join(parts))


@functools.cache
def _is_bridged(name):
    is_old = any(f'{name}.'.startswith(f'{moved}.') for moved in _MOVED)
    return is_old or not requirements.has_own_estimator() and name.startswith((*restore.APIS, restore.OLD_PATH))


def _walk(found, parts, has_files, is_module):
    """Returns what a path below a module names, None if it is below an object; raises AttributeError if there is nothing.

    Args:
      has_files: whether names that a module does not have may be files of its package.
      is_module: whether the last part is a module.
    """
    missing = object()
    for i, part in enumerate(parts):
        if isinstance(found, modules.Package):
            found = found.submodule(part) if is_module or i + 1 < len(parts) else getattr(found, part)
            if isinstance(found, modules.Package) and part[0].isupper():  # A class, not a file.
                raise AttributeError(part)
            continue
        if not isinstance(found, (types.ModuleType, type)):
            return None
        value: Any = getattr(found, part, missing)
        if value is missing and has_files and isinstance(found, types.ModuleType):
            try:
                value = importlib.import_module(f'{found.__name__}.{part}')
            except ImportError:
                pass
        if value is missing:
            raise AttributeError(part)
        found = value
    return found


def _absent(top, path):
    if top != 'tensorflow':
        return Verdict('gone', f'{top} does not have it')
    import tensorflow as tf

    path = path.removeprefix('compat.v1.').removeprefix('compat.v2.')
    other = replacements.replacement(path)
    if other.startswith('tf.'):
        return Verdict('edit', other)
    if other:
        return Verdict('gone', other)
    for version in ('v1', 'v2'):
        try:
            _walk(getattr(tf.compat, version), path.split('.'), has_files=False, is_module=False)
        except AttributeError:
            continue
        return Verdict('edit', f'tf.compat.{version}.{path}')
    return Verdict('gone', f'TensorFlow {tf.__version__} does not have it')


def _mistake(found, use):
    """Returns what is wrong with the arguments of a call; '' if nothing is, or if that is not known."""
    if use.positional < 0 or not isinstance(found, (types.FunctionType, type)):
        return ''
    try:
        parameters = inspect.signature(found).parameters.values()
    except (ValueError, TypeError):
        return ''
    kinds = {parameter.kind for parameter in parameters}
    named = {parameter.name for parameter in parameters if parameter.kind != inspect.Parameter.POSITIONAL_ONLY}
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        if unknown := [name for name in use.keywords if name not in named]:
            return f'it takes no argument {unknown[0]}'
    if inspect.Parameter.VAR_POSITIONAL not in kinds and use.positional > len(positional):
        return f'it takes {len(positional)} positional arguments at most, not {use.positional}'
    return ''

"""Import names: a checkout imports its own code only, and a former name gives the current one, never a second copy of it."""

from collections.abc import Sequence
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import traceback
import types

_PACKAGE = 'estimator_trainer'
_FORMER = ('common', 'datasets', 'hparams', 'models')  # Once top-level packages.
_OPS = {  # Modules of common/ops, and those that became parts of them.
    'debug': 'asserts check_gradient jacobian print_tensor variable_summaries',
    'images': 'image_grid labeled_images',
    'layers': 'batch_normalization dropout leaky_relu merge',
    'losses': 'cross_entropy gaussian_kl softmax',
    'metrics': 'auc confusion_matrix metric_counts pr_curve',
    'random': 'augmentation mixup random_shift step_seed',
    'shapes': 'batch_gather shape',
}
_MOVED = {
    'common.runs.api': '',
    'common.data.records': 'common.records.records',
    'common.data.example_seed': 'common.pipeline.example_seed',
    **{f'common.ops.{former}': f'common.ops.{name}' for name, formers in _OPS.items() for former in formers.split()},
}


def find_in_working_directory() -> None:
    """Lets imports find the modules of the working directory, after all others."""
    with contextlib.suppress(FileNotFoundError):  # It may have been deleted.
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of this checkout, and refuses a former name that would be found in it, or in another one.

    Without it, an editable installation of another checkout would provide what this one lacks.
    """

    def __init__(self, checkout: str | None):
        self._checkout = checkout

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if self._checkout and name.startswith(f'{_PACKAGE}.'):
            found = importlib.machinery.PathFinder.find_spec(name, path)
            if not found:
                raise ModuleNotFoundError(f'No module named {name!r}', name=name)
            return found
        if self._checkout and name == 'tf_estimator':
            return importlib.machinery.PathFinder.find_spec(name, [self._checkout])
        return importlib.machinery.ModuleSpec(name, self) if name in _FORMER and _is_of_a_checkout(name) else None

    def exec_module(self, module: types.ModuleType) -> None:
        refuse(module.__name__)


def _is_of_a_checkout(name):
    spec = importlib.machinery.PathFinder.find_spec(name)
    places = [*(spec.submodule_search_locations or ())] if spec else []
    package = os.path.join(os.path.dirname(places[0]), _PACKAGE) if places else ''
    return os.path.isfile(os.path.join(package, '__main__.py')) and not os.path.isdir(os.path.join(package, 'common'))


def install(checkout: str | None) -> None:
    """Finds modules so from now on.

    Args:
      checkout: the directory of this checkout; None for an installed package.

    Raises:
      ImportError: a module of this checkout is being imported by a former name.
    """
    sys.meta_path.insert(0, _Finder(checkout))
    for name, module in list(sys.modules.items()):
        file = getattr(module, '__file__', None)
        if checkout and file and name.partition('.')[0] in _FORMER and file.startswith(os.path.join(checkout, '')):
            refuse(name)


def refuse(name: str) -> None:
    """Raises ImportError with the current name of a package or module."""
    raise ImportError(f'{name} is now {_PACKAGE}.{name}', name=name)


def explain(error: ImportError) -> str | None:
    """Returns a line with the place and the current name if an import failed since it uses a former name; None if not."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith('<')]
    frame = next(frame for frame in reversed(frames) if frame.filename != __file__)
    found = re.match(rf'(?:from|import)\s+((?:{"|".join(_FORMER)})\b[\w.]*)(?:\s+import\s+(\w+))?', frame.line or '')
    for former in (f'{found[1]}.{found[2]}', found[1]) if found else ():
        current = f'{_PACKAGE}.{_MOVED.get(former, former)}'.rstrip('.')
        if exists(current):
            return f'{frame.filename}, line {frame.lineno}: {former} is now {current}'
    return None


def exists(name: str) -> bool:
    """Whether there is a module of this name."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False

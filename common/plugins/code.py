"""The code that a run is made by: digests of its modules, of the project's files that they import, and of the framework."""

import ast
from collections.abc import Iterable, Iterator
import contextlib
import functools
import hashlib
import importlib.machinery
import os
from pathlib import Path
import sys
import sysconfig
import types
from typing import Any

import tf_estimator

import estimator_trainer

_FRAMEWORK = 'estimator_trainer'
_OWN_PARTS = (f'{_FRAMEWORK}.models', f'{_FRAMEWORK}.datasets')  # Each file is digested by itself, if a run uses it.
_LIBRARIES = {'site-packages', 'dist-packages'}  # Also those of the user and of the system.
_OF_PYTHON = tuple(f'{os.path.abspath(path)}{os.sep}' for path in {*sysconfig.get_paths().values()} if path)


def digests(modules: Iterable[Any]) -> dict[str, str | None]:
    """Returns {name of a module: SHA-256 of its file, None if it has none}.

    They are the given ones, those that they import, directly or not, but for Python's and those of libraries, and
    'estimator_trainer' and 'tf_estimator', each of all its files.

    Args:
      modules: the model and dataset modules, or objects in their place, of which the modules that define them count.
    """
    found: dict[str, str | None] = {}
    pending = [_name_of(module) for module in modules]
    while pending:
        name = pending.pop()
        if name in found or name.partition('.')[0] in sys.stdlib_module_names:
            continue
        path = _path(name)
        found[name] = path and hashlib.sha256(Path(path).read_bytes()).hexdigest()
        pending += [other for other in _imports(name, path) if _is_own(other)] if path else []
    return {**dict(sorted(found.items())), **_of_framework()}


def is_of_library(path: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    path = os.path.abspath(path)
    return path.startswith(_OF_PYTHON) or not _LIBRARIES.isdisjoint(Path(path).parts)


def _name_of(module):
    """Returns the name of a module, or of that which defines an object in its place."""
    name = module.__name__ if isinstance(module, types.ModuleType) else getattr(module, '__module__', None)
    return name or type(module).__module__


def _is_own(name):
    """Whether a module is a file of the user's project, or one of the models and datasets."""
    if name.partition('.')[0] in (_FRAMEWORK, tf_estimator.__name__):
        return name.startswith(tuple(f'{part}.' for part in _OWN_PARTS))
    path = _path(name)
    return bool(path) and not is_of_library(path)


def _path(name):
    """Returns the Python file of a module, which need not be loaded; None if it has none."""
    module = sys.modules.get(name)
    path = vars(module).get('__file__') if isinstance(module, types.ModuleType) else None
    if module is None:
        spec = _spec(name)
        path = spec and spec.origin
    return path if path and path.endswith('.py') and os.path.isfile(path) else None


def _spec(name):
    """Returns the spec of a module, none of whose packages need be loaded; None if there is none."""
    package = name.rpartition('.')[0]
    with contextlib.suppress(ImportError, AttributeError, KeyError, ValueError):
        if not package:
            return importlib.machinery.PathFinder.find_spec(name)
        of_package = None if package in sys.modules else _spec(package)
        places = of_package.submodule_search_locations if of_package else sys.modules[package].__path__
        return importlib.machinery.PathFinder.find_spec(name, places) if places is not None else None
    return None


def _imports(name: str, path: str) -> Iterator[str]:
    """Yields the names of all that a file may import: modules, the packages that contain them, and names in these."""
    package = name if os.path.basename(path) == '__init__.py' else name.rpartition('.')[0]
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (SyntaxError, ValueError, RecursionError):  # It was changed since it was imported.
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split('.')[: len(package.split('.')) + 1 - node.level] if node.level else []
            base = '.'.join([*parts, *filter(None, [node.module])])
            names = [base, *(f'{base}.{alias.name}' for alias in node.names)]
        for found in names:
            parts = found.split('.')
            yield from ('.'.join(parts[:end]) for end in range(1, len(parts) + 1))


@functools.cache
def _of_framework():
    """Returns the digests of the framework's files, which a checkout may change without another version."""
    own = [Path(path) / wing for path in estimator_trainer.__path__ for wing in ('common', 'hparams')]
    return {_FRAMEWORK: _of_folders(own), tf_estimator.__name__: _of_folders([Path(tf_estimator.__file__).parent])}


def _of_folders(folders):
    """Returns a digest of the Python files in folders, by their paths relative to the folder above."""
    found = hashlib.sha256()
    paths = {path.relative_to(folder.parent).as_posix(): path for folder in folders for path in folder.rglob('*.py')}
    for name, path in sorted(paths.items()):
        found.update(f'{hashlib.sha256(path.read_bytes()).hexdigest()} {name}\n'.encode())
    return found.hexdigest()

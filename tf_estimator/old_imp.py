"""The module imp, dropped by Python 3.12, on importlib: the functions that load modules from files."""

import importlib
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    BuiltinImporter,
    ExtensionFileLoader,
    FrozenImporter,
    PathFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
import importlib.util
import os
import sys
import types
from typing import Any

PY_SOURCE, PY_COMPILED, C_EXTENSION, PKG_DIRECTORY, C_BUILTIN, PY_FROZEN = 1, 2, 3, 5, 6, 7
cache_from_source = importlib.util.cache_from_source
source_from_cache = importlib.util.source_from_cache
new_module = types.ModuleType
reload = importlib.reload
_LOADERS: dict[int, Any] = {PY_SOURCE: SourceFileLoader, PY_COMPILED: SourcelessFileLoader, C_EXTENSION: ExtensionFileLoader}


def get_suffixes():
    """Returns (suffix, mode, type) of the files of modules."""
    groups = (
        (EXTENSION_SUFFIXES, 'rb', C_EXTENSION),
        (SOURCE_SUFFIXES, 'r', PY_SOURCE),
        (BYTECODE_SUFFIXES, 'rb', PY_COMPILED),
    )
    return [(suffix, mode, kind) for suffixes, mode, kind in groups for suffix in suffixes]


def find_module(name, path=None):
    """Returns (open file or None, path name, (suffix, mode, type)) for load_module; ImportError if there is none."""
    if path is None and BuiltinImporter.find_spec(name):
        return None, None, ('', '', C_BUILTIN)
    if path is None and FrozenImporter.find_spec(name):
        return None, None, ('', '', PY_FROZEN)
    spec = PathFinder.find_spec(name, sys.path if path is None else path)
    if spec is None or spec.origin is None:
        raise ImportError(f'No module named {name!r}', name=name)
    if spec.submodule_search_locations is not None:
        return None, os.path.dirname(spec.origin), ('', '', PKG_DIRECTORY)
    suffix, mode, kind = next(found for found in get_suffixes() if spec.origin.endswith(found[0]))
    return open(spec.origin, mode), spec.origin, (suffix, mode, kind)


def load_module(name, file, pathname, description):
    """Loads the result of find_module, even if already loaded; the caller closes the file."""
    kind = description[2]
    if kind in (C_BUILTIN, PY_FROZEN):
        return importlib.import_module(name)
    if kind == PKG_DIRECTORY:
        return load_package(name, pathname)
    return _load(name, pathname, _LOADERS[kind](name, pathname))


def load_package(name, path):
    file = os.path.join(path, '__init__.py')
    return _load(name, file, SourceFileLoader(name, file), [path])


def load_source(name, pathname, file=None):
    return _load(name, pathname, SourceFileLoader(name, pathname))


def load_compiled(name, pathname, file=None):
    return _load(name, pathname, SourcelessFileLoader(name, pathname))


def load_dynamic(name, path, file=None):
    return _load(name, path, ExtensionFileLoader(name, path))


def _load(name, path, loader, locations=None):
    spec: Any = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=locations)
    loaded = sys.modules.get(name)
    module = importlib.util.module_from_spec(spec) if loaded is None else loaded  # Executed again if already loaded.
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        if loaded is None:
            del sys.modules[name]
        raise
    return sys.modules[name]


def acquire_lock():
    """Does nothing: the import system locks each module."""


def release_lock():
    """Does nothing, like acquire_lock."""


def lock_held():
    """Returns False."""
    return False

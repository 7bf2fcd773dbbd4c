"""Modules and their contents under former names."""

from collections.abc import Callable, Mapping
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys
import types
from typing import Any


class Aliases(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules and their submodules by other names, as the same modules.

    Args:
      names: {alias: name of the module}; nested aliases: the inner one first.
      on_import: called with alias and name of each module imported by an alias.
    """

    def __init__(self, names: Mapping[str, str], on_import: Callable[[str, str], None] | None = None) -> None:
        self._names = names
        self._on_import = on_import

    def find_spec(self, name: str, *unused_args: Any) -> importlib.machinery.ModuleSpec | None:
        real = self._real(name)
        try:
            is_there = real and importlib.util.find_spec(real)
        except ModuleNotFoundError:  # Of its package.
            return None
        return importlib.util.spec_from_loader(name, self) if is_there else None

    def exec_module(self, module: types.ModuleType) -> None:
        real = self._real(module.__name__)
        assert real
        if self._on_import:
            self._on_import(module.__name__, real)
        sys.modules[module.__name__] = importlib.import_module(real)

    def _real(self, name):
        for alias, real in self._names.items():
            if name == alias or name.startswith(f'{alias}.'):
                return real + name[len(alias) :]
        return None


def add_names(module: Any, names: Mapping[str, str], on_use: Callable[[str], None] | None = None) -> None:
    """Adds lazy names to a module (PEP 562); the first use of one resolves it and stores it in the module.

    Args:
      module: the module.
      names: {name: path of its target, such as 'package.module.name'}.
      on_use: called with a name at its first use.
    """
    own: Callable[[str], Any] | None = vars(module).get('__getattr__')

    def getattribute(name):
        if name not in names:
            if own:
                return own(name)
            raise AttributeError(f'module {module.__name__!r} has no attribute {name!r}')
        value = pkgutil.resolve_name(names[name])
        if on_use:
            on_use(name)
        setattr(module, name, value)
        return value

    module.__getattr__ = getattribute

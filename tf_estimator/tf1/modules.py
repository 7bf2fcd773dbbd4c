"""The modules that a TensorFlow 1 program imports, whose names are looked up at their first use."""

from collections.abc import Sequence
import contextlib
import functools
import importlib
import importlib.util
import operator
import pkgutil
import re
import types
from typing import Any

from tf_estimator.replacements import absent
from tf_estimator.tf1 import tables

VERSION = '1.15.5'  # The last release with these names.
_V1 = 'tensorflow.compat.v1'
_OWN = 'tf_estimator.'
_FOLDER = re.compile(r'\.python\.\w+(?=\.)')  # Of a package's files: tensorflow.contrib.learn.python.learn.datasets.


class MissingPackage(AttributeError):
    """A package with names of tf.contrib is not installed: `hasattr` is false."""


class _Module(types.ModuleType):
    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """All names, for programs that search them."""
        for name in self._names():
            with contextlib.suppress(AttributeError):  # It is a module of another.
                getattr(self, name)
        return vars(types.ModuleType)['__dict__'].__get__(self)


class TensorFlow1(_Module):
    """The module `tensorflow` of TensorFlow 1.15.

    Args:
      v1: the module tensorflow.compat.v1.
    """

    def __init__(self, v1: Any) -> None:
        super().__init__('tensorflow', v1.__doc__)
        self.__path__: list[str] = []
        self.__version__ = self.VERSION = VERSION
        self.compat = types.ModuleType('tensorflow.compat')
        vars(self.compat).update({**vars(importlib.import_module('tensorflow.compat')), 'v1': self})  # It has tf.contrib, too.
        self.python = importlib.import_module('tensorflow.python')
        self.contrib = Package('tensorflow.contrib')
        self.examples = Package('tensorflow.examples')
        self._v1 = v1
        v1.logging._logger = v1.get_logger()  # Of TensorFlow 1.4 and earlier.

    def _names(self):
        return [*filter(_is_public, dir(self._v1)), 'contrib']

    def __getattr__(self, name: str) -> Any:
        if name == '__all__':
            return self._names()
        try:
            value = getattr(self._v1, name)
        except AttributeError:
            raise AttributeError(absent(name), name=name, obj=self) from None
        setattr(self, name, value)
        return value


class Package(_Module):
    """A package such as tf.contrib.layers, whose names are in other modules today.

    Args:
      name: of the module.
      sources: the paths of the modules with its names; by default those in the tables.
    """

    def __init__(self, name: str, sources: Sequence[str] | None = None) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._sources = tables.PACKAGES.get(name, ()) if sources is None else sources

    def _names(self):
        for path in (*tables.PACKAGES, *tables.NAMES):
            package, _, name = path.rpartition('.')
            if package == self.__name__:
                yield name
        for source in self._sources:
            with contextlib.suppress(MissingPackage):
                yield from filter(_is_public, dir(_load(source)))

    def __getattr__(self, name: str) -> Any:
        if name == '__all__':
            return sorted(filter(_is_public, self.__dict__))
        if name.startswith('__'):
            raise AttributeError(name)
        value = self._find(name)
        setattr(self, name, value)
        return value

    def submodule(self, name: str) -> Any:
        """Returns a module that a program imports; raises AttributeError, with the reason, if there is none.

        Programs import the files of a package of tf.contrib, too, below its folder `python`. They have the package's names.
        """
        if '.python' not in self.__name__:
            return getattr(self, name)
        with contextlib.suppress(AttributeError):
            found = getattr(self, name)
            if not (callable(found) and name in tables.FILES):  # A function may have the name of its file.
                return found
        return Package(f'{self.__name__}.{name}', self._sources)

    def _find(self, name):
        path = f'{self.__name__}.{name}'
        for known in (path, _FOLDER.sub('', path)):
            if known in tables.PACKAGES:
                return Package(known)
        if name == 'python' and self._sources or self.__name__.endswith('.python'):  # A folder.
            return Package(path, self._sources)
        for known in (path, f'{self.__name__.partition(".python")[0]}.{name}'):
            if known in tables.NAMES:
                return _load(tables.NAMES[known])
        missing = None
        for source in self._sources:
            try:
                value = _member(_load(source), name)
            except MissingPackage as error:
                missing = error
                continue
            if value is not None and not _is_foreign(value, source):
                return value
        if name in tables.FILES and '.python' in self.__name__:
            return Package(path, self._sources)
        if missing:
            raise missing
        raise AttributeError(absent(path.removeprefix('tensorflow.')), name=name, obj=self)


@functools.cache
def _load(source):
    if source == _V1:
        return importlib.import_module(_V1)
    if source.startswith(f'{_V1}.'):
        # By attributes: an import would load the module again, and put it, without what is restored, in place of the first.
        return operator.attrgetter(source[len(_V1) + 1 :])(importlib.import_module(_V1))
    try:
        return pkgutil.resolve_name(source)
    except ModuleNotFoundError as error:
        distribution = tables.DISTRIBUTIONS.get(str(error.name))
        if not distribution:
            raise
        raise MissingPackage(f'the package {distribution} is missing: pip install {distribution}', name=error.name) from None


def resolve(root: Any, parts: Sequence[str]) -> Any:
    """Returns what a dotted path names; raises AttributeError, with the reason, if there is nothing.

    Args:
      root: the module TensorFlow1.
      parts: of the path below it.
    """
    found = root
    for part in parts:
        found = found.submodule(part) if isinstance(found, Package) else _member(found, part)
        if found is None:
            raise AttributeError(absent('.'.join(parts)))
    return found


def _member(module, name):
    """Returns a name of a module, or a module of a package, which is imported if necessary; None if there is none."""
    value = getattr(module, name, None)
    path = getattr(module, '__name__', '') + f'.{name}'
    if value is None and path.startswith('tf_slim.') and hasattr(module, '__path__') and importlib.util.find_spec(path):
        return importlib.import_module(path)
    return value


def _is_foreign(value, source):
    """Whether a value is a module that the code of a source imports, such as tensorflow.python.ops.variables, or its file."""
    is_package = getattr(value, '__name__', '').startswith(f'{source}.') and not source.startswith(_OWN)
    return isinstance(value, types.ModuleType) and not (is_package or source.startswith(_V1))


def _is_public(name):
    return not name.startswith('_')

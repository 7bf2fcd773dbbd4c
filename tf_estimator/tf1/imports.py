"""The import statement of a program's own files, for which `tensorflow` is another module than for libraries."""

import builtins
from collections.abc import Mapping, Sequence
import functools
import glob
import importlib
import importlib.util
import os
import site
import sys
import sysconfig
import types
from typing import Any

from tf_estimator.tf1.modules import resolve

SHARED = ('core', 'compiler', 'python', 'tools', 'tsl', '_api')  # Packages that a program shares with libraries.
_FOR_CALLERS = ('pkgutil', 'pydoc')  # Modules that import what their callers name.
_LITE = 'lite'  # It has names of compat.v1, and files that are shared.


def _folders(paths):
    return {os.path.join(os.path.abspath(path), '') for path in paths}


_LIBRARIES = _folders(
    [
        os.path.dirname(os.path.dirname(__file__)),
        *(sysconfig.get_path(name) for name in ('stdlib', 'platstdlib', 'purelib', 'platlib')),
        *site.getsitepackages(),
        site.getusersitepackages(),
    ]
)
_LIBRARY_FOLDERS = (f'{os.sep}site-packages{os.sep}', f'{os.sep}dist-packages{os.sep}')


class Imports:
    """Args:
    tensorflow: the module that the program's own files import.
    directory: a folder of such files, even within site-packages; else the script and all files outside of libraries are.
    """

    def __init__(self, tensorflow: Any, directory: str | None):
        self._tensorflow = tensorflow
        folder = os.path.join(os.path.abspath(directory), '') if directory else ''
        self._directory = '' if folder.endswith(_LIBRARY_FOLDERS) else folder
        self._import, self._import_module = builtins.__import__, importlib.import_module
        self._is_own = functools.cache(self._is_own_file)

    def load(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Replaces builtins.__import__."""
        if level or not _is_of_tensorflow(name) or not self._is_of_program(globals, sys._getframe(1)):
            return self._import(name, globals, locals, fromlist or (), level)
        module = self._find(name)
        if not fromlist:
            return self._tensorflow
        for item in fromlist:
            if item != '*' and not hasattr(module, item):
                self._check_submodule(module, f'{name}.{item}')
        return module

    def load_module(self, name: str, package: str | None = None) -> Any:
        """Replaces importlib.import_module."""
        path = importlib.util.resolve_name(name, package) if package and name.startswith('.') else name
        if _is_of_tensorflow(path) and self._is_of_program(None, sys._getframe(1)):
            return self._find(path)
        return self._import_module(name, package)

    def _find(self, name):
        _, *parts = name.split('.')
        if not parts or parts[0] not in SHARED:
            try:
                return resolve(self._tensorflow, parts)
            except AttributeError as error:
                if parts[0] != _LITE:
                    raise ModuleNotFoundError(str(error), name=name) from None
        module = self._import_module(name)
        package = self._tensorflow
        for i, part in enumerate(parts):
            if not hasattr(package, part):  # As an import does.
                setattr(package, part, sys.modules['.'.join(['tensorflow', *parts[: i + 1]])])
            package = getattr(package, part)
        return module

    def _check_submodule(self, module, path):
        """Imports a module that is no attribute of its package yet; raises ImportError with the reason if there is none."""
        try:
            if path.split('.')[1] in (*SHARED, _LITE):
                self._find(path)
            else:
                getattr(module, path.rpartition('.')[2])
        except (AttributeError, ModuleNotFoundError) as error:
            raise ImportError(str(error), name=path) from None

    def _is_of_program(self, names: Mapping[str, Any] | None, frame: types.FrameType | None) -> bool:
        """Whether globals are of a program's file; if of none, as in exec(code, {}), whether those of the calling frame are."""
        names = names or {}
        if names.get('__name__') == '__main__':
            return True
        if names.get('__file__') is not None and names.get('__name__') not in _FOR_CALLERS:
            return self._is_own(names['__file__'])
        return frame is not None and self._is_of_program(frame.f_globals, frame.f_back)

    def _is_own_file(self, path):
        path = os.path.abspath(path)
        own = self._directory if path.startswith(self._directory) else ''
        # A virtual environment or `pip install --target` within the program's directory is none of the program.
        within = [folder for folder in (*_LIBRARIES, *_folders(sys.path)) if path.startswith(folder) and len(folder) > len(own)]
        is_library = any(folder in _LIBRARIES or glob.glob(f'{glob.escape(folder)}*.dist-info') for folder in within)
        return not is_library and not any(name in os.sep + path[len(own) :] for name in _LIBRARY_FOLDERS)


def _is_of_tensorflow(name):
    return name.partition('.')[0] == 'tensorflow'

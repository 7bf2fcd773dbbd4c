"""Runs a script or a module like Python, with tf.estimator and names dropped by Python and NumPy."""

import importlib.machinery
import importlib.util
import os
import re
import runpy
import sys
import types
from typing import Any

import tf_estimator
from tf_estimator.errors import CommandError


def run_script(script: str, arguments: list[str], tf1: bool = False, exact: bool = False) -> None:
    """Runs a script like `python SCRIPT ARGS...`; raises CommandError if it cannot start.

    Args:
      script: a file of source or bytecode; a directory or zip file with a __main__.py; or '-' for stdin.
      arguments: of the script.
      tf1: whether `tensorflow` is TensorFlow 1 for the program.
      exact: whether its runs resume bit for bit.
    """
    if script != '-' and not os.path.exists(script):
        raise CommandError(f'{script}: no such file', 2)
    if os.path.isdir(script) and not os.path.exists(os.path.join(script, '__main__.py')):
        raise CommandError(f'{script}: is a directory without __main__.py', 2)
    path, directory = os.path.abspath(script), os.path.dirname(os.path.realpath(script))
    if script == '-':
        path, directory = '<stdin>', ''
    _install(directory, tf1, exact)
    sys.argv = [script, *arguments]
    if os.path.isdir(path) or _is_binary(path):
        runpy.run_path(script, run_name='__main__')
        return
    if not (sys.flags.isolated or getattr(sys.flags, 'safe_path', False)):
        sys.path[0] = directory
    main = sys.modules['__main__'] = types.ModuleType('__main__')
    main.__file__ = path
    _ScriptLoader('__main__', path).exec_module(main)


def _is_binary(script):
    """Whether a file is bytecode or a zip file."""
    if not os.path.isfile(script):
        return False  # A pipe can be read only once.
    with open(script, 'rb') as file:
        return b'\0' in file.read(1 << 16)


class _ScriptLoader(importlib.machinery.SourceFileLoader):
    """Loads a script from a file or stdin and, like `python SCRIPT`, writes no bytecode."""

    def get_data(self, path: Any) -> bytes:
        return sys.stdin.buffer.read() if path == '<stdin>' else super().get_data(path)

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)  # Once, as pipes cannot be read again.


def run_module(module: str, arguments: list[str], tf1: bool = False, exact: bool = False) -> None:
    """Runs a module, or a package's __main__, like `python -m MODULE ARGS...`; raises CommandError if there is none."""
    package = module.partition('.')[0]
    found = importlib.util.find_spec(package) if package else None
    if found is None:  # The package's modules might import TensorFlow.
        raise CommandError(f'no module named {module}', 2)
    _install(next(iter(found.submodule_search_locations or ()), None), tf1, exact)
    try:
        spec = importlib.util.find_spec(module)
        if spec and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f'{module}.__main__')
    except ModuleNotFoundError as error:
        if not f'{module}.__main__.'.startswith(f'{error.name}.'):
            raise  # From an import in the package.
        spec = None
    if spec is None:
        raise CommandError(f'no module named {module}, or it is a package without __main__', 2)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name='__main__', alter_sys=True)


def _install(directory, is_tf1, is_exact):
    try:
        tf_estimator.install()
    except ImportError as error:
        raise CommandError(str(error)) from None
    from tf_estimator import dropped_names

    dropped_names.restore()
    if is_tf1:
        from tf_estimator import tf1

        tf1.enable(directory)
    if is_exact:
        from tf_estimator import exact

        exact.enable()
    _hide_own_frames(is_tf1)


def _is_of_tensorflow_1(error):
    """Whether an error is about a name of `tensorflow` that only TensorFlow 1 has."""
    import tensorflow as tf

    name = getattr(error, 'name', None) or ''
    if isinstance(error, ModuleNotFoundError):
        return name.startswith(('tensorflow.contrib', 'tensorflow.examples'))
    is_of_tf = isinstance(error, AttributeError) and error.obj is tf or isinstance(error, ImportError) and name == 'tensorflow'
    missing = re.search(r"(?:attribute|name) '(\w+)'", str(error))
    return bool(is_of_tf and missing and (missing[1] == 'contrib' or hasattr(tf.compat.v1, missing[1])))


def _hide_own_frames(is_tf1):
    """Makes tracebacks begin with the program's first line, as without this runner; names --tf1 where it would help."""
    show = sys.excepthook
    own = (os.path.dirname(__file__) + os.sep, runpy.__file__, '<frozen runpy>', '<frozen importlib.')

    def show_without(kind, error, traceback):
        while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(own):
            traceback = traceback.tb_next
        show(kind, error.with_traceback(traceback), traceback)
        if not is_tf1 and _is_of_tensorflow_1(error):
            print('This program is of TensorFlow 1: run it with python -m tf_estimator --tf1', file=sys.stderr)

    sys.excepthook = show_without

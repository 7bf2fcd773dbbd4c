"""Runs a script or a module as Python does, with tf.estimator in place, and names that Python and NumPy have dropped."""

import importlib.machinery
import importlib.util
import os
import runpy
import sys
import types
from typing import Any

import tf_estimator
from tf_estimator.errors import CommandError


def run_script(script: str, arguments: list[str]) -> None:
    """Runs a script as `python SCRIPT ARGS...` does; CommandError if it cannot start."""
    if not os.path.isfile(script):
        raise CommandError(f'{script}: no such file', 2)
    _install()
    sys.argv = [script, *arguments]
    if not (sys.flags.isolated or getattr(sys.flags, 'safe_path', False)):
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    main = sys.modules['__main__'] = types.ModuleType('__main__')
    main.__file__ = os.path.abspath(script)
    _ScriptLoader('__main__', main.__file__).exec_module(main)


class _ScriptLoader(importlib.machinery.SourceFileLoader):
    """Loads a script and, as `python SCRIPT` does, leaves no bytecode beside it."""

    def set_data(self, *unused_args: Any, **unused_kwargs: Any) -> None:
        pass


def run_module(module: str, arguments: list[str]) -> None:
    """Runs a module, or a package's __main__, as `python -m MODULE ARGS...` does; CommandError if there is none."""
    package = module.partition('.')[0]
    if not package or importlib.util.find_spec(package) is None:  # What is in the package might import TensorFlow.
        raise CommandError(f'no module named {module}', 2)
    _install()
    try:
        spec = importlib.util.find_spec(module)
        if spec and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f'{module}.__main__')
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise CommandError(f'no module named {module}, or it is a package without __main__', 2)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name='__main__', alter_sys=True)


def _install():
    try:
        tf_estimator.install()
    except ImportError as error:
        raise CommandError(str(error)) from None
    from tf_estimator import dropped_names

    dropped_names.restore()

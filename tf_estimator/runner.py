"""Runs a script as `python SCRIPT ARGS...` does, with tf.estimator in place."""

import importlib.machinery
import os
import sys
import types
from typing import Any, NoReturn

import tf_estimator


def run_script(arguments: list[str]) -> None:
    """Runs the script arguments[0] with the other arguments; exits with an error message of one line if it cannot start."""
    if not arguments:
        _fail('SCRIPT is missing: python -m tf_estimator SCRIPT ARGS...', 2)
    if not os.path.isfile(arguments[0]):
        _fail(f'{arguments[0]}: no such file', 2)
    try:
        tf_estimator.install()
    except ImportError as error:
        _fail(str(error), 1)
    sys.argv = arguments
    if not (sys.flags.isolated or getattr(sys.flags, 'safe_path', False)):
        sys.path[0] = os.path.dirname(os.path.realpath(arguments[0]))
    main = sys.modules['__main__'] = types.ModuleType('__main__')
    main.__file__ = os.path.abspath(arguments[0])
    _ScriptLoader('__main__', main.__file__).exec_module(main)


class _ScriptLoader(importlib.machinery.SourceFileLoader):
    """Loads a script and, as `python SCRIPT` does, leaves no bytecode beside it."""

    def set_data(self, *unused_args: Any, **unused_kwargs: Any) -> None:
        pass


def _fail(message: str, code: int) -> NoReturn:
    print(f'python -m tf_estimator: {message}', file=sys.stderr)
    sys.exit(code)

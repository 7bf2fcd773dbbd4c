"""The command line `python -m tf_estimator`."""

import io
import itertools
import os
import sys

from tf_estimator import AS_IT_WAS, __version__, environment, runner
from tf_estimator.errors import CommandError

_FLAGS = ('--tf1', '--exact', '--as_it_was')

_USAGE = """\
python -m tf_estimator SCRIPT ARGS...      runs a script, with tf.estimator; - reads it from stdin
python -m tf_estimator -m MODULE ARGS...   runs a module, like python -m, with tf.estimator
python -m tf_estimator --tf1 ...           runs a script, or -m MODULE, for which `tensorflow` is TensorFlow 1, with tf.contrib
python -m tf_estimator --exact ...         runs it so that Estimator's training, once stopped or killed, resumes bit for bit;
                                           also with --tf1
python -m tf_estimator --as_it_was ...     runs it with Estimator's silent traps as they were: without warnings or cures;
                                           also with --tf1
python -m tf_estimator --check PATH...     reads a program's files and says whether it will run; with --json, as JSON;
                                           exit code 1 if it needs an edit
python -m tf_estimator enable [--force]    gives tf.estimator to all programs of this virtual environment;
                                           with --force, even outside of a virtual environment
python -m tf_estimator disable             undoes that
python -m tf_estimator status              checks that it is enabled and works; exit code 1 if not
python -m tf_estimator --version           prints the version of tf_estimator
"""


def main(arguments: list[str]) -> None:
    """Runs the command; exits with a one-line message if it cannot."""
    try:
        _run(arguments)
    except CommandError as error:
        print(f'python -m tf_estimator: {error}', file=sys.stderr)
        sys.exit(error.code)


def _run(arguments):
    flags = [*itertools.takewhile(_FLAGS.__contains__, arguments)]
    if '--as_it_was' in flags:
        os.environ[AS_IT_WAS] = '1'  # For the processes that the program starts, too.
    modes = {'tf1': '--tf1' in flags, 'exact': '--exact' in flags}
    arguments = arguments[len(flags) :]
    match arguments:
        case ['-h' | '--help', *_] | ['enable' | 'disable' | 'status', '-h' | '--help']:
            print(_USAGE, end='')
        case ['--version']:
            print(f'tf_estimator {__version__}')
        case []:
            raise CommandError('SCRIPT is missing: python -m tf_estimator SCRIPT ARGS...', 2)
        case ['-m']:
            raise CommandError('MODULE is missing: python -m tf_estimator -m MODULE ARGS...', 2)
        case ['-m', module, *rest]:
            runner.run_module(module, rest, **modes)
        case ['--check', *rest]:
            _check(rest)
        case ['enable'] | ['enable', '--force']:
            print(environment.enable(is_forced=len(arguments) > 1))
        case ['disable']:
            print(environment.disable())
        case ['status']:
            print(environment.status())
        case ['enable' | 'disable' | 'status' as command, *rest]:
            raise CommandError(f'{command} does not take {" ".join(rest)} (see python -m tf_estimator --help)', 2)
        case [option, *_] if option.startswith('-') and option != '-':
            raise CommandError(f'there is no option {option}: python -m tf_estimator [-m MODULE | SCRIPT] ARGS...', 2)
        case [script, *rest]:
            runner.run_script(script, rest, **modes)


def _check(arguments):
    paths = [argument for argument in arguments if argument != '--json']
    if unknown := [path for path in paths if path.startswith('-')]:
        raise CommandError(f'--check does not take {unknown[0]} (see python -m tf_estimator --help)', 2)
    if not paths:
        raise CommandError('PATH is missing: python -m tf_estimator --check PATH...', 2)
    from tf_estimator.check import check

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='backslashreplace')  # For names of files.
    try:
        runs = check(paths, as_json='--json' in arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # Its reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        runs = False
    sys.exit(not runs)

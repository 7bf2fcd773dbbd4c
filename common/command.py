"""What the commands share: flags, help, log, signals, and mistakes told in one line."""

import contextlib
import json
import os
import sys

from absl import flags
import tensorflow.compat.v1 as tf
from tqdm.contrib.logging import logging_redirect_tqdm

from common import files
from common.errors import RunError, UsageError, check_utf8, tell
from common.stop import StopOnSignal


def execute(argv, doc, FLAGS, check, run):
    """Runs a command and prints its result as a line of JSON.

    Args:
      argv: list of str, the program and its arguments.
      doc: str, which --help begins with.
      FLAGS: absl.flags.FlagValues with a flag `help`.
      check: function of FLAGS that raises UsageError where they do not go together.
      run: function of FLAGS and a StopOnSignal that returns the result, a dict.

    Returns:
      The exit code: 0 done, 1 failed, 2 wrong usage.
    """
    try:
        _parse(argv, FLAGS)
        if FLAGS.help:
            print(doc, *(FLAGS.module_help(title) for title in FLAGS.flags_by_module_dict()), sep='\n')
            return 0
        check(FLAGS)
        tf.logging.set_verbosity(tf.logging.INFO)
        # Log lines and progress bars meet on a terminal only.
        redirect = logging_redirect_tqdm([tf.get_logger()]) if sys.stderr.isatty() else contextlib.nullcontext()
        with StopOnSignal() as stop, redirect:
            result = run(FLAGS, stop)
    except (UsageError, RunError) as error:
        tell(argv[0], error)
        return 2 if isinstance(error, UsageError) else 1
    except (tf.errors.OpError, OSError, RuntimeError) as error:
        said = files.explain(error)
        if not said:
            raise
        tell(argv[0], f'{said}: mend that, and give the same command again')
        return 1
    print(json.dumps(result))
    return 0


def _parse(argv, FLAGS):
    check_utf8(argv)
    try:
        rest = FLAGS(argv)[1:]
    except flags.Error as error:
        raise UsageError(str(error)) from None
    if rest:
        raise UsageError(f'{rest[0]}: every argument is a flag, --name=value; see --help')

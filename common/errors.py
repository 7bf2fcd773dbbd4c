"""The two errors that end a run with one line instead of a traceback."""

import json
import os
import re
import sys


class UsageError(Exception):
    """The command line, a hyper-parameter or a plug-in is wrong. The message names it and the cure; exit code 2."""


class RunError(Exception):
    """The data, a checkpoint or the disk stops the run. The message names the file and the cure; exit code 1."""


def print_error(program, error):
    """Prints what is wrong as one line on stderr, although what was typed may hold line breaks."""
    print(f'{os.path.basename(program)}:', *str(error).splitlines(), file=sys.stderr)


def first_line(error):
    """Returns the first line of what an error of TensorFlow says."""
    return message(error).partition('\n')[0]


def message(error):
    """Returns what an error of TensorFlow says, without where in a program its op was made, and once where it is told twice."""
    text = str(error).removeprefix('Graph execution error:').strip()
    text = re.split(r"^Node: '.*'\n", text, flags=re.MULTILINE)[-1]
    return re.sub(r'^\d+ root error.*\n *\(\d+\) \w+: ', '', text)


def check_range(params, name, at_least, at_most=None):
    """Raises UsageError if a hyper-parameter, or one of the items of a list, is less or more than it may be."""
    value = params[name]
    items = value if isinstance(value, (list, tuple)) else [value]
    if not all(at_least <= item <= (item if at_most is None else at_most) for item in items):
        given = json.dumps(value)
        wanted = f'at least {at_least}' if at_most is None else f'from {at_least} to {at_most}'
        raise UsageError(f'{name}={given} must be {wanted}')


def check_utf8(arguments):
    """Raises UsageError if one is of bytes that are not UTF-8, which Python has made surrogates of."""
    for argument in arguments:
        if any('\ud800' <= character <= '\udfff' for character in argument):
            raise UsageError(f'{argument}: is not UTF-8')

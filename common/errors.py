"""Errors reported in one line instead of a traceback, and the formatting of values in messages."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import contextlib
import itertools
import json
import os
import re
import sys
from typing import Any

_MAX_LINE = 10_000
# Also those that change the direction of text, and what stands for bytes that are not UTF-8.
_CONTROL = re.compile(r'[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]')


class _InOneLine(Exception):
    def __str__(self):
        return '\n'.join(in_one_line(str(text)) for text in self.args)

    def _render_traceback_(self):
        """Returns what IPython, and so a notebook, shows in place of a traceback, as lines."""
        return f'{type(self).__name__}: {self}'.splitlines()


class UsageError(_InOneLine):
    """The command line, a hyper-parameter or a plug-in is wrong. The message names it and the fix; exit code 2.

    Several mistakes are several arguments, a line of the message each.
    """


class RunError(_InOneLine):
    """The data, a checkpoint or the disk makes the run fail. The message names the file and the fix; exit code 1."""


def check_all(checks: Iterable[Callable[[], Any]]) -> None:
    """Calls all functions; raises UsageError with the mistakes of all those that raise it."""
    found: list[UsageError] = []
    for check in checks:
        try:
            check()
        except UsageError as error:
            found.append(error)
    if len(found) == 1:
        raise found[0]
    if found:
        raise UsageError(*dict.fromkeys(text for error in found for text in error.args))


def error_line(program: str, error: BaseException | str) -> str:
    """Returns an error as one line that a terminal can show."""
    return f'{os.path.basename(program)}: {in_one_line(str(error))}'


def error_lines(program: str, error: UsageError | RunError) -> str:
    """Returns a line for each mistake that an error names."""
    return ''.join(f'{error_line(program, text)}\n' for text in error.args)


def in_one_line(text: str) -> str:
    """Returns text as one line that a terminal can show, whatever names of a user's files are in it."""
    return printable(' '.join(text.splitlines()))


def printable(text: str) -> str:
    """Returns text, without the middle of a long one, with control characters escaped, but for line feeds and tabs."""
    if len(text) > _MAX_LINE:
        text = f'{text[: _MAX_LINE // 2]}...{text[-_MAX_LINE // 2 :]}'
    return _CONTROL.sub(lambda match: match[0].encode('unicode_escape').decode(), text)


def print_error(program: str, error: BaseException | str) -> None:
    """Prints an error as one line on stderr."""
    print_to_stderr(f'{error_line(program, error)}\n')


def print_to_stderr(text: str) -> None:
    """Prints text, if stderr can be written."""
    try:
        print(text, end='', file=sys.stderr, flush=True)
    except OSError:
        discard_output('stderr')


def discard_output(name: str) -> None:
    """Replaces sys.stdout or sys.stderr, which cannot be written, so that Python does not fail to flush it at exit."""
    with contextlib.suppress(OSError):
        getattr(sys, name).close()
    setattr(sys, name, open(os.devnull, 'w', encoding='utf-8'))


def first_line(error: BaseException) -> str:
    """Returns the first line of a TensorFlow error's message."""
    return message(error).partition('\n')[0]


def message(error: BaseException) -> str:
    """Returns a TensorFlow error's message without repetitions and without the place where its op was created."""
    text = str(error).removeprefix('Graph execution error:').strip()
    text = re.split(r"^Node: '.*'\n", text, flags=re.MULTILINE)[-1]
    return re.sub(r'^\d+ root error.*\n *\(\d+\) \w+: ', '', text)


def check_range(params: Mapping[str, Any], name: str, at_least: float, at_most: float | None = None) -> None:
    """Raises UsageError if a hyper-parameter, or an item of a list, is out of range."""
    value = params[name]
    items = value if isinstance(value, (list, tuple)) else [value]
    if not all(at_least <= item <= (item if at_most is None else at_most) for item in items):
        given = json.dumps(value)
        wanted = f'at least {at_least}' if at_most is None else f'from {at_least} to {at_most}'
        raise UsageError(f'{name}={given} must be {wanted}')


def check_rate(params: Mapping[str, Any], name: str) -> None:
    """Raises UsageError if a hyper-parameter, the share of what is dropped, is not in [0, 1)."""
    if not 0 <= params[name] < 1:
        raise UsageError(f'{name}={params[name]} must be at least 0 and less than 1')


def check_utf8(arguments: Iterable[str]) -> None:
    """Raises UsageError if an argument is not valid UTF-8: Python decodes such bytes to surrogates; or has a NUL character."""
    for argument in arguments:
        if '\0' in argument:
            raise UsageError(f'{argument}: has a NUL character')
        if any('\ud800' <= character <= '\udfff' for character in argument):
            raise UsageError(f'{argument}: is not UTF-8')


def _is(value, module, *types):
    """Whether a value is of these types of a module, which this check does not import."""
    found = sys.modules.get(module)
    return found is not None and isinstance(value, tuple(getattr(found, name) for name in types))


def listed(names: Collection[str], limit: int) -> str:
    """Returns the first names, separated by commas, with ... if there are more."""
    return ', '.join(itertools.islice(names, limit)) + (', ...' if len(names) > limit else '')


def and_more(names: Sequence[str], limit: int) -> str:
    """Returns the first names, separated by commas, and how many more there are, as in: a, b and 3 more."""
    return ', '.join(names[:limit]) + (f' and {len(names) - limit} more' if len(names) > limit else '')


def describe(value: Any) -> str:
    """Describes the type of a value, such as 'a tensor of float32 (3,)'."""
    if value is None:
        return 'None'
    if _is(value, 'tensorflow', 'Tensor', 'Variable'):
        return f'a tensor of {value.dtype.base_dtype.name} {value.shape}'
    if _is(value, 'numpy', 'ndarray'):
        return f'a NumPy array of {value.dtype} {value.shape}'
    name = type(value).__name__
    size = f' of {len(value)}' if isinstance(value, (tuple, list)) else ''
    return f'{"an" if name[0].lower() in "aeiou" else "a"} {name}{size}'


def show(value: Any) -> str:
    """Returns the repr of a value as one line of bounded length."""
    if _is(value, 'tensorflow', 'Tensor', 'Variable'):
        return describe(value)
    try:
        text = repr(value)
    except Exception:  # An integer of more than 4,300 digits, or a failing __repr__.
        return describe(value)
    text = ' '.join(text.split())
    return text if len(text) <= 100 else f'{text[:100]}...'

"""Slurm's lists of hosts, and of tasks per host, as Slurm writes them in its variables."""

from collections.abc import Iterator
import itertools
import re
import shutil
import subprocess

_HOST = re.compile(r'(?:[^\[\],\s]|\[[\d,-]+\])+')  # Text with any number of brackets, anywhere.
_RANGE = re.compile(r'(\d+)(?:-(\d+))?')
_SECONDS = 30  # That scontrol may take.


def expand_hosts(text: str) -> list[str]:
    """Returns the hosts of a list such as 'n[1-2],rack[1-2]n[08-10]-ib,m5', in its order; the last bracket varies fastest.

    Asks Slurm's own program, scontrol, where a list has another form.

    Raises:
      ValueError: it is no such list.
    """
    parts = _split(text)
    if all(map(_HOST.fullmatch, parts)):
        return [host for part in parts for host in _expand(part)]
    return _ask_slurm(text)


def expand_counts(text: str) -> list[int]:
    """Returns the numbers of a list such as '3(x2),1', here 3, 3 and 1.

    Raises:
      ValueError: it is no such list.
    """
    matches = [re.fullmatch(r'(\d+)(?:\(x(\d+)\))?', part) for part in text.split(',')]
    if not all(matches):
        raise ValueError(f'{text} is not a list of tasks per host')
    return [int(match[1]) for match in matches if match for _ in range(int(match[2] or 1))]


def _split(text):
    """Splits at the commas outside of brackets."""
    return re.split(r',(?![^\[]*\])', text) if text else []


def _expand(part) -> Iterator[str]:
    pieces = re.split(r'\[([\d,-]+)\]', part)  # Text and ranges in turn.
    return map(''.join, itertools.product(*(_numbers(piece) if i % 2 else [piece] for i, piece in enumerate(pieces))))


def _numbers(ranges):
    """Returns the numbers of ranges such as '1,08-10', with the zeros of the first of each."""
    found = []
    for text in ranges.split(','):
        match = _RANGE.fullmatch(text)
        if not match:
            raise ValueError(f'[{ranges}] is not a range of hosts')
        first, last = match[1], match[2] or match[1]
        found += [f'{number:0{len(first)}}' for number in range(int(first), int(last) + 1)]
    return found


def _ask_slurm(text):
    error = ValueError(f'{text} is not a list of hosts')
    program = shutil.which('scontrol')
    if not program or text.startswith('-'):
        raise error
    try:
        shown = subprocess.run([program, 'show', 'hostnames', text], capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        raise error from None
    if shown.returncode or not shown.stdout:  # It refuses with exit code 0.
        raise error
    return shown.stdout.split()

"""`python -m tf_estimator --check`: whether a program will run, read from its files without running them."""

import collections
from collections.abc import Sequence
import json
import os
from typing import NamedTuple
import warnings

import tf_estimator
from tf_estimator.check.files import files_of
from tf_estimator.check.source import Use, uses_in
from tf_estimator.errors import CommandError

_TEXTS = {'bridged': 'bridged', 'tf1': 'with --tf1', 'install': 'needs {}', 'edit': 'needs an edit: {}', 'gone': 'gone: {}'}


class Finding(NamedTuple):
    """A name that is not simply there.

    Attributes:
      place: the first in its file.
      status: 'bridged', by this package; 'tf1', with --tf1; 'install', 'edit' or 'gone', for which `cure` says what to do.
      places: the number of them in the file.
    """

    place: str
    name: str
    status: str
    cure: str
    places: int

    def __str__(self) -> str:
        text = f'{self.place}: {self.name}: {_TEXTS[self.status].format(self.cure)}'
        return f'{text} ({self.places} places)' if self.places > 1 else text


def check(paths: Sequence[str], as_json: bool = False) -> bool:
    """Prints each name of TensorFlow that is not simply there, and whether the program runs.

    Args:
      paths: Python files, which are read with their own imports, notebooks, or folders of them; of one program.

    Returns:
      Whether it runs without an edit.

    Raises:
      CommandError: a path has no such files, or they cannot be read, or TensorFlow does not load.
    """
    files = list(dict.fromkeys(file for path in paths for file in _files(path)))
    try:
        tf_estimator.install()
    except ImportError as error:
        raise CommandError(str(error)) from None
    findings, is_tf1 = _judge(_read(files, paths))
    edits = sum(finding.places for finding in findings if finding.status in ('edit', 'gone'))
    verdict = _summary(findings, edits, is_tf1)
    if as_json:
        names = [finding._asdict() for finding in findings]
        print(json.dumps({'verdict': verdict, 'tf1': is_tf1, 'edits': edits, 'files': len(files), 'names': names}, indent=2))
    else:
        print(*findings, verdict, sep='\n')
    return not edits


def _files(path):
    if not os.path.exists(path):
        raise CommandError(f'{path}: no such file or directory', 2)
    files = list(files_of(path))
    if not files:
        raise CommandError(f'{path}: has no Python files', 2)
    return files


def _read(files, paths):
    """Returns the uses of libraries' names, but for the names that the program adds to them."""
    from tf_estimator.check.names import LIBRARIES  # Late, as it imports TensorFlow.

    own = {os.path.splitext(name)[0] for path in paths if os.path.isdir(path) for name in os.listdir(path)}
    try:
        found = [uses_in(file, LIBRARIES.keys() - own) for file in files]
    except OSError as error:
        raise CommandError(f'{error.filename}: {error.strerror}', 2) from None
    added = {name for _, names in found for name in names}
    return [use for uses, _ in found for use in uses if not any(f'{use.name}.'.startswith(f'{name}.') for name in added)]


def _judge(uses):
    """Returns the findings, and whether the program is of TensorFlow 1: whether it needs fewer edits so."""
    from tf_estimator.check.names import Names

    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # Of libraries, as they load.
        as_it_is, with_tf1 = ([names.judge(use) for use in uses] for names in (Names(tf1=False), Names(tf1=True)))
    is_tf1 = sum(verdict.needs_edit for verdict in with_tf1) < sum(verdict.needs_edit for verdict in as_it_is)
    counts: collections.Counter[tuple[str, str, str, str]] = collections.Counter()
    places: dict[tuple[str, str, str, str], str] = {}
    for use, plain, verdict in zip(uses, as_it_is, with_tf1 if is_tf1 else as_it_is):
        is_cured = plain.needs_edit and verdict.status in ('there', 'bridged')
        status = 'tf1' if is_cured else verdict.status
        if status != 'there':
            file, _, _ = use.place.rpartition(':')
            key = file, _shown(use), status, verdict.cure
            counts[key] += 1
            places.setdefault(key, use.place)
    return [Finding(places[key], *key[1:], count) for key, count in counts.items()], is_tf1


def _shown(use: Use) -> str:
    return f'tf{use.name.removeprefix("tensorflow")}' if use.name.startswith('tensorflow.') else use.name


def _summary(findings, edits, is_tf1):
    if edits:
        rest = ', the rest runs with --tf1' if is_tf1 else ''
        return f'{edits} place{"s need" if edits > 1 else " needs"} an edit{rest}'
    packages = sorted({finding.cure for finding in findings if finding.status == 'install'})
    return ('runs with --tf1' if is_tf1 else 'runs as it is') + (f', after {", ".join(packages)}' if packages else '')

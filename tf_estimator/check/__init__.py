"""`python -m tf_estimator --check`: whether a program will run, read from its files without running them."""

import collections
from collections.abc import Sequence
import contextlib
import json
import os
import sys
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
        with _without_program():
            tf_estimator.install()
    except ImportError as error:
        raise CommandError(str(error)) from None
    findings, is_tf1, others = _judge(_read(files))
    edits = sum(finding.places for finding in findings if finding.status in ('edit', 'gone'))
    verdict = _summary(findings, edits, is_tf1, others)
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


def _read(files):
    """Returns the uses of libraries' names, but for the names that the program adds to them."""
    from tf_estimator.check.names import LIBRARIES  # Late, as it imports TensorFlow.

    names = [os.path.split(os.path.abspath(file)) for file in files]
    own = {os.path.basename(folder) if name == '__init__.py' else os.path.splitext(name)[0] for folder, name in names}
    try:
        found = [uses_in(file, LIBRARIES, own - {'tensorflow'}) for file in files]
    except OSError as error:
        raise CommandError(f'{error.filename}: {error.strerror}', 2) from None
    added = {name for _, names in found for name in names}
    return [use for uses, _ in found for use in uses if not any(f'{use.name}.'.startswith(f'{name}.') for name in added)]


def _judge(uses):
    """Returns the findings, whether files are of TensorFlow 1, which need fewer edits so, and how many others are of 2."""
    from tf_estimator.check.names import Names

    with warnings.catch_warnings(), _without_program():
        warnings.simplefilter('ignore')  # Of libraries, as they load.
        judged = list(zip(uses, *([names.judge(use) for use in uses] for names in (Names(tf1=False), Names(tf1=True)))))
    files = collections.defaultdict(list)
    for use, *verdicts in judged:
        files[use.file].append([verdict.needs_edit + (verdict.is_of_v1 / 2) for verdict in verdicts])
    edits = {file: [sum(column) for column in zip(*rows)] for file, rows in files.items()}
    is_tf1 = any(with_tf1 < plain for plain, with_tf1 in edits.values())
    of_2 = {file for file, (plain, with_tf1) in edits.items() if plain < with_tf1 and is_tf1}
    counts: collections.Counter[tuple[str, str, str, str]] = collections.Counter()
    places: dict[tuple[str, str, str, str], str] = {}
    for use, plain, with_tf1 in judged:
        verdict = with_tf1 if is_tf1 and use.file not in of_2 else plain
        is_cured = verdict is with_tf1 and plain.needs_edit and verdict.status in ('there', 'bridged')
        status = 'tf1' if is_cured else verdict.status
        if status != 'there':
            key = use.file, _shown(use), status, verdict.cure
            counts[key] += 1
            places.setdefault(key, use.place)
    return [Finding(places[key], *key[1:], count) for key, count in counts.items()], is_tf1, len(of_2)


@contextlib.contextmanager
def _without_program():
    """Within the block, modules of the current directory, which may be the program's, are not imported."""
    path = sys.path[:]
    sys.path[:] = [folder for folder in path if os.path.realpath(folder) != os.getcwd()]
    try:
        yield
    finally:
        sys.path[:] = path


def _shown(use: Use) -> str:
    name = ''.join(use.name.partition('flags.FLAGS')[:2])  # All flags of a program in one line.
    return f'tf{name.removeprefix("tensorflow")}' if name.startswith('tensorflow.') else name


def _summary(findings, edits, is_tf1, others):
    """Returns the last line.

    Args:
      others: the number of files that do not run with --tf1, although others need it.
    """
    kinds = f', but for {others} of TensorFlow 2' if others else ''
    if edits:
        rest = f', the rest runs with --tf1{kinds}' if is_tf1 else ''
        return f'{edits} place{"s need" if edits > 1 else " needs"} an edit{rest}'
    packages = sorted({finding.cure for finding in findings if finding.status == 'install'})
    return (f'runs with --tf1{kinds}' if is_tf1 else 'runs as it is') + (f', after {", ".join(packages)}' if packages else '')

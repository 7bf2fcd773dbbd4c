"""Checks public programs, and runs those that bring their data; prints the table of docs/compatibility.md.

    python -m tools.compat.programs [--source=https://github.com/{owner}/{name}] [--work=DIR] [OWNER/NAME...]

programs.tsv has the programs, each at a commit, with what happened when it ran. Those without a command ran once, with small
data that was made for them. Exits with 1 if a command no longer ends as it did.
"""

import argparse
import csv
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile

from tools.compat.environments import git

PROGRAMS = Path(__file__).with_name('programs.tsv')
RAN = 'ran'
_TIME_LIMIT = 600  # Seconds.


def main() -> None:
    arguments = argument_parser(__doc__, 'programs', metavar='OWNER/NAME').parse_args()
    print('| repository | commit | file | --check | what happened |\n| --- | --- | --- | --- | --- |')
    has_changed = False
    for row in chosen_rows(PROGRAMS, 'repository', arguments.names):
        folder = checkout(arguments.work.resolve(), arguments.source, row['repository'], row['commit'])
        outcome = row['outcome']
        if row['command']:
            found = _run(folder, row['command'].split())
            has_changed |= (found == RAN) != (outcome == RAN)
            outcome = outcome if found == RAN else found
        cells = (row['repository'], row['commit'], row['file'], _check(folder, row['file']), outcome)
        print(f'| {" | ".join(cells)} |', flush=True)
    sys.exit(int(has_changed))


def argument_parser(doc, folder, metavar):
    """Returns the parser of a command on public programs: names, the source of repositories, and a folder to work in."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', metavar=metavar)
    parser.add_argument('--source', default='https://github.com/{owner}/{name}', help='of a repository (default: %(default)s)')
    parser.add_argument('--work', default=Path(tempfile.gettempdir(), folder), type=Path, help='default: %(default)s')
    return parser


def chosen_rows(path, column, names):
    """Returns the rows of a table, {column: value}; only those with these names, if any are given; exits if one is unknown."""
    with path.open(encoding='utf-8') as file:
        rows = [*csv.DictReader(file, delimiter='\t')]
    check_names(names, {row[column] for row in rows})
    return [row for row in rows if not names or row[column] in names]


def check_names(names, known):
    """Exits if a name is unknown."""
    if unknown := [name for name in names if name not in known]:
        sys.exit(f'{unknown[0]} is none of: {", ".join(sorted(known))}')


def checkout(work, source, repository, commit):
    """Returns the folder of a repository at a commit, cloned if necessary."""
    folder = work / repository.replace('/', '-')
    owner, name = repository.split('/')
    if not folder.exists():
        work.mkdir(parents=True, exist_ok=True)
        git(work, 'clone', source.format(owner=owner, name=name), str(folder))
    git(folder, 'checkout', '--force', commit)
    return folder


def _check(folder, file):
    """Returns the verdict of --check on a file."""
    command = [sys.executable, '-m', 'tf_estimator', '--check', file, '--json']
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return json.loads(result.stdout)['verdict']


def _run(folder, arguments):
    """Returns 'ran', or the last line that a program wrote."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, '-m', 'tf_estimator', '--tf1', *(argument.replace('OUT', out) for argument in arguments)]
        environment = {**os.environ, 'PYTHONPATH': str(folder), 'MPLBACKEND': 'agg', 'TF_CPP_MIN_LOG_LEVEL': '2'}
        try:
            options = dict(cwd=folder, env=environment, capture_output=True, text=True, errors='replace', check=False)
            result = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=_TIME_LIMIT, **options)
        except subprocess.TimeoutExpired:
            return f'did not end in {_TIME_LIMIT} s'
    return last_line(result.stderr) if result.returncode else RAN


def last_line(text):
    """Returns the last line of what a program wrote, '?' if there is none, for a cell of a table."""
    return (text.strip().splitlines() or ['?'])[-1][:200]


if __name__ == '__main__':
    main()

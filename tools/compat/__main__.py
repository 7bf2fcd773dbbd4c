"""Runs the test suites of libraries built on tf.estimator, through this project, on several releases of TensorFlow.

    python -m tools.compat [--tensorflow=2.15.1,2.21.0] [--work=DIR] [LIBRARY...]

They run with `python -m tf_estimator TEST`, in virtual environments and clones of the libraries' repositories in DIR.
`--tensorflow=nightly` uses TensorFlow's nightly build. Prints the table of docs/compatibility.md, and the reasons of failures;
exits with 1 if libraries.py lacks a reason.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import re
import sys
import tempfile

from tools.compat import environments, results
from tools.compat.libraries import LIBRARIES, Library


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('libraries', nargs='*', metavar='LIBRARY', help=', '.join(LIBRARIES))
    parser.add_argument('--tensorflow', default='2.15.1,2.21.0', help='versions, or nightly (default: %(default)s)')
    parser.add_argument('--work', default=Path(tempfile.gettempdir(), 'compat'), type=Path, help='default: %(default)s')
    parser.add_argument('--jobs', default=2, type=int, help='parallel files (default: %(default)s)')
    arguments = parser.parse_args()
    unknown = set(arguments.libraries) - LIBRARIES.keys()
    if unknown:
        parser.error(f'no such library: {", ".join(sorted(unknown))}; there are {", ".join(LIBRARIES)}')
    versions = arguments.tensorflow.split(',')
    work = arguments.work.resolve()
    rows, notes, is_new = [], [], False
    for name in arguments.libraries or LIBRARIES:
        cells = []
        for version in versions:
            found = _run(work, LIBRARIES[name], version, arguments.jobs)
            ran = [result for result in found.values() if result != results.SKIPPED]
            cells.append(f'{ran.count(results.PASSED)} of {len(ran)}')
            for test, error in found.items():
                if error not in (results.PASSED, results.SKIPPED):
                    reason = _reason(LIBRARIES[name], f'{test}: {error}')
                    is_new |= reason is None
                    notes.append(f'{name} on {version}: {test}: {error[:300]} ({reason or "no known reason"})')
        rows.append(f'| {LIBRARIES[name].release.replace("==", " ")} | {" | ".join(cells)} |')
        print(rows[-1], file=sys.stderr)
    print(f'| library | {" | ".join(versions)} |', f'|---|{"---|" * len(versions)}', *rows, sep='\n')
    print('', *notes, sep='\n')
    sys.exit(int(is_new))


def _run(work: Path, library: Library, version: str, jobs: int) -> dict[str, str]:
    python = environments.python(work, version)
    folder, files = environments.checkout(work, library)
    found = {} if files else {library.tests: 'matches no file'}
    with ThreadPoolExecutor(jobs) as pool:
        for of_file in pool.map(lambda file: results.run(python, folder, library, file), files):
            found.update(of_file)
    return found


def _reason(library: Library, failure: str) -> str | None:
    return next((reason for pattern, reason in library.known.items() if re.search(pattern, failure)), None)


if __name__ == '__main__':
    main()

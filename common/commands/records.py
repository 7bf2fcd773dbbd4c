"""Looks into TFRecord files.

python -m estimator_trainer records verify DIRECTORY    reports for each file whether it is as written
python -m estimator_trainer records show FILE           prints the number of records, their features and the first records
"""

from collections.abc import Sequence

from estimator_trainer.common.commands.command import import_tensorflow, print_output
from estimator_trainer.common.errors import RunError, UsageError, check_utf8, print_error, printable


def main(argv: Sequence[str]) -> int:
    """Runs `verify` or `show` and returns the exit code: 0 if all is well, 1 if a file is corrupt, 2 for wrong usage."""
    try:
        if argv[1:] in (['-h'], ['--help']):
            print_output(__doc__)
            return 0
        check_utf8(argv)
        if len(argv) != 3 or argv[1] not in ('verify', 'show'):
            raise UsageError('give verify and a directory, or show and a file; see --help')
        import_tensorflow()
        from estimator_trainer.common.records import manifest, show

        for line in (manifest.verify if argv[1] == 'verify' else show.show)(argv[2]):
            print_output(printable(line))
    except (UsageError, RunError) as error:
        print_error('records', error)
        return 2 if isinstance(error, UsageError) else 1
    return 0

"""The server of a sweep's trials: imports what the trainer needs, and forks one for each trial."""

import gc
import sys

from estimator_trainer.common import processes
from estimator_trainer.common.commands import command, trainer
from estimator_trainer.common.sweep import forks


def main(argv: list[str]) -> int:
    """Forks trainers until the sweep or the folds end, and returns 0; in each fork, runs the trainer and returns its exit code.

    If the sweep is killed, its trainers go on; with the argument `ending`, as for folds, they end.
    """
    command.import_tensorflow()
    flags = serve(outlive='ending' not in argv)
    if flags is None:
        return 0
    sys.argv[:] = ['trainer.py', *flags]
    return trainer.main(sys.argv)


def serve(outlive: bool = False) -> list[str] | None:
    """Returns in each fork what its request has, and None in the end; see `forks.serve`.

    Imports what each run does, but no module of a user: it may start threads, which forks do not have.
    """
    import numpy.random

    from estimator_trainer.common import console  # noqa: F401
    from estimator_trainer.common.commands import report, request  # noqa: F401

    gc.freeze()  # Otherwise, each fork would traverse these objects, and copy them.
    arguments = forks.serve(outlive=outlive)
    numpy.random.seed()  # In a fork as in a new process; Python does so for its own generator.
    processes.keep_objects()
    return arguments

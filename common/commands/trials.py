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
    import_all()
    flags = forks.serve(outlive='ending' not in argv)
    if flags is None:
        return 0
    draw_own_numbers()
    processes.keep_objects()
    sys.argv[:] = ['trainer.py', *flags]
    return trainer.main(sys.argv)


def import_all():
    """Imports what each run imports, but no module of a user: it may start threads, which forks do not have."""
    import numpy.random  # noqa: F401 - on its first use otherwise

    from estimator_trainer.common import console  # noqa: F401
    from estimator_trainer.common.commands import report, request  # noqa: F401

    gc.freeze()  # Otherwise, each fork would traverse these objects, and copy them.


def draw_own_numbers():
    """Seeds NumPy in a fork as in a new process; Python does so for its own generator."""
    import numpy as np

    np.random.seed()

"""The server of the trials of --schedule=find_batch_size: imports what the trainer needs, and forks a process for each.

A trial trains some steps with one batch size, and writes what it has measured to a file.
"""

import functools
import resource
import sys
import tempfile
import time
from typing import Any

from estimator_trainer.common.commands import command, flags, trials

_WARM_STEPS, _SECONDS = 3, 2.0


def main(argv: list[str]) -> int:
    """Serves forks until its parent ends, or runs one trial: LIMIT (bytes of data, or 0), FILE, SIZE, flags of trainer.py."""
    command.import_tensorflow()
    arguments = argv[1:] or trials.serve()
    if arguments is None:
        return 0
    limit, path, size, *given = arguments
    sys.argv[:] = ['trainer.py', *given]
    measure = functools.partial(_measure, limit=int(limit), path=path, size=int(size))
    return command.execute(sys.argv, flags.define(), lambda FLAGS: '', lambda FLAGS: None, measure)


def _measure(FLAGS, stop, *, limit, path, size) -> dict[str, Any]:
    from estimator_trainer.common.commands import request
    from estimator_trainer.common.files import write_json
    from estimator_trainer.common.runs.probe import session_of

    if limit:  # Allocations fail then, before the kernel ends some process.
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with tempfile.TemporaryDirectory() as directory:
        FLAGS.output_dir, FLAGS.schedule = directory, 'dry_run'
        with request.opened(FLAGS, request.Objects(hparams={'batch_size': size}), stop) as experiment:
            with session_of(experiment) as (session, spec):
                found = {'seconds': _time(lambda: session.run(spec.train_op), stop), 'peak': _peak()}
    write_json(path, found)
    return found


def _time(step, stop):
    """Returns the seconds of a step, of as many as take some seconds."""
    for _ in range(_WARM_STEPS):
        step()
        stop.exit_if_received()
    count, start = 0, time.monotonic()
    while count < 2 or time.monotonic() < start + _SECONDS:
        step()
        stop.exit_if_received()
        count += 1
    return (time.monotonic() - start) / count


def _peak():
    """Returns the bytes of the largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024)

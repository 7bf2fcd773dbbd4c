"""status.json in an output_dir: what the process that trains there does, or how it ended. Does not import TensorFlow.

    {"state": "training", "reason": "", "global_step": 4300, "train_steps": 10000, "examples/sec": 15234.0,
     "seconds_left": 12.3, "training": {"global_step": 4300, "loss": 0.31},
     "evaluation": {"global_step": 4000, "eval": {"loss": 0.25}},
     "started": "2026-01-31T09:00:00+00:00", "resumed": 2, "updated": "2026-01-31T09:20:00+00:00",
     "host": "node7", "pid": 4711, "process_start": "123456"}

`reason` is the signal that stopped it, or the error. What is not known is null; `started` is when the run first began.
"""

from collections.abc import Mapping
import datetime
import enum
import os
import socket
from typing import Any

from estimator_trainer.common import json_text, processes


class State(str, enum.Enum):
    """The values of `state`. The first three are of a process that lives."""

    PREPARING = 'preparing'  # Converts or checks the data, and builds the model.
    TRAINING = 'training'
    EVALUATING = 'evaluating'
    STOPPED = 'stopped'  # By a signal, after a checkpoint.
    FAILED = 'failed'
    FINISHED = 'finished'


LIVING = (State.PREPARING, State.TRAINING, State.EVALUATING)
_TYPES: Mapping[str, Any] = {
    'state': str,
    'reason': str,
    'global_step': int,
    'train_steps': int,
    'examples/sec': (int, float),
    'seconds_left': (int, float),
    'training': dict,
    'evaluation': dict,
    'started': str,
    'resumed': int,
    'updated': str,
    'host': str,
    'pid': int,
    'process_start': str,
}


def status_path(output_dir: str) -> str:
    return os.path.join(output_dir, 'status.json')


def new() -> dict[str, Any]:
    """Returns the status of a run that this process starts, without times."""
    process = {'host': socket.gethostname(), 'pid': os.getpid(), 'process_start': processes.start_of(os.getpid())}
    return {**dict.fromkeys(_TYPES), 'state': State.PREPARING.value, 'reason': '', 'resumed': 0, **process}


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def parse(text: str) -> dict[str, Any]:
    """Returns the status that is the content of a file.

    Raises:
      ValueError: it is not JSON, or a value is of another type.
    """
    found = json_text.loads(text)
    if not isinstance(found, dict) or found.get('state') not in [*State]:
        raise ValueError('is not a status')
    for name, expected in _TYPES.items():
        value = found.setdefault(name, None)
        if value is not None and (not isinstance(value, expected) or isinstance(value, bool)):
            raise ValueError(f'{name} has the wrong type')
    if datetime.datetime.fromisoformat(found['updated'] or '').tzinfo is None:
        raise ValueError('updated has no time zone')
    return found


def is_gone(status: Mapping[str, Any]) -> bool | None:
    """Whether the process of a status has ended; None if it is unknown, as that of another host."""
    if status['host'] != socket.gethostname() or status['pid'] is None:
        return None
    start = processes.start_of(status['pid'])
    return start is None or bool(start and status['process_start']) and start != status['process_start']

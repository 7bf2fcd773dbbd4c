"""The state of a run beside a checkpoint, for exact resume, in files of a folder of its model_dir."""

import contextlib
import dataclasses
import os
import re

from tf_estimator import json_files
from tf_estimator.exact import checkpoints

import tensorflow.compat.v1 as tf

FOLDER = 'exact_state'


@dataclasses.dataclass(frozen=True)
class State:
    """Attributes:
    runs: the number of steps that the session has run, from which the keys of random ops follow.
    seed: that of the graph.
    has_input: whether the state of the iterators is saved beside it.
    """

    runs: int
    seed: int
    has_input: bool


def input_path(directory: str, step: int, folder: str = FOLDER) -> str:
    """Returns the prefix of the files with the state of the iterators at a step."""
    return os.path.join(directory, folder, f'{step}.input')


def write(directory: str, step: int, state: State) -> None:
    json_files.write(_path(directory, step), dataclasses.asdict(state))


def read(directory: str, step: int) -> State | None:
    """Returns the state at a step, or None if it is not there or no state."""
    with contextlib.suppress(tf.errors.OpError, ValueError, TypeError):
        values = json_files.read(_path(directory, step))
        if [type(values[field.name]) for field in dataclasses.fields(State)] == [int, int, bool]:
            return State(**values)
    return None


def delete_old(directory: str, folder: str = FOLDER, also: int | None = None) -> None:
    """Deletes the states of checkpoints that are no longer there, but for that of one step."""
    path, kept = os.path.join(directory, folder), {*checkpoints.steps(directory), also}
    for name in tf.io.gfile.listdir(path):
        found = re.match(r'(\d+)\.', name)
        if found and int(found[1]) not in kept:
            with contextlib.suppress(tf.errors.NotFoundError):
                tf.io.gfile.remove(os.path.join(path, name))


def _path(directory, step):
    return os.path.join(directory, FOLDER, f'{step}.json')

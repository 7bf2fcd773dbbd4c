"""Exact resume for an Estimator program's own model_fn and input_fn.

Their random ops become functions of seed, op and global step, those of datasets of the element, and the state of the input's
iterators is saved with each checkpoint. The framework's own models and datasets need nothing of this.
"""

import collections
from collections.abc import Callable, Sequence
import contextlib
import itertools
import os
from typing import Any

from tf_estimator import exact
from tf_estimator.exact import inexact, iterators, keys, state

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, first_line
from estimator_trainer.common.files import names_in
from estimator_trainer.common.graphs import RESOURCE_CHANGES, ancestors, global_step, search
from estimator_trainer.common.storage.abandoned import move
from estimator_trainer.common.storage.best_checkpoint import best_step
from estimator_trainer.common.training import skipped_input

FOLDER = 'input_state'
_RUNS = 2**24  # More than a step has.
_READS = ('ReadVariableOp', 'ResourceGather', 'ResourceGatherNd')  # Of variables: the first input is the variable.


def begin() -> None:
    """Makes the default graph that of an exact training, for the ops that follow."""
    exact.prepare()
    graph = tf.get_default_graph()
    if not keys.is_in_training(graph):
        keys.begin(graph)
        keys.set_default(graph, _step_or_zero())


def has_begun() -> bool:
    """Whether the default graph is that of an exact training."""
    return keys.is_in_training(tf.get_default_graph())


def read_before_changes(train_op: tf.Operation | tf.Tensor) -> None:
    """Makes the ops of a training step that change a variable wait for those that read it and need none of the changes.

    Programs that assign the global step beside the optimizer, or run two optimizers side by side, leave this order open: their
    numbers would depend on the threads. Ops inside control flow stay as they are.
    """
    parts = ancestors([train_op])
    users = {op: op.inputs[0].name for op in parts if op.inputs and op._get_control_flow_context() is None}
    changes = [op for op in users if op.type.startswith(RESOURCE_CHANGES)]
    later = search(
        changes, lambda op: [*op._control_outputs, *(consumer for tensor in op.outputs for consumer in tensor.consumers())]
    )
    reads = collections.defaultdict(list)
    for op, variable in users.items():
        if op.type in _READS and op not in later:
            reads[variable].append(op)
    key, step = keys.fed_key(train_op.graph), tf.train.get_global_step()
    if key is not None and key.op in parts and hasattr(step, 'handle'):  # It reads the global step in a condition.
        reads[step.handle.name].append(key.op)
    for op in changes:
        op._add_control_inputs(reads[users[op]])


def recorded(input_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the input_fn of an exact training, the state of whose iterators is saved."""

    def call(params=None):
        begin()
        iterators.begin(tf.get_default_graph())
        return input_fn(params)

    return call


def resumed(input_fn: Callable[..., Any], seed: int) -> Callable[..., Any]:
    """Returns the input_fn of a task of a synchronous cluster, all of which make the same batches, from the global step on.

    Args:
      seed: TensorFlow's for the input; that of the training differs between the tasks.
    """

    def call(params=None):
        begin()
        graph = tf.get_default_graph()
        own, graph.seed = graph.seed, seed
        step = tf.train.get_or_create_global_step().read_value()
        with skipped_input.skipping(step) as iterators:
            made = input_fn(params)
        graph.seed = own
        if isinstance(made, (tf2.data.Dataset, tf.data.Dataset)):
            return made.skip(step)
        skipped_input.prepare(made, iterators)
        return made

    return call


def _step_or_zero():
    """Returns the global step, int64 scalar; 0 before it is initialized, for initial values of variables."""
    step = tf.train.get_or_create_global_step()
    return tf.cond(
        tf.is_variable_initialized(step), lambda: tf.cast(step.read_value(), tf.int64), lambda: tf.zeros([], tf.int64)
    )


def state_path(output_dir: str, step: int) -> str:
    """Returns the path, without suffix, of the state of the input at a step."""
    return state.input_path(output_dir, step, FOLDER)


def abandon(output_dir: str, step: int, folder: str) -> None:
    """Moves the states of the input later than a step to a folder."""
    directory = os.path.join(output_dir, FOLDER)
    for name in names_in(directory):
        if (number := name.partition('.')[0]).isdecimal() and int(number) > step:
            move(os.path.join(directory, name), os.path.join(folder, FOLDER))


class ProgramState(tf.train.SessionRunHook):
    """Saves the state of the input with each checkpoint, and restores it. It must be the first hook, and `restoring` the last.

    Args:
      output_dir: of the run.
      steps: the hook whose `next_visible_step()` returns the next step that hooks see.
      reasons: why the training does not resume exactly, beside those of its input and ops.
    """

    def __init__(self, output_dir: str, steps: Any, reasons: Sequence[str] = ()):
        self._output_dir = output_dir
        self._steps = steps
        self._reasons = reasons
        self._iterators: Any = None

    def begin(self):
        graph = tf.get_default_graph()
        self._key = keys.fed_key(graph)
        self._starts = graph.get_collection(skipped_input.STARTS)
        has_input = hasattr(graph, '_exact_iterators')  # Otherwise the framework makes the batches.
        if reasons := [*(inexact.reasons(graph) if has_input else []), *self._reasons]:
            tf.logging.warning('This does not resume exactly: %s. All else does.', '; '.join(reasons))
        if has_input and inexact.can_save_input(graph):
            self._iterators = iterators.Iterators(graph)

    def after_create_session(self, session, coord):
        self._step = global_step(session)
        self._is_running, self._numbers = False, itertools.count(1)
        self._follow(session)

    def restoring(self) -> tf.train.SessionRunHook:
        """Returns the hook that restores the state, after the Estimator's own has initialized the iterator."""
        return _Restoring(self)

    def restore(self, session: tf.Session) -> None:
        """Restores the state of the input; without it, the input starts anew, with a warning."""
        session.run(self._starts)
        if not self._iterators:
            return
        self._iterators.initialize(session)
        if not self._step:
            return
        step, path = self._step, state_path(self._output_dir, self._step)
        reason = f'{path} is missing'
        if tf.io.gfile.exists(f'{path}.index'):
            try:
                self._iterators.restore(session, path)
                return
            except (tf.errors.OpError, ValueError) as error:
                reason = f'{path} is corrupt, or of another input: {first_line(error)}'
                self._iterators.restart(session)
        tf.logging.warning('The input starts anew at step %d, since its state there cannot be restored: %s', step, reason)

    def _follow(self, session):
        """Makes runs of the session by hooks draw other numbers than the step itself, which has 'caller' in its fetches."""
        run = session.run

        def followed(fetches, feed_dict=None, options=None, run_metadata=None):
            if isinstance(fetches, dict) and 'caller' in fetches:
                result = run(fetches, feed_dict, options, run_metadata)
                self._is_running = False
                return result
            if self._key is not None:
                feed_dict = {**(feed_dict or {}), self._key: self._step * _RUNS + next(self._numbers)}
            return run(fetches, feed_dict, options, run_metadata)

        session.run = followed

    def before_run(self, run_context):
        self._is_running = True  # It stays so if the input ends.
        self._step, self._numbers = self._steps.next_visible_step(), itertools.count(1)

    def save(self, session: tf.Session, step: int) -> None:
        """Saves the state of the input at a step, before its checkpoint, unless the input has ended."""
        if not self._iterators or self._is_running:
            return
        tf.io.gfile.makedirs(os.path.join(self._output_dir, FOLDER))
        try:
            self._iterators.save(session, state_path(self._output_dir, step))
        except tf.errors.OpError as error:
            self._iterators = None
            tf.logging.warning('The state of the input cannot be saved, so a resumed run starts it anew: %s', error.message)

    def delete_old(self) -> None:
        """Deletes the states at steps whose checkpoints are gone, but for that of the best one, to which a run may return."""
        if self._iterators and tf.io.gfile.isdir(os.path.join(self._output_dir, FOLDER)):
            with contextlib.suppress(RunError):  # best.json is damaged, which the next evaluation reports.
                state.delete_old(self._output_dir, FOLDER, best_step(self._output_dir))


class _Restoring(tf.train.SessionRunHook):
    def __init__(self, program_state):
        self._program_state = program_state

    def after_create_session(self, session, coord):
        self._program_state.restore(session)

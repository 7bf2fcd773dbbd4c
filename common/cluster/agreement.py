"""The comparison of the weights of all tasks before each checkpoint, since a task may have computed or been given others."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.task import RESTART
from estimator_trainer.common.errors import RunError, listed
from estimator_trainer.common.graphs import ancestors, global_step
from estimator_trainer.common.stop import StopOnSignal

_CAUSES = 'check the memory, processor and software of the hosts, and who can connect to the ports'
_OWN_BATCHES = (
    'input_fn() must make the same batches in each task, of which each takes its part: make them of all examples, and shuffle '
    'by tf.data, not NumPy'
)
_MAX_NAMES = 3
_BATCHES = 'batches_in_all_tasks'  # A collection.
_FACTOR = 1000003


def own_variables(loss: tf.Tensor) -> set[str]:
    """Returns the names of the variables that may differ between tasks, as a model changes them by its share of a batch.

    These are all that are not trainable, such as the averages of batch norm, and those that a step assigns. Call it before the
    optimizer makes its variables.

    Args:
      loss: of a step; ops of tf.GraphKeys.UPDATE_OPS also belong to the step.
    """
    step = ancestors([loss, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
    assigned = {op.inputs[0].op.name for op in step if op.type.startswith('Assign')}
    trainable = {variable.op.name for variable in tf.trainable_variables()}
    return {variable.op.name for variable in tf.global_variables()} - trainable | assigned


def common_variables(own: Collection[str]) -> list[tf.Variable]:
    """Returns the variables that must be the same in all tasks: the weights, what the optimizer keeps of each, and the step.

    Args:
      own: the result of `own_variables`.
    """
    weights = [variable for variable in tf.trainable_variables() if variable.op.name not in own]
    prefixes = tuple(f'{variable.op.name}/' for variable in weights)
    own_prefixes = tuple(f'{name}/' for name in own)  # Of what a step keeps of them: a scope may have a weight's name.
    common = [v for v in tf.global_variables() if not (v.op.name in own or v.op.name.startswith(own_prefixes))]
    slots = [v for v in common if v.op.name.startswith(prefixes)]
    found = {variable.op.name: variable for variable in [*weights, *slots, tf.train.get_global_step()]}
    return [*found.values()]


def checksums(variables: Sequence[tf.Variable]) -> tf.Tensor:
    """Returns the sums of the variables' bits, in words of at most 32 bits, modulo the words' range: int64 [1, variables].

    A sum of integers does not depend on its order, so not on the number of threads.
    """
    with tf.device('/cpu:0'):
        return tf.stack([tf.cast(tf.reduce_sum(_words(variable.read_value())), tf.int64) for variable in variables])[tf.newaxis]


def count_batch(batch: Any) -> tf.Operation:
    """Returns the op of a step that adds a checksum of a batch to a variable which CompareWeights compares.

    Args:
      batch: a structure of tensors [batch, ...] and None, which must be the same in all tasks.
    """
    with tf.device('/cpu:0'):
        collections = [tf.GraphKeys.LOCAL_VARIABLES, _BATCHES]
        total = tf.Variable(tf.zeros([], tf.int64), trainable=False, collections=collections, name='batches', use_resource=True)
        given = [tensor for tensor in tf.nest.flatten(batch) if tensor is not None]
        rows = [tf.bitcast(tf.raw_ops.Fingerprint(data=tensor, method='farmhash64'), tf.int64) for tensor in given]
        values = tf.concat([total.read_value()[tf.newaxis], *rows], 0)
        odd = tf.range(_FACTOR, _FACTOR + 2 * tf.size(values, out_type=tf.int64), 2)  # The order matters, too.
        return tf.assign(total, tf.reduce_sum(values * odd)).op


def _words(value):
    if value.dtype == tf.bool:
        return tf.cast(value, tf.uint8)
    return tf.bitcast(value, tf.uint16 if value.dtype.size == 2 else tf.uint32)


def describe_difference(sums: np.ndarray, tasks: Sequence[str], variables: Sequence[str], step: int) -> str:
    """Names the tasks outside of the majority, or all if there is none, and what differs after a step; '' if nothing does.

    Args:
      sums: int64 [tasks, variables].
    """
    rows = [tuple(row) for row in sums.tolist()]
    (most, count), *rest = Counter(rows).most_common()
    if not rest:
        return ''
    what = listed([name for name, column in zip(variables, sums.T) if len({*column.tolist()}) > 1], _MAX_NAMES)
    where = f'in {what} after step {step}, which is not saved'
    others = [task for task, row in zip(tasks, rows) if row != most]
    if 2 * count > len(tasks):
        return f'{", ".join(others)} {"differs" if len(others) == 1 else "differ"} from the other tasks {where}'
    return f'{", ".join(tasks)} differ {where}, and which of them is right cannot be known'


class CompareWeights(tf.train.SessionRunHook):
    """Raises RunError in all tasks if their weights differ, before the chief saves them. It must precede the hook that saves.

    Before that, the tasks share the sums of gradients that they are still accumulating, as only the chief's are saved.

    Args:
      task: this process's SynchronousTask.
      means: common.cluster.synchronous_hooks.StepMeans.
      periods: the chief may save at multiples of each, and at the end.
      multi_step: see StopTogether.
    """

    def __init__(self, task: Any, means: Any, stop: StopOnSignal, periods: Sequence[int], multi_step: Any):
        self._task, self._means, self._stop = task, means, stop
        self._periods, self._multi_step = periods, multi_step
        self._share = means.share_sums()
        variables = common_variables(means.own)
        self._names = [variable.op.name for variable in variables]
        self._batches = tf.get_collection(_BATCHES)
        self._sums = task.collectives.gather(checksums([*self._batches, *variables]), is_watched=True)

    def begin(self):
        self._compared = None

    def before_run(self, run_context):
        self._step = self._multi_step.next_visible_step()

    def after_run(self, run_context, run_values):
        is_first = self._batches and self._compared is None
        if is_first or any(self._step % period == 0 for period in self._periods):
            self._compare(run_context.session, self._step)

    def end(self, session):
        step = global_step(session)
        if step != self._compared:
            self._compare(session, step)

    def _compare(self, session, step):
        with self._task.waiting(self._stop):
            if step % self._means.cycle:
                session.run(self._share)
            if found := self._difference(session.run(self._sums), step):
                session.run(self._sums)  # None ends before all have got the sums.
                self._task.end_watch()
                raise RunError(found)
        self._compared = step

    def _difference(self, sums, step):
        """Returns the text of an error; '' if the tasks are alike."""
        count, tasks = len(self._batches), self._task.described
        if found := describe_difference(sums[:, :count], tasks, ['the batches'] * count, step):
            return f'{found}: {_OWN_BATCHES}'
        found = describe_difference(sums[:, count:], tasks, self._names, step)
        return found and f'{found}: {_CAUSES}; {RESTART}'

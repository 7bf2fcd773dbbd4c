"""Several training steps in one session call."""

from collections.abc import Callable, Sequence
import math
import time
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import global_step, random_ops, search
from estimator_trainer.common.training.saving import loss_is_not_finite

LOOP_SECONDS = 0.2  # After which signals are seen, and the progress bar moves.
_FIRST_STEPS = 2


class Loop(NamedTuple):
    """Training steps in sequence, which end early after one whose loss is not finite.

    All are scalars: steps is the number of steps that ran, int32, loss that of the last one, total the sum of the absolute
    values, highest the largest loss, and place its step, counted from 0.
    """

    steps: tf.Tensor
    loss: tf.Tensor
    total: tf.Tensor
    highest: tf.Tensor
    place: tf.Tensor


def repeat_step(train_op: tf.Operation, times: tf.Tensor, loss: tf.Tensor) -> Loop:
    """Returns tensors that run a training step several times in sequence.

    The loop body is a copy of the step's ops; variables and the input iterator are shared. So a step's results are the same,
    bit for bit, inside and outside of the loop.

    Args:
      times: int32 scalar tensor.
      loss: scalar tensor that `train_op` depends on.

    Raises:
      UsageError: a variable is not a resource variable, or there is a random op whose state the copy would not share.
    """
    step, resources = _extract_subgraph(train_op)
    for name, kind, is_seeded in random_ops(step):
        if is_seeded:
            raise UsageError(
                f'--steps_per_loop: {name} ({kind}) is stateful, so numbers would be drawn twice: use dropout of '
                'estimator_trainer.common.ops.layers, or tf.random.stateless_* with step_seed of '
                'estimator_trainer.common.ops.random, or omit the flag'
            )

    def body(count, unused_loss, total, highest, place):
        graph = tf.get_default_graph()
        captured = {name: graph.capture(resource) for name, resource in resources.items()}
        copy, copied_loss = tf.import_graph_def(step, captured, [train_op.name, loss.name], name='')
        with tf.control_dependencies([copy]):
            last, place = tf.identity(copied_loss), tf.where(copied_loss > highest, count, place)
            return count + 1, last, total + tf.abs(last), tf.maximum(highest, last), place

    zero = tf.zeros([], loss.dtype)
    return Loop(
        *tf.while_loop(
            lambda count, last, *_: (count < times) & tf.math.is_finite(last),
            body,
            [0, zero, zero, tf.constant(loss.dtype.min, loss.dtype), 0],
            parallel_iterations=1,
            name='loop',
        )
    )


def _extract_subgraph(train_op):
    """Returns the GraphDef of all ops that `train_op` depends on, up to resources, and {name: tensor} of the resources."""
    ops = search(
        [train_op], lambda op: [*op.control_inputs, *(tensor.op for tensor in op.inputs if tensor.dtype != tf.resource)]
    )
    inputs = {tensor.name: tensor for op in ops for tensor in op.inputs}
    for tensor in inputs.values():
        if tensor.dtype._is_ref_dtype:
            raise UsageError(f'--steps_per_loop: {tensor.op.name} must be a resource variable: make it with use_resource=True')
    resources = {name: tensor for name, tensor in inputs.items() if tensor.dtype == tf.resource}
    names = {op.name for op in ops}
    graph_def = train_op.graph.as_graph_def()
    step = tf.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.name in names:
            # Colocation with resources outside of the copy would be an error; TensorFlow places the ops there anyway.
            node.attr.pop('_class', None)
            step.node.append(node)
    return step, resources


class MultiStepHook(tf.train.SessionRunHook):
    """Runs several training steps in a loop, so other hooks see only some steps. It must be the last with a before_run.

    Args:
      loss: scalar tensor that train_op depends on.
      steps: the maximum number of steps per session call; 1 shows hooks every step, without a loop; 0 for as many as take at
        most LOOP_SECONDS.
      summary_steps: the hooks see the first step after the start of training, and every summary_steps-th after it.
      periods: the hooks see the multiples of each.
      milestones: further steps that the hooks see.
      on_losses: called for each loop with the step of the highest loss, this loss, the mean of the absolute values, and the
        number of steps.

    Raises:
      RunError: in training, the loss of a step in a loop is not finite.
    """

    def __init__(
        self,
        train_op: tf.Operation,
        loss: tf.Tensor,
        steps: int,
        summary_steps: int,
        periods: Sequence[int],
        milestones: Sequence[int],
        on_losses: Callable[[int, float, float, int], None] | None = None,
    ):
        self._is_timed = steps == 0
        self._steps = steps or _FIRST_STEPS
        self._summary_steps = summary_steps
        self._periods = periods
        self._milestones = milestones
        self._on_losses = on_losses
        if steps != 1:
            self._times = tf.placeholder(tf.int32, [], 'times')
            self._loop = repeat_step(train_op, self._times, loss)

    def after_create_session(self, session, coord):
        self._step = self._start = global_step(session)

    def next_visible_step(self) -> int:
        """Returns the next step that hooks see; for `before_run` of hooks that precede this one."""
        multiples = [(self._start + 1, self._summary_steps), *((0, period) for period in self._periods)]
        steps = [first + ((self._step - first) // period + 1) * period for first, period in multiples]
        return min([self._step + self._steps, *steps, *(step for step in self._milestones if step > self._step)])

    def before_run(self, run_context):
        step = self.next_visible_step()
        in_loop, self._started = step - self._step - 1, time.perf_counter()
        if in_loop:
            done, loss, total, highest, place = run_context.session.run(self._loop, {self._times: in_loop})
            if not math.isfinite(loss):
                raise loss_is_not_finite(int(self._step + done), loss)
            if self._on_losses:
                self._on_losses(int(self._step + place + 1), float(highest), float(total) / in_loop, in_loop)
            self._seconds = (time.perf_counter() - self._started) / in_loop
        self._has_looped = in_loop > 0
        self._step = step

    def after_run(self, run_context, run_values):
        if self._is_timed:  # Only now: until here, other hooks ask for the same next step.
            seconds = self._seconds if self._has_looped else time.perf_counter() - self._started
            self._steps = max(min(int(LOOP_SECONDS / max(seconds, 1e-6)), 2 * self._steps), 1)

"""Several training steps in one session call."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import random_ops, search


def repeat_step(train_op: tf.Operation, times: tf.Tensor) -> tf.Operation:
    """Returns an op that runs a training step several times in sequence.

    The loop body is a copy of the step's ops; variables and the input iterator are shared. So a step's results are the same,
    bit for bit, inside and outside of the loop.

    Args:
      times: int32 scalar tensor.

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

    def body(count):
        graph = tf.get_default_graph()
        captured = {name: graph.capture(resource) for name, resource in resources.items()}
        (copy,) = tf.import_graph_def(step, captured, [train_op.name], name='')
        with tf.control_dependencies([copy]):
            return count + 1

    return tf.while_loop(lambda count: count < times, body, [0], parallel_iterations=1, name='loop').op


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
      steps: the maximum number of steps per loop; 1 shows hooks every step, without a loop.
      summary_steps: the hooks see the first step after the start of training, and every summary_steps-th after it.
      periods: the hooks see the multiples of each.
      milestones: further steps that the hooks see.
    """

    def __init__(
        self, train_op: tf.Operation, steps: int, summary_steps: int, periods: Sequence[int], milestones: Sequence[int]
    ):
        self._steps = steps
        self._summary_steps = summary_steps
        self._periods = periods
        self._milestones = milestones
        if steps > 1:
            self._times = tf.placeholder(tf.int32, [], 'times')
            self._loop = repeat_step(train_op, self._times)

    def begin(self):
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._step = self._start = int(session.run(self._global_step))

    def next_visible_step(self) -> int:
        """Returns the next step that hooks see; for `before_run` of hooks that precede this one."""
        multiples = [(self._start + 1, self._summary_steps), *((0, period) for period in self._periods)]
        steps = [first + ((self._step - first) // period + 1) * period for first, period in multiples]
        return min([self._step + self._steps, *steps, *(step for step in self._milestones if step > self._step)])

    def before_run(self, run_context):
        step = self.next_visible_step()
        if step > self._step + 1:
            run_context.session.run(self._loop, {self._times: step - self._step - 1})
        self._step = step

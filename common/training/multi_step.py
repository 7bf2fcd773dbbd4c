"""Several training steps in one session call."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training.graphs import random_op


def repeat_step(train_op, times):
    """Makes an op that runs a training step several times, one after the other.

    The body of the loop is a copy of all that the step consists of, down to the variables and the iterator of the input,
    which it shares: what a step computes is the same bit for bit, in the loop and out of it.

    Args:
      train_op: tf.Operation.
      times: int32 scalar tensor.

    Returns:
      tf.Operation.

    Raises:
      UsageError: there is a variable that is no resource, or a random op whose state the copy would not share.
    """
    step, resources = _trace(train_op)
    found = random_op(step)
    if found:
        raise UsageError(
            '--steps_per_loop: {} ({}) is stateful, so numbers would be drawn twice: use '
            'common.ops.dropout, or tf.random.stateless_* with the seed of common.ops.step_seed, '
            'or omit the flag'.format(*found)
        )

    def body(count):
        graph = tf.get_default_graph()
        captured = {name: graph.capture(resource) for name, resource in resources.items()}
        (copy,) = tf.import_graph_def(step, captured, [train_op.name], name='')
        with tf.control_dependencies([copy]):
            return count + 1

    return tf.while_loop(lambda count: count < times, body, [0], parallel_iterations=1, name='loop').op


def _trace(train_op):
    """Returns the GraphDef of all ops that an op needs, and {name: tensor} of the resources where that ends."""
    resources = {}
    names = set()
    reached = [train_op]
    while reached:
        op = reached.pop()
        if op.name in names:
            continue
        names.add(op.name)
        reached += op.control_inputs
        for tensor in op.inputs:
            if tensor.dtype == tf.resource:
                resources[tensor.name] = tensor
            elif tensor.dtype._is_ref_dtype:
                raise UsageError(
                    f'--steps_per_loop: {tensor.op.name} must be a resource variable: make it with use_resource=True'
                )
            else:
                reached.append(tensor.op)
    whole = train_op.graph.as_graph_def()
    step = tf.GraphDef(versions=whole.versions, library=whole.library)
    for node in whole.node:
        if node.name in names:
            node.attr.pop('_class', None)  # Ops to be placed with resources, which are not in the copy, find them anyway.
            step.node.append(node)
    return step, resources


class MultiStepHook(tf.train.SessionRunHook):
    """Runs training steps in loops, between those that the other hooks see, which it must follow.

    Args:
      train_op: tf.Operation, the training step.
      steps: int, of how many steps the others see one at least; with 1 they see all, and there are no loops.
      summary_steps: int; counted from where the training starts, they see the first of so many.
      periods: list of int; they see the multiples of each.
      milestones: list of int, more steps that they see.
    """

    def __init__(self, train_op, steps, summary_steps, periods, milestones):
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

    def next_visible_step(self):
        """Returns the step that hooks see next, an int, for those who ask before their call of the session."""
        multiples = [(self._start + 1, self._summary_steps), *((0, period) for period in self._periods)]
        steps = [first + ((self._step - first) // period + 1) * period for first, period in multiples]
        return min([self._step + self._steps, *steps, *(step for step in self._milestones if step > self._step)])

    def before_run(self, run_context):
        step = self.next_visible_step()
        if step > self._step + 1:
            run_context.session.run(self._loop, {self._times: step - self._step - 1})
        self._step = step

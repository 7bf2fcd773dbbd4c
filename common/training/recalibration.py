"""The statistics of batch norm for averaged weights: means over batches of training data.

Those of the training, moving averages of what the weights of many steps have computed, fit none of them.
"""

from collections.abc import Callable
import contextlib
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import ancestors
from estimator_trainer.common.training.stochastic_average import slot_name, statistics

NUM_BATCHES = 100  # At most, if an epoch has more.
_UPDATES = ('AssignSub', 'AssignSubVariableOp')
_ASSIGNMENTS = ('Assign', 'AssignVariableOp', 'AssignAdd', 'AssignAddVariableOp')


class Recalibration:
    """Recomputes the statistics in a training session, before it is saved.

    Each time it trains no weight, but runs the model on the training batches that follow, with the averages as weights, in a
    session of its own: the result depends on the averages and the step alone.

    Args:
      build: builds the model for training in the default graph, and returns the op that starts its batches anew from the
        global step.
      start: the step from which there are averages.
      num_batches: number of batches.
      seed: of the graph's random ops.

    Raises:
      UsageError: a statistic of the default graph, that of the training, is updated in another way than by tf.layers.
    """

    def __init__(self, build: Callable[[], tf.Operation], start: int, num_batches: int, seed: int | None):
        self._build, self._start, self._num_batches, self._seed = build, start, num_batches, seed
        self._graph: Any = None
        _check_updates()
        with_slot = {variable.op.name: variable for variable in tf.global_variables()}
        averaged = [*tf.trainable_variables(), *statistics()]
        self._slots = {variable.op.name: with_slot[slot_name(variable)] for variable in statistics()}
        self._values = dict(with_slot)
        self._values |= {v.op.name: with_slot[slot_name(v)] for v in averaged if v.op.name not in self._slots}

    def __call__(self, session: tf.Session, step: int) -> None:
        """Recomputes the statistics beside the averages in a session of the training graph."""
        if step < self._start or not self._slots:
            return
        if self._graph is None:
            self._make_graph()
            tf.logging.info(
                "Batch norm's statistics for the averaged weights are means over %d batches of training data.",
                self._num_batches,
            )
        values = session.run({name: self._values[name] for name in self._variables if name in self._values})
        for name, value in self._compute(values, step).items():
            self._slots[name].load(value, session)

    def _make_graph(self):
        with tf.Graph().as_default() as self._graph:
            tf.set_random_seed(self._seed)
            self._step = tf.train.create_global_step()
            self._start_batches = self._build()
            self._variables = {variable.op.name: variable for variable in tf.global_variables()}
            self._changes = [(v, change) for v in statistics() for change in _changes(v)]
            reads = [_read(variable, change) for variable, change in self._changes]
            self._init = [tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()]
            self._fetched = [(read, change, tf.gradients(change, read)[0]) for read, (_, change) in zip(reads, self._changes)]
            self._graph.finalize()

    def _compute(self, values, step):
        """Returns {name: mean over the batches} of the statistics that the model computes.

        Of a statistic, the layer subtracts (value - that of the batch) · rate; the rate is the gradient of this by the value.
        """
        sums: dict[str, list[np.ndarray]] = {}
        with contextlib.closing(tf.Session(graph=self._graph)) as session:
            session.run(self._init)
            for name, value in values.items():
                self._variables[name].load(value, session)
            self._step.load(step, session)
            session.run(self._start_batches)
            for i in range(self._num_batches):
                self._step.load(step + i, session)
                for (variable, _), (value, change, rate) in zip(self._changes, session.run(self._fetched)):
                    sums.setdefault(variable.op.name, []).append(value - change / rate)
        return {name: np.mean(found, 0, np.float64).astype(values[name].dtype) for name, found in sums.items()}


def _check_updates():
    for variable in statistics():
        if any(op is not variable.initializer for op in _ops_on(variable, _ASSIGNMENTS)):
            raise UsageError(
                f'swa_start: {variable.op.name} is assigned, so it cannot be recomputed for averaged weights, as the '
                'statistics of tf.layers.batch_normalization are: use that, or ema_decay'
            )


def _changes(variable):
    """Returns what training subtracts from a variable, a tensor for each place that does.

    That of a Keras model's symbolic call, whose input is a placeholder, is not run.
    """
    found = [op.inputs[1] for op in _ops_on(variable, _UPDATES)]
    return [change for change in found if not any(op.type == 'Placeholder' for op in ancestors([change]))]


def _read(variable, change):
    """Returns the value that a change is computed from: that of a layer's second call has been changed by the first."""
    needed = ancestors([change])
    reads = [op.outputs[0] for op in _ops_on(variable, ('ReadVariableOp', 'Identity')) if op in needed]
    return next((read for read in reads if tf.gradients(change, read)[0] is not None), variable)


def _ops_on(variable, types):
    handle = variable.handle.op if hasattr(variable, 'handle') else variable.op
    ops = tf.get_default_graph().get_operations()
    return [op for op in ops if op.type in types and op.inputs[0].op is handle]

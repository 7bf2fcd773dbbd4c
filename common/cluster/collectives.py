"""Collective ops between the processes of synchronous training, each with its own copy of all variables."""

from collections.abc import Callable, Sequence
import functools
import itertools
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import collective_ops

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.parts import part_size

_GROUP = 1
_DTYPES = (tf.bool, tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)


class Collectives:
    """Creates collective ops. All processes must create the same ones, in the same order, and run them together.

    Each op gets the next key in the cluster. An op fails if another process does not run it within the timeout, for which
    TensorFlow starts a thread that sleeps that long. Those that are often run, the means and the watched ones, have none: the
    threads would use up the process's memory, one for each step of the last minutes.

    Args:
      count: the number of processes.
      index: of this process; process 0 broadcasts.
      timeout: seconds.
    """

    def __init__(self, count: int, index: int, timeout: float):
        self.count = count
        self.index = index
        self._timeout = timeout
        self._keys = itertools.count(1)

    def mean(self, values: Sequence[tf.Tensor | tf.IndexedSlices], parts: Any) -> list[tf.Tensor | tf.IndexedSlices]:
        """Returns weighted means over the processes of float tensors, dense or sparse, of the same shapes in all processes.

        Dense tensors are concatenated to one vector per dtype: one message to each neighbor is faster than one per variable.

        Args:
          parts: the reciprocal of this process's weight, a number or float32 scalar: the number of processes if all have the
            same. The weights sum to 1.
        """
        means: list = list(values)
        dense = [i for i, value in enumerate(values) if not isinstance(value, tf.IndexedSlices)]
        for dtype in sorted({values[i].dtype.base_dtype for i in dense}, key=lambda dtype: dtype.name):
            chosen = [i for i in dense if values[i].dtype.base_dtype == dtype]
            for i, mean in zip(chosen, self._dense_means([values[i] for i in chosen], parts)):
                means[i] = mean
        for i, value in enumerate(values):
            if isinstance(value, tf.IndexedSlices):
                means[i] = self._sparse_mean(value, parts)
        return means

    def mean_if(
        self, is_due: tf.Tensor, values: Sequence[tf.Variable], always: Sequence[tf.Tensor], parts: float
    ) -> tuple[list[tf.Tensor], Callable[[], list[tf.Tensor]]]:
        """Returns weighted means of variables in the steps that need them, and of scalars in all, in the same messages.

        The other steps send a shorter vector: in a branch of tf.cond, a collective op sometimes waits forever.

        Args:
          is_due: bool scalar, the same in all processes.
          values: float variables.
          always: float32 scalars.
          parts: see `mean`.

        Returns:
          The means of `always`, and a function that returns those of `values`, to be called in a branch of tf.cond(is_due).
        """
        dtypes = sorted({tf.float32, *(value.dtype.base_dtype for value in values)}, key=lambda dtype: dtype.name)
        vectors, means = {}, {}
        for dtype in dtypes:
            vectors[dtype] = [value for value in values if value.dtype.base_dtype == dtype]
            head = tf.stack([tf.cast(value, dtype) for value in always])  # No vector is empty.
            tail = tf.cond(is_due, functools.partial(_flat, vectors[dtype], dtype), functools.partial(_flat, [], dtype))
            means[dtype] = self._reduce(tf.concat([head, tail], 0) / parts, 'Add')

        def due_means():
            parts = {dtype: iter(_unflatten(means[dtype][len(always) :], vectors[dtype])) for dtype in dtypes}
            return [next(parts[value.dtype.base_dtype]) for value in values]

        return tf.unstack(means[tf.float32][: len(always)], len(always)), due_means

    def maximum(self, value: tf.Tensor, is_watched: bool = False) -> tf.Tensor:
        """Returns the elementwise maximum over the processes of a tensor of fixed shape.

        Args:
          is_watched: whether a deadline of the task ends the wait for the others, so that the op needs no timeout.
        """
        return self._reduce(value, 'Max', 0.0 if is_watched else self._timeout)

    def gather(self, value: tf.Tensor, is_watched: bool = False) -> tf.Tensor:
        """Concatenates the processes' tensors, in order; all have the same static shape [n, ...]. See `maximum`."""
        return self._gather(value, 0.0 if is_watched else self._timeout)

    def whole(self, share: tf.Tensor, batch_size: int) -> tf.Tensor:
        """Returns the values of all examples of a step, [batch_size], in the order of the batch, of which each has a share.

        A deadline of the task must end the wait for the others.
        """
        sizes = [part_size(batch_size, self.count, index) for index in range(self.count)]
        gathered = self.gather(tf.pad(tf.ensure_shape(share, [sizes[self.index]]), [[0, sizes[0] - sizes[self.index]]]), True)
        return tf.gather(gathered, [i % self.count * sizes[0] + i // self.count for i in range(batch_size)])

    def broadcast(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """Returns the op that assigns the values of process 0 to the variables of all processes.

        Raises:
          UsageError: a variable is of a dtype that TensorFlow does not broadcast.
        """
        for variable in variables:
            if variable.dtype.base_dtype not in _DTYPES:
                raise UsageError(
                    f'the variable {variable.op.name} is of {variable.dtype.base_dtype.name}, which the tasks of a cluster '
                    f'cannot exchange: make it one of {", ".join(dtype.name for dtype in _DTYPES)}'
                )
        return tf.group(*map(self._broadcast, variables))

    def _broadcast(self, variable):
        if self.count == 1:
            return tf.no_op()
        size = dict(group_size=self.count, group_key=_GROUP, instance_key=next(self._keys), timeout=self._timeout)
        shape, dtype = variable.shape, variable.dtype.base_dtype
        with tf.device('/cpu:0'):
            if self.index == 0:
                return collective_ops.broadcast_send(variable.read_value(), shape, dtype, **size)
            return tf.assign(variable, collective_ops.broadcast_recv(shape, dtype, **size)).op

    def _reduce(self, value, merge, timeout=0.0):
        if self.count == 1:
            return tf.identity(value)
        with tf.device('/cpu:0'):
            return collective_ops.all_reduce(
                value, self.count, _GROUP, next(self._keys), merge, 'Id', communication_hint='ring', timeout=timeout
            )

    def _gather(self, value, timeout=0.0):
        if self.count == 1:
            return value
        with tf.device('/cpu:0'):
            return collective_ops.all_gather(
                value, self.count, _GROUP, next(self._keys), communication_hint='ring', timeout=timeout
            )

    def _dense_means(self, tensors, parts):
        return _unflatten(self._reduce(_divided(_flat(tensors, tensors[0].dtype), parts), 'Add'), tensors)

    def _sparse_mean(self, slices, parts):
        """Gathers the slices of all processes, whose numbers may differ or be 0."""
        count = tf.size(slices.indices)
        missing = tf.maximum(self._reduce(count, 'Max'), 1) - count
        indices = self._gather(tf.pad(slices.indices, [[0, missing]], constant_values=-1))
        padded = tf.pad(_divided(slices.values, parts), [[0, missing], *[[0, 0]] * (slices.values.shape.rank - 1)])
        values = tf.ensure_shape(self._gather(padded), [None, *slices.values.shape[1:]])
        is_given = indices >= 0
        return tf.IndexedSlices(tf.boolean_mask(values, is_given), tf.boolean_mask(indices, is_given), slices.dense_shape)


def _divided(value, parts):
    return value / (tf.cast(parts, value.dtype) if isinstance(parts, tf.Tensor) else parts)


def _flat(tensors, dtype):
    """Returns the elements of tensors as a vector."""
    return tf.concat([tf.zeros([0], dtype), *(tf.reshape(tensor, [-1]) for tensor in tensors)], 0)


def _unflatten(vector, tensors):
    """Returns the parts of a vector that `_flat` has made, in the shapes of the tensors."""
    parts = tf.split(vector, [tensor.shape.num_elements() for tensor in tensors]) if tensors else []
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors)]

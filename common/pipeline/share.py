"""The share of the training examples of a process in a cluster."""

import dataclasses

import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import plain
from estimator_trainer.common.parts import part_size


@dataclasses.dataclass(frozen=True)
class Share:
    """Every count-th training example, beginning with this index; by default all examples.

    The processes share each batch, unless each makes whole batches of its examples. If count does not divide the batch size,
    it is every count-th of each batch, so the first processes have one more than the others.
    """

    index: int = 0
    count: int = 1
    has_whole_batches: bool = False

    def size(self, batch_size: int) -> int:
        """Returns the number of examples that the process has in a step."""
        return batch_size if self.has_whole_batches else part_size(batch_size, self.count, self.index)

    def of(self, values: tf.Tensor, position: tf.Tensor | int, start: tf.Tensor | int, batch_size: int) -> tf.Tensor:
        """Returns the share's part of a tensor [n, ...].

        Args:
          values: consecutive training examples.
          position: the first one's, in training or in the batch.
          start: the position at which a batch starts, at most this one.
        """
        if self.count == 1:
            return values
        if self._is_regular(batch_size):
            return values[tf.math.mod(self.index - position, self.count) :: self.count]
        places = tf.range(tf.shape(values, out_type=tf.int64)[0]) + tf.cast(position - start, tf.int64)
        return tf.boolean_mask(values, self._has(places, batch_size))

    def of_stream(self, records: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
        """Returns the share's records of a tf.data.Dataset that starts with a batch."""
        if self.count == 1:
            return records
        if self._is_regular(batch_size):
            return records.shard(self.count, self.index)
        own = records.enumerate().filter(plain(lambda place, record: self._has(place, batch_size)))
        return own.map(plain(lambda place, record: record))

    def positions(self, start: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """Returns the positions of the share's examples from that of a batch on, endlessly: int64 scalars."""
        first = start + self.index
        if self._is_regular(batch_size):
            return tf.data.Dataset.range(first, END, self.count)
        size = self.size(batch_size)
        return tf.data.Dataset.range(END).map(plain(lambda i: first + i // size * batch_size + i % size * self.count))

    def _is_regular(self, batch_size):
        """Whether the distance between its examples is always the same."""
        return self.has_whole_batches or batch_size % self.count == 0

    def _has(self, places, batch_size):
        return tf.equal(places % batch_size % self.count, self.index)


WHOLE = Share()
END = 2**62

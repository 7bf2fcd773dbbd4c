"""The share of the training examples of a process in a cluster."""

import dataclasses

import tensorflow.compat.v1 as tf


@dataclasses.dataclass(frozen=True)
class Share:
    """Every count-th training example, beginning with this index; by default all examples.

    The processes share each batch, unless each makes whole batches of its examples.
    """

    index: int = 0
    count: int = 1
    has_whole_batches: bool = False

    @property
    def batch_parts(self) -> int:
        """The number of processes that share a batch."""
        return 1 if self.has_whole_batches else self.count

    def of(self, values: tf.Tensor, position: tf.Tensor | int = 0) -> tf.Tensor:
        """Returns the share's part of a tensor [n, ...].

        Args:
          values: consecutive training examples.
          position: number of examples before them, in training or in the batch.
        """
        if self.count == 1:
            return values
        return values[tf.math.mod(self.index - position, self.count) :: self.count]


WHOLE = Share()

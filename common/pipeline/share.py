"""The share of the training's examples that a process of a cluster takes."""

import dataclasses

import tensorflow.compat.v1 as tf


@dataclasses.dataclass(frozen=True)
class Share:
    """Every count-th example of the training, beginning with that of this index. The default is all of them.

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
          values: consecutive examples of the training.
          position: number of examples before them, of this training or of its batch.
        """
        if self.count == 1:
            return values
        return values[tf.math.mod(self.index - position, self.count) :: self.count]


WHOLE = Share()

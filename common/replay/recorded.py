"""Records of steps by the tasks of a run: losses, and in files of a directory, batches and weights."""

import dataclasses
import glob
import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import json_text
from estimator_trainer.common.files import append, dumps


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The losses {step: NumPy scalar}, and the directory of the files."""

    directory: str
    losses: dict[int, Any] = dataclasses.field(default_factory=dict)

    def add_loss(self, step: int, loss: Any, is_finite: bool) -> None:
        """Adds the loss of a step, also to a file, for `read_losses` in another process."""
        self.losses[step] = loss
        append(self._losses_path, f'{dumps({"step": step, "loss": str(loss), "is_finite": is_finite})}\n'.encode())

    def read_losses(self) -> bool:
        """Takes the losses, float32, from the file, up to the first step after which loss or variables are not finite.

        Returns:
          Whether there is none.
        """
        if not os.path.exists(self._losses_path):
            return True
        with open(self._losses_path, encoding='utf-8') as file:
            for line in map(json_text.loads, file):
                self.losses[line['step']] = np.float32(line['loss'])
                if not line['is_finite']:
                    return False
        return True

    @property
    def _losses_path(self):
        return os.path.join(self.directory, 'losses.jsonl')

    def weights_path(self, step: int, task: int) -> str:
        """Returns the path, without suffix, of a task's checkpoint of the weights at a global step."""
        return os.path.join(self.directory, f'weights-{task}-{step}')

    def delete_weights(self, step: int) -> None:
        """Deletes the weights of all tasks at a global step."""
        for path in glob.glob(f'{glob.escape(self.directory)}/weights-*-{step}.*'):
            os.remove(path)

    def save_batch(self, step: int, task: int, arrays: list[Any]) -> None:
        """Saves the batch of a step, arrays of any type; text is of bytes."""
        with tf.io.TFRecordWriter(self._batch_path(step, task)) as writer:
            for array in arrays:
                writer.write(tf.make_tensor_proto(array).SerializeToString())

    def take_batch(self, step: int, task: int) -> list[np.ndarray]:
        """Returns the batch of a step, and deletes its file."""
        path = self._batch_path(step, task)
        records = tf.io.tf_record_iterator(path)
        arrays = [tf.make_ndarray(tf.make_tensor_proto(0).FromString(record)) for record in records]
        os.remove(path)
        return arrays

    def _batch_path(self, step, task):
        return os.path.join(self.directory, f'batch-{task}-{step}')

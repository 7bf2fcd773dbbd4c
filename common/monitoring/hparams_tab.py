"""TensorBoard's HParams tab: the hyper-parameters of runs next to their metrics."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
from typing import Any

from tensorboard.plugins.hparams import api_pb2, summary
import tensorflow.compat.v1 as tf

from estimator_trainer.common import files


class _AtStart(tf.train.SessionRunHook):
    """Calls a function once the graph is built."""

    def __init__(self, call: Callable[[], None]):
        self._call = call

    def begin(self):
        self._call()


@contextlib.contextmanager
def session(output_dir: str, read: Callable[[], Mapping[str, Any]]) -> Iterator[tf.train.SessionRunHook]:
    """Writes a run's hyper-parameters to its event files, and whether the block succeeded.

    Args:
      read: returns the hyper-parameters, once the graph is built.

    Yields:
      A hook for the training within the block.
    """
    # A separate writer: the run's shared one would write this empty graph instead of the model's.
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(output_dir, filename_suffix='.hparams')
    status = api_pb2.STATUS_FAILURE
    try:
        yield _AtStart(lambda: _write(writer, summary.session_start_pb(_values(read()))))
        status = api_pb2.STATUS_SUCCESS
    finally:
        _write(writer, summary.session_end_pb(status))
        writer.close()


def _values(params):
    return {key: value if isinstance(value, (bool, int, float, str)) else files.dumps(value) for key, value in params.items()}


def _write(writer, value):
    # Serialized, since TensorFlow and TensorBoard may have different classes for the same protocol buffer.
    writer.add_summary(value.SerializeToString())
    writer.flush()

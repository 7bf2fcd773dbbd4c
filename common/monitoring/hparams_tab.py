"""TensorBoard's HParams tab: the hyper-parameters of runs next to their metrics."""

from collections.abc import Iterator
import contextlib

from tensorboard.plugins.hparams import api_pb2, summary
import tensorflow.compat.v1 as tf

from estimator_trainer.common import files
from estimator_trainer.hparams.build import HParams


@contextlib.contextmanager
def session(output_dir: str, params: HParams) -> Iterator[None]:
    """Writes a run's hyper-parameters to its event files, and whether the block succeeded."""
    values = {key: value if isinstance(value, (bool, int, float, str)) else files.dumps(value) for key, value in params.items()}
    # A separate writer: the run's shared one would write this empty graph instead of the model's.
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(output_dir, filename_suffix='.hparams')
    _write(writer, summary.session_start_pb(values))
    status = api_pb2.STATUS_FAILURE
    try:
        yield
        status = api_pb2.STATUS_SUCCESS
    finally:
        _write(writer, summary.session_end_pb(status))
        writer.close()


def _write(writer, value):
    # Serialized, since TensorFlow and TensorBoard may have different classes for the same protocol buffer.
    writer.add_summary(value.SerializeToString())
    writer.flush()

"""TensorBoard's tab HParams: the hyper-parameters of runs beside their metrics."""

import contextlib

from tensorboard.plugins.hparams import api_pb2, summary
import tensorflow.compat.v1 as tf

from common import files


@contextlib.contextmanager
def session(output_dir, params):
    """Writes the hyper-parameters of a training to its events, and whether the block ended without an error."""
    values = {key: value if isinstance(value, (bool, int, float, str)) else files.dumps(value) for key, value in params.items()}
    # A writer of its own: the one that the training shares would hold the empty graph here for the model's.
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
    # As bytes: TensorFlow and TensorBoard may have classes of their own for it.
    writer.add_summary(value.SerializeToString())
    writer.flush()

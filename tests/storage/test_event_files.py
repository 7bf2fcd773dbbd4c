"""Event files that cannot be written."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.storage.event_files import flush


def test_a_directory_where_no_event_file_can_be_opened_is_named_once(tmp_path, caplog):
    directory = tmp_path / 'eval'
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(str(directory))
    directory.rmdir()
    for step in (1, 2):
        writer.add_summary(tf.Summary(), step)
        flush(writer)
    (warning,) = caplog.messages
    assert warning.startswith(f'{directory}: the event file cannot be written, or was deleted')
    directory.mkdir()
    flush(writer)
    writer.add_summary(tf.Summary(), 3)
    flush(writer)
    assert [*directory.iterdir()] and caplog.messages == [warning]

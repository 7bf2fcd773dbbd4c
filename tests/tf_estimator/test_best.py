"""Exporters remember the best evaluation over a restart of the program."""

import os

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator import json_files
from tf_estimator.traps import best

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

est = tf.estimator


def model_fn(features, labels, mode):
    bias = tf1.get_variable('bias', [], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(features['x']) + bias
    train = tf1.assign_add(tf1.train.get_global_step(), 1)
    return est.EstimatorSpec(mode, {'y': features['x'] + bias}, loss, train)


def batch(value):
    return lambda: tf.data.Dataset.from_tensors({'x': np.float32([value])})


def serving():
    x = tf1.placeholder(tf.float32, [1])
    return est.export.ServingInputReceiver({'x': x}, x)


def run(directory, exporter, *losses):
    """Starts the program: trains a step for each loss, which it evaluates; returns the exports, sorted, and their losses."""
    estimator = est.Estimator(model_fn, str(directory))
    for loss in losses:
        estimator.train(batch(0), steps=1)
        path = os.path.join(directory, 'export', exporter.name)
        found = estimator.evaluate(batch(loss), name='dev')
        yield exporter.export(estimator, path, estimator.latest_checkpoint(), found, False)


def best_exporter(**arguments):
    return est.BestExporter('best', serving, **arguments)


@pytest.mark.parametrize('pattern', ['eval/*.tfevents.*', None])
def test_a_best_exporter_does_not_export_a_worse_model_after_a_restart(tmp_path, pattern):
    assert [bool(path) for path in run(tmp_path, best_exporter(event_file_pattern=pattern), 3, 5)] == [True, False]
    assert [bool(path) for path in run(tmp_path, best_exporter(event_file_pattern=pattern), 4, 1, 2)] == [False, True, False]


def test_a_best_exporter_without_notes_of_its_exports_reads_event_files_of_complete_evaluations(tmp_path):
    exports = [*run(tmp_path, best_exporter(), 2)]
    os.remove(os.path.join(exports[0].decode(), 'assets.extra', 'eval_result.json'))
    with tf1.Graph().as_default(), tf1.summary.FileWriter(str(tmp_path / 'eval_dev'), filename_suffix='.other') as writer:
        writer.add_summary(tf1.Summary(value=[tf1.Summary.Value(tag='other', simple_value=0)]), 1)
    with open(tmp_path / 'eval_dev' / 'events.out.tfevents.1.cut', 'wb') as file:
        file.write(b'\x09')
    pattern = 'eval_dev/*.tfevents.*'
    assert [bool(path) for path in run(tmp_path, best_exporter(event_file_pattern=pattern), 4, 1)] == [False, True]


def test_a_program_that_is_killed_just_after_an_export_compares_with_that_one(tmp_path, monkeypatch):
    exporter = best_exporter(event_file_pattern=None)
    assert all(run(tmp_path, exporter, 5))

    def killed(unused_path):
        raise KeyboardInterrupt

    monkeypatch.setattr(exporter, '_garbage_collect_exports', killed)
    with pytest.raises(KeyboardInterrupt):
        list(run(tmp_path, exporter, 1))
    again = run(tmp_path, best_exporter(event_file_pattern=None), 3, 0.5)
    assert [bool(path) for path in again] == [False, True]


@pytest.mark.parametrize('content', ['', '{"loss": ', None])
def test_of_exports_the_newest_is_compared_with_or_what_event_files_have(tmp_path, content):
    exports = [*run(tmp_path, best_exporter(exports_to_keep=5), 5, 1)]
    path = os.path.join(exports[1].decode(), 'assets.extra', 'eval_result.json')
    if content is None:
        os.remove(path)
    else:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(content)
    again = run(tmp_path, best_exporter(event_file_pattern='eval_dev/*.tfevents.*'), 3)
    assert [bool(path) for path in again] == [False]


def test_a_result_has_the_metrics_that_are_numbers(tmp_path):
    arrays = {'texts': np.array([b'a', b'b'], object), 'words': np.array(['a']), 'complex': np.complex64([1j])}
    numbers = {
        'loss': np.float32(0.5),
        'rate': tf.bfloat16.as_numpy_dtype(2.0),
        'counts': np.uint8([[1, 2]]),
        'is_best': np.bool_(True),
        'step': 3,
    }
    best.write_result(str(tmp_path / 'result.json'), {**numbers, **arrays, 'bytes': b'summary'})
    found = json_files.read(str(tmp_path / 'result.json'))
    assert found == {'loss': 0.5, 'rate': 2.0, 'counts': [[1, 2]], 'is_best': True, 'step': 3}


def test_a_best_exporter_exports_what_is_best_of_nothing(tmp_path):
    assert all(run(tmp_path, best_exporter(), 2))
    (tmp_path / 'export').rename(tmp_path / 'moved')
    assert all(run(tmp_path, best_exporter(), 4))

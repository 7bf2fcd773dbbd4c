"""--schedule=find_learning_rate: its files, and a run beside which it leaves nothing else."""

import csv
import os
import pathlib
from xml.etree import ElementTree

import pytest
import tensorflow.compat.v1 as tf

import estimator_trainer
from estimator_trainer.common.commands import trainer
from tests.shared import refused


@pytest.fixture(scope='module')
def output_dir(tmp_path_factory):
    """The directory of a run, which ends at step 3."""
    directory = str(tmp_path_factory.mktemp('run'))
    estimator_trainer.train('polynomial', 'polynomial', directory, train_steps=3)
    return directory


def test_the_curve_of_the_runs_own_model_is_written_beside_the_run_which_stays_as_it_is(output_dir, execute):
    before = {path: path.stat().st_mtime_ns for path in pathlib.Path(output_dir).rglob('*') if path.is_file()}
    argv = [
        'trainer.py',
        f'--output_dir={output_dir}',
        '--schedule=find_learning_rate',
        '--train_steps=40',
        '--verbosity=warning',
    ]
    code, result, err = execute(trainer.main, argv)
    assert code == 0 and result['steps'] == 40, err
    after = {path: path.stat().st_mtime_ns for path in pathlib.Path(output_dir).rglob('*') if path.is_file()}
    assert {path: time for path, time in after.items() if path.parent.name != 'find_learning_rate'} == before
    with open(result['table']) as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == 40 and float(rows[0]['learning_rate']) == 1e-6 and float(rows[-1]['learning_rate']) == 10
    assert result['learning_rate'] == pytest.approx(result['least_loss_at'] / 10, rel=0.05)
    assert ElementTree.parse(result['chart']).getroot().tag == '{http://www.w3.org/2000/svg}svg'
    (events,) = tf.io.gfile.glob(f'{output_dir}/find_learning_rate/events*')
    found = [value.tag for event in tf.train.summary_iterator(events) for value in event.summary.value]
    assert found.count('find_learning_rate/smoothed_loss') == 40


def test_a_model_with_its_own_step_is_refused(tmp_path):
    def model_fn(features, labels, mode, params, config):
        loss = tf.reduce_mean(tf.square(features['x'] - tf.get_variable('w', [])))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.assign_add(tf.train.get_global_step(), 1).op)

    message = refused(estimator_trainer.find_learning_rate, model_fn, 'polynomial', str(tmp_path))
    assert 'has its own training step, with its own rate' in message
    assert not os.path.exists(tmp_path / 'find_learning_rate')

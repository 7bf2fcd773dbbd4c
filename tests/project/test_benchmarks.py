"""The benchmarks run, and compare forms that compute the same."""

import dataclasses
import json
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from benchmarks import (
    bare_loop,
    beam_search,
    cluster,
    command_line,
    image_pipeline,
    merge,
    processes,
    python_start,
    resume,
    step_shares,
    training,
    whole_runs,
)
from tests import forked

pytestmark = pytest.mark.slow


@pytest.fixture
def quick_start(monkeypatch):
    """Trainers start without importing TensorFlow: of their speed, steps are measured."""
    monkeypatch.setattr(subprocess, 'Popen', forked.Popen)


@mock.patch.multiple(beam_search, BATCH=2, WIDTH=3, UNITS=8, TOKENS=20, RUNS=1)
def test_both_forms_of_beam_search_find_the_same_texts():
    loop, unrolled = (beam_search.measure(form, 6) for form in ('loop', 'unrolled'))
    assert loop['checksum'] == pytest.approx(unrolled['checksum'], rel=1e-4)
    assert loop.keys() == unrolled.keys() == {'nodes', 'build', 'first', 'run', 'checksum'}
    assert beam_search.measure('loop', 12)['nodes'] == loop['nodes']
    assert beam_search.measure('unrolled', 12)['nodes'] > unrolled['nodes']


@pytest.mark.parametrize('form', merge.FORMS)
@mock.patch.multiple(merge, IMAGES=[2, 4, 4, 3], CONTEXT=[2, 1, 1, 5], UNITS=6, STEPS=2)
def test_the_forms_of_merge_are_measured(form):
    assert merge.measure(form).keys() == {'milliseconds', 'megabytes'}


@mock.patch.multiple(training, WARM_UP=10)
def test_what_the_trainer_reaches_is_read_from_its_log(quick_start, data_dir):
    result = training.train(dataclasses.replace(training.TASKS['alexnet'], steps=30, batch_size=32), [], data_dir)
    assert result.keys() == {'examples_per_second', 'megabytes', 'parameters', 'loss'}
    # Three convolutions of 3x3, two dense layers, each with biases.
    assert result['parameters'] == 9 * (32 + 32 * 64 + 64 * 128) + 32 + 64 + 128 + 1152 * 512 + 512 + 512 * 10 + 10
    assert result['examples_per_second'] > 0 and result['megabytes'] > 100 and 0 < result['loss'] < 3


@pytest.mark.parametrize(
    'name, parameters',
    [
        # 3x3 filters in 1 + 6 convolutions in each stage, scale and shift of each, and a dense layer.
        (
            'resnet',
            9 * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64) + 2 * (7 * 16 + 6 * 32 + 6 * 64) + 650,
        ),
        # Embeddings, three GRUs, dense layers: the summary, the keys, those that are merged, the tokens.
        (
            'seq2seq',
            256 * 32 + 3 * 3 * 128 * (32 + 128 + 1) + 128 * 257 + 128 * 256 + 128 * (128 + 256 + 1) + 256 * 129,
        ),
    ],
)
@mock.patch.multiple(training, WARM_UP=3, PICTURES=300)
def test_the_networks_that_are_compared_have_the_size_of_the_peers(quick_start, name, parameters, tmp_path):
    task = dataclasses.replace(training.TASKS[name], steps=9, batch_size=16)
    task.write(str(tmp_path))
    assert training.train(task, [], str(tmp_path))['parameters'] == parameters


@mock.patch.multiple(training, WARM_UP=10, ROWS=20000)
def test_the_table_that_is_trained_on_is_that_of_the_peers(quick_start, tmp_path):
    task = dataclasses.replace(training.TASKS['mlp'], steps=30)
    task.write(str(tmp_path))
    result = training.train(task, [], str(tmp_path))
    (metadata,) = tmp_path.glob('csv-*/metadata.json')
    (sizes,) = json.loads(metadata.read_text())['vocabulary_sizes'].values()
    with np.load(tmp_path / 'data.npz') as data:
        assert len(data['labels']) == 20000 and np.all(data['categorical'].max(0) < data['sizes'])
        assert [column.max() for column in data['categorical'].T[:3]] == [4, 19, 49]
        # In a small table, rare categories are unknown.
        assert len(sizes) == 8 and sizes[:3] == [6, 21, 51] and sizes[-1] < data['sizes'][-1]
    assert result['parameters'] == 8 * sum(sizes) + (10 + 8 * 8) * 256 + 256 + 256 * 128 + 128 + 128 * 2 + 2
    assert result['loss'] < 0.69


def test_a_run_of_the_trainer_is_timed(quick_start, data_dir):
    run = processes.run_trainer('--model=polynomial', '--dataset=polynomial', '--train_steps=40', '--save_summary_steps=10')
    assert run['result']['global_step'] == 40 and 'loss = ' in run['log']
    assert 0 < 40 / run['seconds'] < run['steps_per_second']
    with pytest.raises(RuntimeError, match='--train_steps=0'):
        processes.run_trainer('--train_steps=0')


@pytest.mark.parametrize('name', bare_loop.INPUTS)
def test_the_bare_loop_runs_on_both_inputs(name):
    assert bare_loop.measure(name, 2000)['steps_per_second'] > 0


def test_conversion_input_and_forward_passes_are_measured(whole_mnist):
    assert whole_runs.convert()['seconds'] > 0
    assert whole_runs.read(whole_mnist, 20)['examples_per_second'] > 0
    assert whole_runs.evaluate_forward(whole_mnist)['seconds'] > 0


@mock.patch.multiple(step_shares, WARM_UP=2, STEPS=3, TRACED=2)
def test_the_shares_of_a_step_add_up(whole_mnist):
    shares = step_shares.measure('float32', whole_mnist)
    assert all(shares[name] > 0 for name in step_shares.KINDS)
    assert sum(shares.values()) == pytest.approx(2 * shares['a step'])
    # By their operations: convolutions need ten times as many as the matrix products.
    assert sum(shares[name] for name in shares if name.startswith('conv')) > shares['matrix products']


@mock.patch.multiple(resume, COUNT=500, BYTES=100)
def test_reading_is_measured_from_any_place_of_an_epoch(tmp_path):
    assert resume.convert(str(tmp_path))['seconds'] > 0
    assert resume.verify(str(tmp_path))['seconds'] > 0
    for at in (0.0, 0.9):
        result = resume.train(str(tmp_path), at, 2)
        assert result['first'] > 0 and result['megabytes_per_second'] > 0 and result['megabytes'] > 100


@mock.patch.multiple(image_pipeline, WIDTH=60, HEIGHT=40, RESIZED=12, CROPPED=8, BATCH_SIZE=4)
def test_the_input_of_pictures_is_measured(tmp_path):
    image_pipeline.generate(str(tmp_path / 'pictures'), 12)
    assert image_pipeline.measure(str(tmp_path / 'pictures'), 2)['images_per_second'] > 0


@mock.patch.multiple(image_pipeline, RESIZED=6, CROPPED=4)
def test_a_cropped_and_mirrored_image_is_a_part_of_it(session):
    images = np.arange(20 * 6 * 6 * 3, dtype=np.float32).reshape(20, 6, 6, 3)
    seen = set()
    for image, found in zip(images, session.run(image_pipeline.augment(tf.constant(images)))):
        parts = {
            (top, left, step): image[top : top + 4, left : left + 4][:, ::step]
            for top in range(3)
            for left in range(3)
            for step in (1, -1)
        }
        (part,) = [name for name, values in parts.items() if np.array_equal(found, values)]
        seen.add(part)
    assert len(seen) > 5


@mock.patch.multiple(cluster, STEPS=20, EVERY=5)
def test_processes_send_what_a_ring_has_to(quick_start, data_dir):
    result = cluster.train(
        2, 1, '--model=mlp', f'--data_dir={data_dir}', '--hparams=batch_size=4,hidden_units=[400]', '--intra_op_threads=1'
    )
    # In float32, with biases. Each of two processes sends the half that it has summed up, and before it the other half.
    assert result['model'] == pytest.approx(4e-6 * (785 * 400 + 401 * 10))
    assert result['sent'] > 2 * result['model'] * 0.99
    assert result['steps_per_second'] > 0


@mock.patch.multiple(cluster, REDUCTIONS=2)
def test_the_all_reduce_is_measured_alone():
    reduced = cluster.reduce(2, 1)
    assert reduced['milliseconds'] > 0 and reduced['cpu'] > 0


def test_the_start_of_a_training_and_the_cpu_of_a_command_are_measured(data_dir):
    assert command_line.seconds_to_first_step(data_dir) > 0
    code = 'import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass'
    assert command_line.cpu_seconds([sys.executable, '-c', code]) > 0.3


def test_the_start_of_python_is_measured_with_the_hook_and_without(tmp_path):
    for is_enabled in (False, True):
        python = python_start.make_environment(str(tmp_path / str(is_enabled)), is_enabled)
        code = 'import sys; print("_tf_estimator_hook" in sys.modules)'
        assert subprocess.run([python, '-c', code], capture_output=True, text=True).stdout == f'{is_enabled}\n'
    assert all(value > 0 for values in python_start.measure(rounds=1).values() for value in values)

"""The schedules, from command lines to results."""

import json
import os
import re
import shutil
import subprocess
import sys
import types
from unittest import mock

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import locks
from estimator_trainer.common.runs import schedules
from estimator_trainer.datasets import mnist
from estimator_trainer.models import polynomial
from tests.shared import POLYNOMIAL, ROOT, rows

# Those of the fixture `trained_run`.
FLAGS = (*POLYNOMIAL, '--train_steps=20', '--save_checkpoints_steps=10', '--eval_steps=5')


def test_polynomial_learns_its_weights(run):
    code, result, _ = run(*POLYNOMIAL)
    assert code == 0
    np.testing.assert_allclose([result['eval'][f'w_{i}'] for i in range(3)], [5, 0, 3], atol=0.01)


def test_train_then_evaluate_equals_train_and_evaluate(run, trained_run, tmp_path):
    both = json.loads((trained_run('polynomial') / 'results.json').read_text())
    assert set(both) == {'global_step', 'eval'}
    assert run(*FLAGS, '--schedule=train', output_dir=tmp_path / 'other')[:2] == (0, {'global_step': 20})
    assert run(*FLAGS, '--schedule=evaluate', output_dir=tmp_path / 'other')[:2] == (0, both)
    assert json.loads((tmp_path / 'other' / 'results.json').read_text()) == both


def test_dry_run_makes_a_step_of_each_and_keeps_nothing(run, tmp_path):
    code, result, err = run(*POLYNOMIAL, '--schedule=dry_run')
    assert code == 0
    assert result['global_step'] == 1 and 'loss' in result['eval']
    assert err.count('Saving dict for global step 1: ') == 1
    assert list(tmp_path.iterdir()) == []


def test_dry_run_finds_what_is_broken_in_prediction_alone(run, monkeypatch):
    def model(features, labels, mode, params):
        return {'y': labels['y']}, tf.square(tf.get_variable('w', []) - labels['y'])

    monkeypatch.setattr(polynomial, 'model', model)
    monkeypatch.delattr(polynomial, 'eval_metrics')
    code, _, err = run(*POLYNOMIAL, '--schedule=dry_run')
    assert code == 2 and 'model(): labels are None in prediction' in err.splitlines()[-1]


def test_continuous_eval_follows_another_process_to_the_last_step(start, run, tmp_path):
    training = start(*FLAGS, '--schedule=train')
    code, result, err = run(*FLAGS, '--schedule=continuous_eval', '--eval_timeout=100')
    assert code == 0, err
    assert training.wait(100) == 0
    assert result['global_step'] == 20 and 'loss' in result['eval']
    assert rows(tmp_path / 'output' / 'metrics.csv')[-1]['global_step'] == '20'
    assert (tmp_path / 'output' / 'best' / 'best.json').exists()


def test_continuous_eval_waits_for_its_timeout_and_passes_over_what_is_deleted(run, trained_run, monkeypatch, tmp_path):
    trained_run('polynomial')
    found, waits = [f'{tmp_path}/output/model.ckpt-{step}' for step in (15, 20)], []
    monkeypatch.setattr(tf.train, 'checkpoints_iterator', lambda _, timeout, **other: waits.append(timeout) or iter(found))
    code, result, log = run(*FLAGS, '--schedule=continuous_eval', '--eval_timeout=7', '--best_metric=loss:min')
    assert code == 0 and result['global_step'] == result['best']['global_step'] == 20 and waits == [7]
    assert 'model.ckpt-15 was deleted before it could be evaluated' in log


def test_a_finished_run_is_reported_evaluated_and_kept(run, trained_run):
    output_dir = trained_run('polynomial')
    shutil.rmtree(output_dir / 'best')
    (output_dir / 'status.json').unlink()  # As of an older version.
    assert run(*FLAGS, '--train_steps=3', '--schedule=train')[:2] == (0, {'global_step': 20})
    status = json.loads((output_dir / 'status.json').read_text())
    assert [status[name] for name in ('state', 'global_step', 'started', 'resumed')] == ['finished', 20, None, 0]
    code, result, log = run(*FLAGS, '--train_steps=3')
    assert code == 0 and result['global_step'] == 20 and 'loss' in result['eval']
    assert 'WARNING Nothing to train: step 20 is reached, and training ends at 3; raise --train_steps or --num_epochs' in log
    assert (output_dir / 'best' / 'model.ckpt-20.index').exists()


def test_a_finished_run_of_an_elastic_cluster_records_the_chief_that_evaluates_it(trained_run):
    experiment = mock.Mock(train_steps=20)
    experiment.output_dir = str(output_dir := trained_run('polynomial'))
    experiment.estimator.latest_checkpoint = lambda: f'{output_dir}/model.ckpt-20'
    experiment.task = types.SimpleNamespace(is_chief=True, members=['worker 1', 'chief'])
    assert schedules.train(experiment) == {'global_step': 20}
    (line,) = (output_dir / 'tasks.jsonl').read_text().splitlines()
    assert [json.loads(line)[name] for name in ('from_step', 'tasks')] == [20, ['worker 1', 'chief']]


def test_an_export_waits_for_another_deletes_leftovers_of_a_killed_one_and_has_the_highest_version(start, trained_run):
    export = trained_run('polynomial') / 'export'
    for name in ('temp-1700000000', 'temp-of-mine', '9999999999'):  # The latter by a clock that was wrong.
        (export / name).mkdir(parents=True)
    with locks.taking_turns(str(export)):
        process = start(*POLYNOMIAL, '--schedule=export')
        assert any(f'Waiting for another process to finish with {export}.' in line for line in process.stderr)
        assert (export / 'temp-1700000000').exists()
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert os.path.basename(json.loads(out)['export']) == '10000000000'
    assert {path.name for path in export.iterdir()} == {'9999999999', '10000000000', 'temp-of-mine'}


def test_alexnet_learns_mnist_prints_what_it_reached_and_predicts_the_split_and_image_files(run, data_dir, tmp_path):
    output_dir = tmp_path / 'output'
    hparams = '--hparams=filters=[8,16],dense_units=32,warmup_steps=20,learning_rate=0.005,train_steps=150'
    flags = ('--model=alexnet', hparams, f'--data_dir={data_dir}', f'--output_dir={output_dir}', '--save_checkpoints_steps=100')
    command = [sys.executable, f'{ROOT}/trainer.py', *flags]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    result, log = json.loads(process.stdout), process.stderr
    assert process.stdout.count('\n') == 1
    assert result['global_step'] == 150
    assert result['eval']['accuracy'] > 0.85 and result['eval']['loss'] < 0.5
    assert json.loads((output_dir / 'results.json').read_text()) == result
    # In the Estimator's own format, each once, without messages for TensorFlow's developers.
    assert len(re.findall('INFO loss = .*, step = 0', log)) == 1
    assert len(re.findall(' INFO global_step/sec: ', log)) == 1
    assert re.findall(r'Saving dict for global step (\d+): accuracy = 0\.\d+, ', log) == ['100', '150']
    assert 'deprecated' not in log and 'Warning' not in log and 'it/s' not in log and 'Using config' not in log
    assert all(re.match(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO ', line) for line in log.splitlines())

    def predict(*flags):
        code, result, err = run('--schedule=predict', *flags)
        assert code == 0
        return result, [json.loads(line) for line in open(result['predictions'])], err

    # A line for every example, of the network that was evaluated.
    _, predicted, _ = predict()
    assert all(line.keys() == {'split', 'example', 'label', 'class', 'probabilities'} for line in predicted)
    assert [line['label'] for line in predicted] == mnist.read_idx('t10k-labels-idx1-ubyte')[:1000].tolist()
    probabilities, classes = (np.array([line[name] for line in predicted]) for name in ('probabilities', 'class'))
    np.testing.assert_allclose(probabilities.sum(1), np.ones(1000), atol=1e-4)
    np.testing.assert_array_equal(classes, probabilities.argmax(1))
    accuracy = np.mean(classes == mnist.read_idx('t10k-labels-idx1-ubyte')[:1000])
    assert accuracy == pytest.approx(result['eval']['accuracy'], abs=1e-6)

    images = mnist.read_idx('t10k-images-idx3-ubyte')[:5]
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f'{i}.png')
    Image.fromarray(images[0]).convert('RGB').resize((280, 280), Image.Resampling.NEAREST).save(tmp_path / '5.png')
    (tmp_path / '6.png').write_text('no image')
    result, lines, err = predict(f'--input={tmp_path}/*.png')
    assert result == {'global_step': 150, 'predictions': f'{output_dir}/predictions.jsonl', 'errors': 1}
    assert 'WARNING 1 of 7 examples cannot be predicted; ' in err
    assert f'WARNING {output_dir}/predictions.jsonl: these earlier predictions will be replaced; --predictions=' in err
    assert [line['input'] for line in lines] == [f'{tmp_path}/{i}.png' for i in range(7)]
    assert [line.get('class') for line in lines] == [*classes[:5], classes[0], None]
    np.testing.assert_allclose([line['probabilities'] for line in lines[:5]], probabilities[:5], atol=1e-4)
    for name in (*'72', 'other'):  # The first two digits are a seven and a two.
        (tmp_path / 'folders' / name).mkdir(parents=True)
    for i, name in enumerate('72'):
        shutil.copy(tmp_path / f'{i}.png', tmp_path / 'folders' / name)
    code, evaluated, err = run('--schedule=evaluate', f'--input={tmp_path}/folders')
    right = [int(classes[i] == int(name)) for i, name in enumerate('72')]
    assert code == 0 and evaluated['input']['accuracy'] == np.mean(right), err
    shutil.copy(tmp_path / '2.png', tmp_path / 'folders' / 'other')
    code, _, err = run('--schedule=evaluate', f'--input={tmp_path}/folders')
    wrong = f'{tmp_path}/folders/other/2.png: its folder, other, is not named after a class: 0, 1, 2, 3, 4, ...: correct it, '
    assert code == 1 and wrong in err.splitlines()[-1]
    result, lines, err = predict(f'--input={tmp_path}/5.png', f'--predictions={tmp_path}/five.jsonl')
    assert result['predictions'] == f'{tmp_path}/five.jsonl' and 'replaced' not in err
    assert len(lines) == 1 and len((output_dir / 'predictions.jsonl').read_text().splitlines()) == 7
    code, _, err = run('--schedule=predict', '--predictions=/no/x.jsonl')
    assert code == 2 and err.splitlines()[-1].endswith('--predictions=/no/x.jsonl: there is no directory /no')
    code, _, err = run('--schedule=predict', f'--input={tmp_path}/6.png')
    problem = f'nothing to predict: {tmp_path}/6.png is not an image of a kind that Pillow reads'
    assert code == 2 and problem in err.splitlines()[-1]


def test_predictions_delete_what_killed_ones_have_left_of_the_same_file(run, trained_run, tmp_path):
    trained_run('polynomial')
    left = [tmp_path / 'output' / f'{name}.jsonl.{"0" * 32}.part' for name in ('predictions', 'others')]
    for path in left:
        path.write_text('{')
    assert run('--schedule=predict')[0] == 0
    assert [path.exists() for path in left] == [False, True]

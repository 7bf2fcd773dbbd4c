"""Every schedule that trains or evaluates, from its command line to its result."""

import json
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.storage import checkpoints
from models import polynomial
from tests.shared import MODELS, POLYNOMIAL, rows

pytestmark = pytest.mark.slow


def test_alexnet_learns_mnist_and_prints_what_it_reached(start, tmp_path):
    process = start(
        '--hparams=filters=[8,16,16],dense_units=64,warmup_steps=50,learning_rate=0.005',
        '--train_steps=300',
        '--save_checkpoints_steps=200',
        is_fresh=True,
    )
    out, err = process.communicate()
    assert process.returncode == 0, err
    result = json.loads(out)
    assert out.count('\n') == 1
    assert result['global_step'] == 300
    assert result['eval']['accuracy'] > 0.95
    assert result['eval']['loss'] < 0.2
    assert json.loads((tmp_path / 'output' / 'results.json').read_text()) == result
    # In the Estimator's own format, each once, and nothing else that only TensorFlow's developers need.
    assert len(re.findall('INFO loss = .*, step = 0', err)) == 1
    assert len(re.findall(' INFO global_step/sec: ', err)) == 2
    assert re.findall(r'Saving dict for global step (\d+): accuracy = 0\.\d+, ', err) == ['200', '300']
    assert 'deprecated' not in err and 'WARNING' not in err and 'Warning' not in err and 'it/s' not in err
    assert all(
        re.match(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO ', line) and 'Using config' not in line for line in err.splitlines()
    )


def test_polynomial_learns_its_weights(run):
    code, result, _ = run(*POLYNOMIAL)
    assert code == 0
    np.testing.assert_allclose([result['eval'][f'w_{i}'] for i in range(3)], [5, 0, 3], atol=0.01)


@pytest.mark.parametrize('seed', [1, 2])
def test_polynomial_is_no_further_off_than_the_guide_after_its_schedule(run, seed):
    _, result, _ = run(
        *POLYNOMIAL,
        '--schedule=train_and_evaluate',
        '--train_steps=1000',
        f'--seed={seed}',
        '--hparams=learning_rate=0.1,learning_rate_schedule=constant,batch_size=100,optimizer=adam',
    )
    # The guide reports [4.99, 0.00, 3.45].
    assert abs(result['eval']['w_0'] - 5) <= 0.01
    assert abs(result['eval']['w_1']) <= 0.005
    assert abs(result['eval']['w_2'] - 3) <= 0.45


@pytest.mark.parametrize('model', MODELS)
def test_train_then_evaluate_equals_train_and_evaluate(run, tmp_path, model):
    both = run(*MODELS[model], '--train_steps=30', output_dir=tmp_path / 'both')
    trained = run(*MODELS[model], '--train_steps=30', '--schedule=train')
    evaluated = run(*MODELS[model], '--train_steps=30', '--schedule=evaluate')
    assert trained[:2] == (0, {'global_step': 30})
    assert evaluated[:2] == both[:2]
    assert set(both[1]) == {'global_step', 'eval'}
    assert json.loads((tmp_path / 'output' / 'results.json').read_text()) == evaluated[1]


@pytest.mark.parametrize('model', MODELS)
def test_dry_run_makes_a_step_of_each_and_keeps_nothing(run, tmp_path, model):
    code, result, err = run(*MODELS[model], '--schedule=dry_run')
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
    assert code == 1 and err.splitlines()[-1].startswith("TypeError: 'NoneType'")


def test_dry_run_finds_a_metric_that_is_not_there(run):
    code, _, err = run(*POLYNOMIAL, '--schedule=dry_run', '--best_metric=acuracy:max')
    assert code == 2 and '--best_metric=acuracy:max: there is no metric acuracy; the metrics are: ' in err


@pytest.mark.parametrize('model', MODELS)
def test_continuous_eval_follows_another_process_to_the_last_step(start, model, tmp_path):
    flags = (*MODELS[model], '--train_steps=60', '--save_checkpoints_steps=20', '--eval_steps=1')
    evaluation = start(*flags, '--schedule=continuous_eval')
    training = start(*flags, '--schedule=train')
    assert training.wait(timeout=60) == 0
    out, err = evaluation.communicate(timeout=60)
    assert evaluation.returncode == 0, err
    assert json.loads(out)['global_step'] == 60
    assert 'loss' in json.loads(out)['eval']
    assert rows(tmp_path / 'output' / 'metrics.csv')[-1]['global_step'] == '60'
    assert (tmp_path / 'output' / 'best' / 'best.json').exists()


def test_continuous_eval_says_what_it_waits_for_and_gives_up_in_the_end(run, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, '_REPORT_SECONDS', 1)
    flags = (*POLYNOMIAL, '--eval_steps=1')
    code, _, log = run(*flags, '--schedule=continuous_eval', '--train_steps=5', '--eval_timeout=3')
    assert code == 1
    assert re.search(
        rf'Still waiting for a checkpoint in {tmp_path}/output, for \d+ seconds; there has been none, and the '
        'training ends at step 5',
        log,
    )
    assert re.fullmatch(
        rf'trainer.py: {tmp_path}/output: no new checkpoint for \d+ seconds, and there has been none; the training '
        'was to end at step 5: .*',
        log.splitlines()[-1],
    )
    assert run(*flags, '--schedule=train', '--train_steps=3')[0] == 0
    code, _, log = run(*flags, '--schedule=continuous_eval', '--train_steps=5', '--eval_timeout=1')
    assert code == 1
    assert 'Saving dict for global step 3' in log
    assert f'the last one was {tmp_path}/output/model.ckpt-3; the training was to end at step 5' in log.splitlines()[-1]


def test_continuous_eval_passes_over_checkpoints_that_are_deleted(run, tmp_path, monkeypatch):
    flags = (*POLYNOMIAL, '--eval_steps=1', '--save_checkpoints_steps=1')
    assert run(*flags, '--schedule=train', '--train_steps=3', '--keep_checkpoint_max=1')[0] == 0
    output = str(tmp_path / 'output')
    paths = [f'{output}/model.ckpt-{step}' for step in (2, 3)]
    monkeypatch.setattr(tf.train, 'checkpoints_iterator', lambda *args, **kwargs: iter(paths))
    code, result, log = run(*flags, '--schedule=continuous_eval', '--train_steps=3')
    assert code == 0 and result['global_step'] == 3
    assert 'model.ckpt-2 was deleted before it could be evaluated' in log


def test_a_finished_training_says_so_and_is_evaluated(run):
    flags = (*POLYNOMIAL, '--eval_steps=1')
    assert run(*flags, '--train_steps=4')[0] == 0
    code, result, log = run(*flags, '--train_steps=3')
    assert code == 0 and result['global_step'] == 4 and 'loss' in result['eval']
    assert 'Nothing to train: step 4 is reached, and training ends at 3; raise --train_steps or --num_epochs' in log

"""The trainer from its command line to its result: every schedule, both models, stopping and going on."""

import csv
import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from common.inference.evaluator import Evaluator
from common.runs import schedules
from datasets import mnist
from datasets import polynomial as polynomial_dataset
from models import polynomial
from tests.conftest import ROOT, SMALL
from tests.weights import read_weights
import trainer

POLYNOMIAL = ('--model=polynomial', '--dataset=polynomial')
MODELS = {'alexnet': SMALL, 'polynomial': POLYNOMIAL}


def losses(log):
    return {int(step): float(loss) for loss, step in re.findall(r'loss = (\S+), step = (\d+)', log)}


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
    assert len(re.findall('INFO:tensorflow:loss = .*, step = 0', err)) == 1
    assert len(re.findall('INFO:tensorflow:global_step/sec: ', err)) == 2
    assert re.findall(r'Saving dict for global step (\d+): accuracy = 0\.\d+, ', err) == ['200', '300']
    assert 'deprecated' not in err and 'WARNING' not in err and 'Warning' not in err and 'it/s' not in err
    assert all(line.startswith('INFO:tensorflow:') and 'Using config' not in line for line in err.splitlines())


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
    monkeypatch.setattr(schedules, '_TELL_SECONDS', 1)
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


def test_predict_writes_a_line_for_every_example(run, tmp_path):
    run(*SMALL, '--train_steps=200', '--schedule=train')
    code, result, _ = run(*SMALL, '--schedule=predict')
    assert code == 0
    assert result == {'global_step': 200, 'predictions': str(tmp_path / 'output' / 'predictions.jsonl')}
    lines = [json.loads(line) for line in open(result['predictions'])]
    assert len(lines) == 10000
    for line in lines:
        assert set(line) == {'class', 'probabilities'}
        assert len(line['probabilities']) == 10 and abs(sum(line['probabilities']) - 1) < 1e-4
        assert line['class'] == np.argmax(line['probabilities'])
    # The same network as was evaluated: its accuracy on the first batch follows from the lines.
    _, evaluated, _ = run(*SMALL, '--schedule=evaluate')
    labels = mnist.read_idx('t10k-labels-idx1-ubyte')
    accuracy = np.mean([line['class'] == label for line, label in zip(lines[:1000], labels)])
    assert accuracy == pytest.approx(evaluated['eval']['accuracy'], abs=1e-6)
    assert accuracy > 0.5


def test_metrics_and_predictions_that_are_not_finite_are_json_all_the_same(run, capsys, data_dir, tmp_path, monkeypatch):
    def model(features, labels, mode, params):
        w = tf.get_variable('w', initializer=1.0)
        y = tf.where(features['x'] > 0, w / tf.zeros_like(features['x']), features['x'])
        return {'y': y}, None if labels is None else tf.square(w) + 0 * labels['y']

    monkeypatch.setattr(polynomial, 'model', model)
    monkeypatch.setattr(
        polynomial,
        'eval_metrics',
        lambda features, labels, predictions, params: {'largest': tf.metrics.mean(tf.reduce_max(predictions['y']))},
    )
    flags = ('trainer.py', *POLYNOMIAL, f'--data_dir={data_dir}', f'--output_dir={tmp_path}/output', '--train_steps=2')
    for schedule in ('train_and_evaluate', 'evaluate'):
        assert (
            trainer.main([*flags, f'--schedule={schedule}', *(['--best_metric=largest:max'] * (schedule != 'evaluate'))]) == 0
        )
        for text in (capsys.readouterr().out, (tmp_path / 'output' / 'results.json').read_text()):
            assert json.loads(text, parse_constant=pytest.fail)['eval']['largest'] == 'Infinity'
    best = json.loads((tmp_path / 'output' / 'best' / 'best.json').read_text(), parse_constant=pytest.fail)
    assert best['value'] == best['eval']['largest'] == 'Infinity'
    _, result, _ = run(*POLYNOMIAL, '--schedule=predict')
    lines = [json.loads(line, parse_constant=pytest.fail)['y'] for line in open(result['predictions'])]
    assert 0 < lines.count('Infinity') < len(lines) and all(y <= 0 for y in lines if y != 'Infinity')


def test_predict_of_the_training_split(run):
    run(*POLYNOMIAL, '--train_steps=2', '--schedule=train')
    _, result, _ = run(*POLYNOMIAL, '--schedule=predict', '--predict_split=train')
    lines = open(result['predictions']).read().splitlines()
    assert len(lines) == 100000
    assert set(json.loads(lines[0])) == {'y'}


def test_predict_classifies_image_files(run, tmp_path):
    images, labels = mnist.read_idx('t10k-images-idx3-ubyte')[:20], mnist.read_idx('t10k-labels-idx1-ubyte')[:20]
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f'{i:02d}.png')
    Image.fromarray(images[0]).convert('RGB').resize((280, 280), Image.Resampling.NEAREST).save(tmp_path / '20.png')
    run(*SMALL, '--train_steps=200', '--schedule=train')
    run(*SMALL, '--schedule=predict')
    of_split = [json.loads(line) for line in open(tmp_path / 'output' / 'predictions.jsonl')][:20]
    code, result, _ = run(*SMALL, '--schedule=predict', f'--input={tmp_path}/*.png')
    assert code == 0
    lines = [json.loads(line) for line in open(result['predictions'])]
    assert [line['input'] for line in lines] == [f'{tmp_path}/{i:02d}.png' for i in range(21)]
    for line, expected in zip(lines, of_split):
        assert line['class'] == expected['class']
        np.testing.assert_allclose(line['probabilities'], expected['probabilities'], atol=1e-4)
    assert lines[20]['class'] == lines[0]['class']
    assert np.mean([line['class'] == label for line, label in zip(lines, labels)]) > 0.7


def test_exported_alexnet_gives_the_numbers_of_predict(run, data_dir, tmp_path):
    run(*SMALL, '--train_steps=50', '--schedule=train', '--num_towers=2')
    run(*SMALL, '--schedule=predict')
    expected = [json.loads(line) for line in open(tmp_path / 'output' / 'predictions.jsonl')]
    code, result, _ = run(*SMALL, '--schedule=export', '--num_towers=2')
    assert code == 0 and result['export'].startswith(str(tmp_path / 'output' / 'export'))
    import tensorflow as tf2

    signatures = tf2.saved_model.load(result['export']).signatures
    images = mnist.read_idx('t10k-images-idx3-ubyte')
    for count in (1, 7):
        of_images = signatures['serving_default'](image=tf2.constant(images[:count, :, :, None]))
        records = tf2.constant([mnist.records.encode({'image': image.tobytes()}) for image in images[:count]])
        of_records = signatures['examples:serving_default'](examples=records)
        for outputs in (of_images, of_records):
            assert list(outputs['class'].numpy()) == [line['class'] for line in expected[:count]]
            np.testing.assert_allclose(
                outputs['probabilities'], [line['probabilities'] for line in expected[:count]], atol=1e-5
            )


def test_a_model_that_calls_python_is_not_exported(run, tmp_path, monkeypatch):
    (tmp_path / 'python_ops').mkdir()
    (tmp_path / 'python_ops' / 'model.py').write_text("""
import tensorflow.compat.v1 as tf
from common.ops.python_op import python_op

def get_params():
    return {}

def model(features, labels, mode, params):
    y = python_op(lambda x: x, lambda x, gradient: gradient)(tf.get_variable('w', initializer=1.0) * features['x'])
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])
""")
    monkeypatch.syspath_prepend(str(tmp_path))
    flags = ('--model=python_ops.model', '--dataset=polynomial')
    assert run(*flags, '--schedule=train', '--train_steps=2')[0] == 0
    assert run(*flags, '--schedule=predict')[0] == 0
    code, _, err = run(*flags, '--schedule=export')
    assert code == 2 and err.splitlines()[-1].startswith('trainer.py: --schedule=export: model/PyFunc is a Python function')
    assert not (tmp_path / 'output' / 'export').exists()


def test_exported_polynomial_gives_the_numbers_of_predict(run, tmp_path):
    run(*POLYNOMIAL, '--train_steps=50', '--schedule=train')
    _, result, _ = run(*POLYNOMIAL, '--schedule=export')
    w = read_weights(tmp_path / 'output')['w'][:, 0]
    import tensorflow as tf2

    from common.data import records

    signatures = tf2.saved_model.load(result['export']).signatures
    x = np.float32([-2, 0, 3])
    expected = w[0] * x**2 + w[1] * x + w[2]
    np.testing.assert_allclose(signatures['serving_default'](x=tf2.constant(x))['y'], expected, rtol=1e-5)
    examples = tf2.constant([records.encode({'x': float(value)}) for value in x])
    np.testing.assert_allclose(signatures['examples:serving_default'](examples=examples)['y'], expected, rtol=1e-5)


def test_towers_train_and_evaluate_as_none(run, tmp_path):
    flags = (*SMALL[:1], '--train_steps=5', '--save_summary_steps=1', '--eval_steps=3')
    _, expected, log = run(*flags, output_dir=tmp_path / '1')
    expected_losses, expected_weights = losses(log), read_weights(tmp_path / '1')
    assert len(expected_losses) == 5
    for towers in (2, 4):
        code, result, log = run(*flags, f'--num_towers={towers}', output_dir=tmp_path / str(towers))
        assert code == 0
        np.testing.assert_allclose(list(losses(log).values()), list(expected_losses.values()), rtol=1e-5)
        assert result['eval']['loss'] == pytest.approx(expected['eval']['loss'], rel=1e-4)
        found = read_weights(tmp_path / str(towers))
        assert set(found) == set(expected_weights)
        for name, value in found.items():
            np.testing.assert_allclose(value, expected_weights[name], atol=1e-4, err_msg=name)


@pytest.mark.skipif('avx512f' not in open('/proc/cpuinfo').read(), reason='this CPU does not compute with bfloat16')
def test_bfloat16_trains_nearly_as_float32_does_and_may_go_on_with_its_checkpoints(run, tmp_path):
    flags = (*SMALL[:1], '--train_steps=5', '--save_summary_steps=1', '--eval_steps=3')
    _, expected, log = run(*flags, output_dir=tmp_path / 'float32')
    expected_losses = list(losses(log).values())
    for towers in (1, 2):
        output_dir = tmp_path / str(towers)
        _, result, log = run(*flags, '--precision=bfloat16', f'--num_towers={towers}', output_dir=output_dir)
        np.testing.assert_allclose(list(losses(log).values()), expected_losses, rtol=0.02)
        assert list(losses(log).values()) != expected_losses
        assert result['eval']['loss'] == pytest.approx(expected['eval']['loss'], rel=0.02)
        assert all(value.dtype in (np.float32, np.int64) for value in read_weights(output_dir).values())
    flags = (SMALL[0], '--eval_steps=3', '--train_steps=40')
    code, result, _ = run(*flags, output_dir=output_dir)
    assert code == 0
    _, rounded, _ = run(*flags, '--precision=bfloat16', '--schedule=evaluate', output_dir=output_dir)
    assert rounded['eval']['loss'] == pytest.approx(result['eval']['loss'], rel=0.01)
    assert rounded['eval']['loss'] != result['eval']['loss']


def test_a_training_may_leave_float16_but_not_begin_it_midway(run, tmp_path, monkeypatch):
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind=None: ['GPU:0'])
    for precision in ('float32', 'float16'):
        assert (
            run(
                *POLYNOMIAL, '--schedule=train', '--train_steps=3', f'--precision={precision}', output_dir=tmp_path / precision
            )[0]
            == 0
        )
    checkpoint = tmp_path / 'float32' / 'model.ckpt-3'
    before = (tmp_path / 'float32' / 'model.ckpt-3.index').read_bytes()
    for schedule in ('train', 'train_and_evaluate'):
        code, _, err = run(
            *POLYNOMIAL, f'--schedule={schedule}', '--train_steps=6', '--precision=float16', output_dir=tmp_path / 'float32'
        )
        assert code == 1
        assert err.splitlines()[-1] == (
            f'trainer.py: {checkpoint}: was not trained with --precision=float16, and has no loss scale: use the '
            f'--precision it was trained with, or start from it in another --output_dir, with '
            f'--warm_start_from={checkpoint}'
        )
    assert (tmp_path / 'float32' / 'model.ckpt-3.index').read_bytes() == before
    assert run(*POLYNOMIAL, '--train_steps=6', output_dir=tmp_path / 'float16')[1]['global_step'] == 6
    assert run(*POLYNOMIAL, '--train_steps=4', '--precision=float16', f'--warm_start_from={checkpoint}')[1]['global_step'] == 4


def test_the_same_seed_repeats_a_run_and_another_does_not(run, tmp_path):
    flags = ('--hparams=filters=[4],dense_units=16,batch_size=32', '--train_steps=20', '--schedule=train')
    for name, seed in (('a', 1), ('b', 1), ('c', 2)):
        run(*flags, f'--seed={seed}', output_dir=tmp_path / name)
    a, b, c = (read_weights(tmp_path / name) for name in 'abc')
    assert all((a[name] == b[name]).all() for name in a)
    assert (a['dense/kernel'] != c['dense/kernel']).any()


@pytest.mark.parametrize('number, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_goes_on_as_if_nothing_had_been(start, run, tmp_path, number, code):
    # With dropout and shifts on, whose draws must come again as well.
    flags = (
        '--hparams=filters=[4],dense_units=16,batch_size=32',
        '--train_steps=1200',
        '--schedule=train',
        '--save_checkpoints_steps=500',
    )
    process = start(*flags)
    for line in process.stderr:
        if 'step = 100 ' in line:
            process.send_signal(number)
            break
    out, err = process.communicate()
    assert process.returncode == code and out == ''
    assert 'the same command goes on from there' in err
    stopped_at = int(tf.train.load_variable(str(tmp_path / 'output'), 'global_step'))
    assert 100 < stopped_at < 1200
    exit_code, result, log = run(*flags)
    assert (exit_code, result) == (0, {'global_step': 1200})
    assert min(losses(log)) == stopped_at
    run(*flags, output_dir=tmp_path / 'undisturbed')
    found, expected = read_weights(tmp_path / 'output'), read_weights(tmp_path / 'undisturbed')
    assert all((found[name] == expected[name]).all() for name in expected)


def test_a_finished_run_is_evaluated_again_and_a_longer_one_goes_on(run):
    flags = SMALL
    first = run(*flags, '--train_steps=10')
    again = run(*flags, '--train_steps=10')
    assert again[:2] == first[:2] == (0, first[1])
    assert run(*flags, '--train_steps=15')[1]['global_step'] == 15


def test_other_hparams_in_the_same_directory_are_refused_with_both_values(run):
    assert run(*POLYNOMIAL, '--train_steps=2', '--schedule=train')[0] == 0
    for schedule in ('train', 'evaluate', 'predict', 'export', 'train_and_evaluate'):
        code, result, err = run(*POLYNOMIAL, f'--schedule={schedule}', '--hparams=batch_size=50,num_samples=7')
        assert code == 2 and result is None
        assert 'batch_size was 100, now it is 50; num_samples was 100000, now it is 7' in err
    code, _, err = run(*SMALL, '--schedule=train')
    assert code == 2 and 'model was "polynomial", now it is "alexnet"' in err
    assert run(*POLYNOMIAL, '--seed=2')[0] == 2


def test_the_size_of_evaluation_batches_may_change_after_training_only(run):
    flags = (*POLYNOMIAL, '--train_steps=2', '--hparams=eval_batch_size=10')
    _, trained, _ = run(*POLYNOMIAL, '--train_steps=2')
    code, evaluated, _ = run(*flags, '--schedule=evaluate')
    assert code == 0 and evaluated['eval']['loss'] == pytest.approx(trained['eval']['loss'], rel=1e-4)
    assert run(*flags)[0] == 2


def test_hparams_may_change_as_long_as_nothing_was_trained(run):
    assert run(*POLYNOMIAL, '--hparams=batch_size=101', '--num_towers=2')[0] == 2
    assert run(*POLYNOMIAL, '--hparams=batch_size=102', '--num_towers=2', '--train_steps=1')[0] == 0


def test_everything_goes_through_gfile(run):
    # TensorFlow's file system in memory stands for a remote one.
    flags = (*SMALL, '--train_steps=4', '--data_dir=ram://data')
    code, result, _ = run(*flags, output_dir='ram://output/here')
    assert code == 0 and result['global_step'] == 4
    for schedule in ('evaluate', 'predict', 'export'):
        assert run(*flags, f'--schedule={schedule}', output_dir='ram://output/here')[0] == 0
    with tf.io.gfile.GFile('ram://output/here/predictions.jsonl') as file:
        assert len(file.read().splitlines()) == 10000
    assert run(*flags, '--hparams=batch_size=8', output_dir='ram://output/here')[0] == 2


def test_a_models_own_bounds_are_one_line(run):
    code, _, err = run('--hparams=drop_rate=1.0', '--schedule=dry_run')
    assert code == 2 and err.splitlines()[-1].startswith('trainer.py: drop_rate=1.0 must be at least 0 and less than 1')


@pytest.mark.parametrize('content', [None, '', 'garbage', 'model_checkpoint_path: "model.ckpt-99"'])
def test_a_lost_checkpoint_state_never_starts_again_from_nothing(run, tmp_path, content):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=3')[0] == 0
    state = tmp_path / 'output' / 'checkpoint'
    for schedule, step in (('evaluate', 3), ('predict', 3), ('train', 5), ('train_and_evaluate', 6)):
        state.unlink(missing_ok=True)
        if content is not None:
            state.write_text(content)
        code, result, err = run(*POLYNOMIAL, f'--schedule={schedule}', f'--train_steps={step}')
        assert code == 0 and result['global_step'] == step
        assert ('Going on from ' in err) == schedule.startswith('train')


def test_the_saved_hparams_bring_their_seed(run, tmp_path):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=3', '--seed=5')[0] == 0
    assert run(*POLYNOMIAL, '--schedule=evaluate')[0] == 2
    saved = f'--hparams_set={tmp_path}/output/hparams.json'
    assert run(*POLYNOMIAL, '--schedule=evaluate', saved)[0] == 0
    assert run(*POLYNOMIAL, '--schedule=evaluate', saved, '--seed=6')[0] == 2


def test_epochs_and_steps_end_the_training(run, tmp_path):
    flags = (*POLYNOMIAL, '--schedule=train', '--hparams=num_samples=1000,batch_size=64')
    assert run(*flags, '--num_epochs=1.5', output_dir=tmp_path / 'a')[1] == {'global_step': 24}  # 1500 / 64, rounded up.
    assert run(*flags, '--num_epochs=1.5', '--train_steps=5', output_dir=tmp_path / 'b')[1] == {'global_step': 5}


def test_the_flags_of_checkpoints_and_summaries_do_what_they_say(run, tmp_path):
    _, _, log = run(
        *POLYNOMIAL,
        '--schedule=train',
        '--train_steps=20',
        '--save_checkpoints_steps=4',
        '--keep_checkpoint_max=2',
        '--save_summary_steps=5',
    )
    assert sorted(path.name for path in (tmp_path / 'output').glob('*.index')) == [
        'model.ckpt-16.index',
        'model.ckpt-20.index',
    ]
    assert sorted(losses(log)) == [0, 5, 10, 15]


def rows(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_evaluations_at_their_own_steps_on_several_splits(run, tmp_path):
    flags = (*POLYNOMIAL, '--eval_every_steps=6', '--save_checkpoints_steps=10', '--eval_splits=eval,train', '--eval_steps=2')
    code, result, log = run(*flags, '--train_steps=15')
    assert code == 0 and set(result) == {'global_step', 'eval', 'train'} and result['global_step'] == 15
    assert re.findall(r'Saving dict for global step (\d+)', log) == ['6', '6', '12', '12', '15', '15']
    assert sorted(path.name for path in (tmp_path / 'output').glob('*.index')) == sorted(
        f'model.ckpt-{step}.index' for step in (0, 6, 10, 12, 15)
    )
    table = rows(tmp_path / 'output' / 'metrics.csv')
    assert [(row['global_step'], row['split']) for row in table] == [
        (step, split) for step in ('6', '12', '15') for split in ('eval', 'train')
    ]
    for split, row in (('eval', table[-2]), ('train', table[-1])):
        assert {name: float(row[name]) for name in result[split]} == result[split]
    assert result['eval']['loss'] != result['train']['loss']
    # A restart evaluates at the same steps; the row of a step that comes again takes the place of the old one.
    assert run(*flags, '--train_steps=18')[0] == 0
    assert [row['global_step'] for row in rows(tmp_path / 'output' / 'metrics.csv')][::2] == ['6', '12', '15', '18']
    assert run(*flags, '--schedule=evaluate')[0] == 0
    assert len(rows(tmp_path / 'output' / 'metrics.csv')) == 8


def test_the_best_checkpoint_is_kept_across_restarts_and_can_be_asked(run, tmp_path):
    # A rate that is much too large after the third step makes the loss worse and worse.
    flags = (
        *POLYNOMIAL,
        '--save_checkpoints_steps=1',
        '--keep_checkpoint_max=2',
        '--eval_steps=2',
        '--hparams=optimizer=sgd,learning_rate=1e-5,learning_rate_schedule=piecewise,piecewise_boundaries=[3],'
        'piecewise_factors=[100.0],warmup_steps=0',
    )
    assert run(*flags, '--train_steps=5')[0] == 0
    code, last, _ = run(*flags, '--train_steps=7')
    losses_by_step = {int(row['global_step']): float(row['loss']) for row in rows(tmp_path / 'output' / 'metrics.csv')}
    best = min(losses_by_step, key=losses_by_step.get)
    assert code == 0 and best == 3 and sorted(losses_by_step) == [1, 2, 3, 4, 5, 6, 7]
    assert sorted(path.name for path in (tmp_path / 'output').glob('*.index')) == ['model.ckpt-6.index', 'model.ckpt-7.index']

    by_checkpoint = {
        name: run(*flags, '--schedule=evaluate', f'--checkpoint={name}')[1]
        for name in ('best', 'latest', f'{tmp_path}/output/model.ckpt-6.index')
    }
    assert [result['global_step'] for result in by_checkpoint.values()] == [3, 7, 6]
    assert by_checkpoint['best']['eval']['loss'] == losses_by_step[3]
    assert by_checkpoint['latest'] == last
    predicted = {}
    for name in ('best', 'latest'):
        code, result, _ = run(*flags, '--schedule=predict', f'--checkpoint={name}')
        assert code == 0 and result['global_step'] == {'best': 3, 'latest': 7}[name]
        predicted[name] = open(result['predictions']).readline()
        assert run(*flags, '--schedule=export', f'--checkpoint={name}')[1]['global_step'] == result['global_step']
    assert predicted['best'] != predicted['latest']
    code, _, err = run(*flags, '--schedule=evaluate', '--checkpoint=nosuch')
    assert code == 2 and '--checkpoint=nosuch: no such checkpoint; available: best, latest, ' in err.splitlines()[-1]
    assert f'{tmp_path}/output/model.ckpt-6, {tmp_path}/output/model.ckpt-7' in err.splitlines()[-1]


def test_training_ends_early_where_nothing_better_comes_and_a_restart_knows(run, tmp_path):
    flags = (
        *POLYNOMIAL,
        '--eval_every_steps=2',
        '--eval_steps=2',
        '--train_steps=40',
        '--early_stopping_patience=3',
        '--best_metric=mean_absolute_error:min',
        '--hparams=optimizer=sgd,learning_rate=1e-5,learning_rate_schedule=piecewise,piecewise_boundaries=[5],'
        'piecewise_factors=[0.0]',
    )
    code, result, log = run(*flags)
    # The weights stand still from step 5 on: step 6 is the last that is better than the one before.
    assert code == 0 and result['global_step'] == 12
    assert log.count('Stopping early: mean_absolute_error has not improved for 3 evaluations (--early_stopping_pat') == 1
    code, again, log = run(*flags)
    assert code == 0 and again == result and 'loss = ' not in re.sub('Saving dict.*', '', log)
    code, more, _ = run(*flags[:4], '--train_steps=40', *flags[5:-2], flags[-2], flags[-1], '--early_stopping_patience=5')
    assert code == 0 and more['global_step'] == 16


def test_early_stopping_wants_a_least_gain_and_judges_the_first_split(run):
    flags = (
        *POLYNOMIAL,
        '--eval_splits=eval,train',
        '--eval_every_steps=2',
        '--eval_steps=2',
        '--train_steps=40',
        '--early_stopping_patience=2',
        '--hparams=optimizer=sgd,learning_rate=1e-7',
    )
    assert run(*flags, '--early_stopping_min_delta=1e6')[1]['global_step'] == 6


def test_a_run_that_was_only_trained_is_evaluated_and_its_best_kept(run):
    flags = (*POLYNOMIAL, '--train_steps=4', '--eval_steps=1')
    assert run(*flags, '--schedule=train')[0] == 0
    code, result, _ = run(*flags)
    assert code == 0 and result['global_step'] == 4
    assert run(*flags, '--schedule=evaluate', '--checkpoint=best')[1] == result


def test_an_evaluation_that_was_missed_is_made_up_for(run, tmp_path, monkeypatch):
    flags = (*POLYNOMIAL, '--eval_every_steps=5', '--save_checkpoints_steps=5', '--eval_steps=1')

    def steps():
        return [row['global_step'] for row in rows(tmp_path / 'output' / 'metrics.csv')]

    with monkeypatch.context() as context:  # As if the process were killed in the evaluation of step 10.
        context.setattr(
            Evaluator,
            'evaluate',
            lambda self, path, whole=Evaluator.evaluate: whole(self, path) if not path.endswith('-10') else 1 / 0,
        )
        assert run(*flags, '--train_steps=20')[0] == 1
    assert steps() == ['5']
    assert run(*flags, '--train_steps=20')[0] == 0
    assert steps() == ['5', '10', '15', '20']


def test_another_trainings_checkpoint_leaves_the_table_of_metrics_alone(run, tmp_path):
    flags = (*POLYNOMIAL, '--train_steps=4', '--eval_steps=1')
    other = str(tmp_path / 'other')
    assert run(*flags)[0] == 0 and run(*flags, '--seed=5', output_dir=other)[0] == 0
    before = (tmp_path / 'output' / 'metrics.csv').read_text()
    code, result, _ = run(*flags, '--schedule=evaluate', f'--checkpoint={other}/model.ckpt-4')
    assert code == 0 and result['eval']['loss'] != float(rows(tmp_path / 'output' / 'metrics.csv')[0]['loss'])
    assert (tmp_path / 'output' / 'metrics.csv').read_text() == before


def test_a_run_of_an_older_framework_goes_on(run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=2')[0] == 0
    path = tmp_path / 'output' / 'hparams.json'
    saved = json.loads(path.read_text())
    del saved['ema_decay'], saved['piecewise_factors']
    path.write_text(json.dumps(saved))
    assert run(*POLYNOMIAL, '--train_steps=3')[0] == 0
    code, _, err = run(*POLYNOMIAL, '--train_steps=4', '--hparams=ema_decay=0.5')
    assert code == 2 and 'ema_decay was' in err


def test_overfitting_sees_the_first_batches_only_and_learns_them_by_heart(run, tmp_path, monkeypatch):
    seen = set()
    parse_batch = mnist.parse_batch

    def note(mode, params, serialized):
        features, labels = parse_batch(mode, params, serialized)
        if mode == tf.estimator.ModeKeys.TRAIN:
            sums = tf.py_func(lambda x: seen.update(x.tolist()) or x, [tf.reduce_sum(features['image'], [1, 2, 3])], tf.float32)
            with tf.control_dependencies([sums]):
                labels = {'label': tf.identity(labels['label'])}
        return features, labels

    monkeypatch.setattr(mnist, 'parse_batch', note)
    code, _, log = run(
        f'{SMALL[0]},learning_rate=0.01',
        '--schedule=train',
        '--train_steps=300',
        '--overfit_batches=2',
        '--save_summary_steps=10',
    )
    assert code == 0 and len(seen) == 64
    by_step = losses(log)
    assert by_step[0] > 2 and by_step[290] < 0.01


def test_a_finished_training_says_so_and_is_evaluated(run):
    flags = (*POLYNOMIAL, '--eval_steps=1')
    assert run(*flags, '--train_steps=4')[0] == 0
    code, result, log = run(*flags, '--train_steps=3')
    assert code == 0 and result['global_step'] == 4 and 'loss' in result['eval']
    assert 'Nothing to train: step 4 has been reached, and training ends at 3; raise --train_steps or --num_epochs' in log


@pytest.mark.parametrize('steps, count', [('3:5', 2), ('4:50', 2)])
def test_the_chosen_steps_are_profiled(run, tmp_path, steps, count):
    assert run(*SMALL, '--schedule=train', '--train_steps=6', f'--profile_steps={steps}')[0] == 0
    (profile,) = (tmp_path / 'output').glob('plugins/profile/*/*.xplane.pb')
    names = [
        plane.event_metadata[event.metadata_id].name
        for plane in XSpace.FromString(profile.read_bytes()).planes
        for line in plane.lines
        for event in line.events
    ]
    assert sum(name.startswith(('model/dense_1/MatMul:', 'model/dense_1/BiasAdd:')) for name in names) == count


def test_the_log_opens_with_the_model(run):
    _, _, log = run(*SMALL, '--schedule=dry_run')
    assert re.search(r'INFO:tensorflow:Input image: float32 \(None, 28, 28, 1\)', log)
    assert re.search(r'INFO:tensorflow:dense_1/kernel +\(16, 10\) +160\n', log)
    # By hand: 3x3x1x4 + 4, 3x3x4x8 + 8, 72x16 + 16, 16x10 + 10; 28 becomes 14, then 7, then no more.
    assert f'{40 + 296 + 7 * 7 * 8 * 16 + 16 + 170:,}' in re.search(r'INFO:tensorflow:total +([\d,]+)', log).group(1)


def test_the_default_directories_follow_from_the_names(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert trainer.main(['trainer.py', *POLYNOMIAL, '--train_steps=2', '--schedule=train']) == 0
    assert (tmp_path / 'output' / 'polynomial' / 'polynomial' / 'hparams.json').exists()


def test_a_set_by_path_and_by_name(run, tmp_path):
    (tmp_path / 'mine.json').write_text('{"batch_size": 7, "train_steps": 3}')
    run(*POLYNOMIAL, '--schedule=train', f'--hparams_set={tmp_path}/mine.json')
    saved = json.loads((tmp_path / 'output' / 'hparams.json').read_text())
    assert (saved['batch_size'], saved['train_steps'], saved['learning_rate_schedule']) == (7, 3, 'constant')
    run(*POLYNOMIAL, '--schedule=train', '--train_steps=2', output_dir=tmp_path / 'by_name')
    saved = json.loads((tmp_path / 'by_name' / 'hparams.json').read_text())
    assert (saved['batch_size'], saved['train_steps'], saved['learning_rate_schedule']) == (100, 2, 'cosine')


def test_progress_bars_are_drawn_on_a_terminal(tmp_path):
    output = run_on_terminal(tmp_path, '--train_steps=300', '--save_checkpoints_steps=300')
    assert re.search(r'Training: +\d+%', output)
    assert re.search(r'\d+it/s, epoch=\d\.\d\d, examples/sec=\d+, loss=\d', output)
    assert output.count('INFO:tensorflow:loss = ') == 3  # The lines are still there, each once.


def run_on_terminal(tmp_path, *flags):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 120, 0, 0))
        os.execv(sys.executable, [sys.executable, os.path.join(ROOT, 'trainer.py'), *POLYNOMIAL, *flags])
    output = b''
    while True:
        try:
            output += os.read(terminal, 4096)
        except OSError:  # The other end has closed.
            break
    assert os.waitpid(pid, 0)[1] == 0, output
    return output.decode()


def test_help_lists_every_flag_in_groups(capsys):
    assert trainer.main(['trainer.py', '--help']) == 0
    out = capsys.readouterr().out
    for name in (
        'model',
        'dataset',
        'schedule',
        'output_dir',
        'data_dir',
        'hparams',
        'hparams_set',
        'train_steps',
        'num_epochs',
        'eval_steps',
        'save_checkpoints_steps',
        'save_summary_steps',
        'keep_checkpoint_max',
        'num_gpus',
        'num_towers',
        'seed',
        'input',
        'predict_split',
        'eval_every_steps',
        'eval_splits',
        'best_metric',
        'early_stopping_patience',
        'early_stopping_min_delta',
        'checkpoint',
        'overfit_batches',
        'profile_steps',
        'warm_start_from',
        'freeze',
    ):
        assert re.search(rf'--(\[no\])?{name}:', out), name
    assert out.index('What to run:') < out.index('--model:') < out.index('How it runs:') < out.index('--num_gpus:')


STEPS, INT32 = 2**63 - 1, 2**31 - 1
LARGEST = {
    'train_steps': INT32,
    'save_checkpoints_steps': STEPS,
    'save_summary_steps': STEPS,
    'keep_checkpoint_max': INT32,
    'num_gpus': 1024,
    'num_towers': 1024,
    'steps_per_loop': INT32,
    'inter_op_threads': 1024,
    'intra_op_threads': 1024,
    'overfit_batches': STEPS,
    'eval_every_steps': STEPS,
    'eval_steps': STEPS,
    'early_stopping_patience': STEPS,
}
ZERO_IS_ALLOWED = (
    'keep_checkpoint_max',
    'num_gpus',
    'inter_op_threads',
    'intra_op_threads',
    'overfit_batches',
    'eval_steps',
    'early_stopping_patience',
)
WRONG = [
    (['--model=nosuch'], 2, '--model=nosuch: no module models.nosuch; the models here are: alexnet, '),
    (['--dataset=nosuch'], 2, '--dataset=nosuch: no module datasets.nosuch; the datasets here are: '),
    (['--modle=alexnet'], 2, "Unknown command line flag 'modle'. Did you mean: model"),
    (['--hparams=batch_sise=3'], 2, '--hparams: unknown hyper-parameter batch_sise, did you mean batch_size?'),
    (['--hparams=batch_size=x'], 2, '--hparams: batch_size=x must be an integer'),
    (['--hparams=optimizer=ftrl'], 2, 'optimizer=ftrl needs a constant learning rate'),
    (['--hparams=optimizer=lion'], 2, 'optimizer=lion is not one of adam, adamw, adagrad, ftrl, momentum, rmsprop, sgd'),
    (['--hparams=learning_rate_schedule=up'], 2, 'learning_rate_schedule=up is not one of constant'),
    (['--hparams_set=nosuch'], 2, '--hparams_set=nosuch: no file'),
    (['--schedule=nosuch'], 2, '--schedule=nosuch: value should be one of <train_and_evaluate|train|evaluate'),
    (['--train_steps=x'], 2, "flag --train_steps=x: invalid literal for int() with base 10: 'x'"),
    (['--train_steps=0'], 2, 'flag --train_steps=0'),
    (['--num_epochs=-1'], 2, 'flag --num_epochs=-1'),
    (['--eval_steps=-1'], 2, 'flag --eval_steps=-1'),
    (['--eval_every_steps=0'], 2, 'flag --eval_every_steps=0'),
    (['--eval_splits='], 2, '--eval_splits=: a name is empty'),
    (['--eval_splits=eval,'], 2, '--eval_splits=eval,: a name is empty'),
    ([*POLYNOMIAL, '--eval_splits=test', '--eval_steps=1'], 2, '--dataset=polynomial: unknown split test'),
    ([*POLYNOMIAL, '--eval_splits=test', '--schedule=dry_run'], 2, '--dataset=polynomial: unknown split test'),
    (['--best_metric=loss:min', '--schedule=train'], 2, '--best_metric requires --schedule=train_and_evaluate or '),
    (['--early_stopping_patience=1', '--schedule=train'], 2, '--early_stopping_patience requires --schedule=train_and_'),
    (['--eval_splits=test'], 2, 'manifest.json: unknown split test; available: train, eval'),
    ([*POLYNOMIAL, '--eval_splits=eval,test'], 2, '--dataset=polynomial: unknown split test'),
    (['--best_metric=accuracy'], 2, '--best_metric=accuracy is not of the form METRIC:min or METRIC:max'),
    (
        ['--best_metric=acuracy:max'],
        2,
        '--best_metric=acuracy:max: there is no metric acuracy; the metrics are: accuracy, loss',
    ),
    (['--best_metric=confusion_matrix:max'], 2, 'there is no metric confusion_matrix; the metrics are: accuracy, loss'),
    (['--early_stopping_patience=-1'], 2, 'flag --early_stopping_patience=-1'),
    (['--early_stopping_min_delta=-1'], 2, 'flag --early_stopping_min_delta=-1'),
    (['--profile_steps=10'], 2, '--profile_steps=10 is not of the form FIRST:END, FIRST < END, such as 100:110'),
    (['--profile_steps=10:10'], 2, '--profile_steps=10:10 is not of the form'),
    (['--overfit_batches=-1'], 2, 'flag --overfit_batches=-1'),
    (['--checkpoint=best'], 2, '--checkpoint requires --schedule=evaluate or predict or export, not train_and_evaluate'),
    (['--hparams=ema_decay=1.0'], 2, 'ema_decay=1.0 must be less than 1'),
    (['--hparams=piecewise_boundaries=[5]'], 2, 'piecewise_boundaries=[5] must be steps in ascending order'),
    (['--save_checkpoints_steps=0'], 2, 'flag --save_checkpoints_steps=0'),
    (['--save_summary_steps=0'], 2, 'flag --save_summary_steps=0'),
    (['--keep_checkpoint_max=-1'], 2, 'flag --keep_checkpoint_max=-1'),
    (['--num_gpus=-1'], 2, 'flag --num_gpus=-1'),
    (['--num_gpus=99'], 2, '--num_gpus=99: this machine has '),
    (['--num_towers=0'], 2, 'flag --num_towers=0'),
    (
        ['--num_towers=3'],
        2,
        'batch_size=128 is not divisible by 3 towers: use --hparams=batch_size=126 or 129',
    ),
    (['--num_epochs=0'], 2, 'num_epochs=0.0 leaves nothing to train'),
    (['--xla'], 2, '--xla compiles for GPUs, of which TensorFlow sees none here'),
    (['--precision=float8'], 2, '--precision=float8: value should be one of <float32|bfloat16|float16>'),
    (['--intra_op_threads=-1'], 2, 'flag --intra_op_threads=-1'),
    (['--output_dir=a[1]'], 2, '--output_dir=a[1]: TensorFlow reads * ? [ ] \\ as glob patterns'),
    (['--hparams=image_size=14'], 2, '--dataset=mnist has image_size=28'),
    ([*POLYNOMIAL, '--hparams=num_samples=9'], 2, 'num_samples=9 must be from 10 to 10000000'),
    (['--seed=-1'], 2, 'flag --seed=-1'),
    (['--seed=99999999999'], 2, 'flag --seed=99999999999'),
    (['--output_dir='], 2, '--output_dir is empty'),
    (['--data_dir='], 2, '--data_dir is empty'),
    (['--schedule=evaluate'], 2, 'contains no checkpoint: train first'),
    (['--schedule=predict'], 2, 'contains no checkpoint: train first'),
    (['--schedule=export'], 2, 'contains no checkpoint: train first'),
    (['--predict_split=test'], 2, '--predict_split=test: value should be one of <train|eval>'),
    (['--input=*.png'], 2, '--input requires --schedule=predict, not train_and_evaluate'),
    (['--predict_split=train', '--schedule=train'], 2, '--predict_split requires --schedule=predict, not train'),
    (['nonsense'], 2, 'nonsense: every argument is a flag'),
    (['--output_dir=/dev/null/x'], 2, '--output_dir=/dev/null/x: cannot be written'),
    (['--output_dir=/proc/output'], 2, '--output_dir=/proc/output: cannot be written'),
    (['--output_dir=/dev/null'], 2, '--output_dir=/dev/null: cannot be written'),
    (['--data_dir=/dev/null'], 1, '/dev/null/mnist: cannot be written'),
    (['--num_epochs=nan'], 2, '--num_epochs=nan must be a finite number'),
    (['--num_epochs=inf'], 2, '--num_epochs=inf must be a finite number'),
    (['--num_epochs=1e308'], 2, 'num_epochs=1e+308 makes more than 9223372036854775807 steps: give fewer'),
    (['--num_epochs=2e16', *POLYNOMIAL], 2, 'num_epochs=2e+16 makes more than 9223372036854775807 steps: give fewer'),
    (['--early_stopping_min_delta=nan'], 2, '--early_stopping_min_delta=nan must be a finite number'),
    (['--early_stopping_min_delta=inf'], 2, '--early_stopping_min_delta=inf must be a finite number'),
    (
        ['--profile_steps=1:9223372036854775808'],
        2,
        '--profile_steps=1:9223372036854775808: there are at most 9223372036854775807 ',
    ),
    ([f'--profile_steps={"9" * 5000}:1'], 2, ': there are at most 9223372036854775807 steps'),
    *(
        (
            [f'--{name}={LARGEST[name] + 1}'],
            2,
            f'flag --{name}={LARGEST[name] + 1}: {LARGEST[name] + 1} is not an integer in the '
            f'range [{0 if name in ZERO_IS_ALLOWED else 1}, {LARGEST[name]}]',
        )
        for name in LARGEST
    ),
]


@pytest.mark.parametrize('flags, code, message', WRONG, ids=[' '.join(row[0])[:80] for row in WRONG])
def test_wrong_usage_is_one_line_that_names_it(run, tmp_path, flags, code, message):
    found, result, err = run(*flags)
    lines = [line for line in err.splitlines() if not line.startswith('INFO:')]
    assert (found, result) == (code, None)
    assert len(lines) == 1
    assert lines[0].startswith('trainer.py: ') and message in lines[0]
    assert not list(tmp_path.glob('**/model.ckpt*'))


@pytest.mark.parametrize(
    'names',
    [
        [
            'save_checkpoints_steps',
            'save_summary_steps',
            'keep_checkpoint_max',
            'overfit_batches',
            'eval_every_steps',
            'eval_steps',
            'early_stopping_patience',
        ],
        ['steps_per_loop', 'save_checkpoints_steps', 'save_summary_steps', 'eval_every_steps'],
        ['inter_op_threads', 'intra_op_threads'],
    ],
)
def test_the_largest_numbers_that_flags_take_are_no_mistake(run, names):
    code, result, _ = run(*POLYNOMIAL, '--train_steps=3', *(f'--{name}={LARGEST[name]}' for name in names))
    assert code == 0
    assert result == run(*POLYNOMIAL, '--train_steps=3', '--schedule=evaluate')[1]


@pytest.mark.parametrize('schedule', ['cosine', 'one_cycle'])
def test_a_training_of_nearly_as_many_steps_as_there_are_numbers_can_begin(run, schedule):
    code, result, _ = run(
        *POLYNOMIAL,
        '--num_epochs=9.2e15',
        f'--hparams=learning_rate_schedule={schedule}',
        '--eval_steps=1',
        '--eval_every_steps=2',
        '--early_stopping_patience=1',
        '--early_stopping_min_delta=1e308',
    )
    assert code == 0 and result['global_step'] == 4


def test_all_batches_of_an_endless_dataset_can_be_asked_for(run, monkeypatch):
    read = polynomial_dataset.read
    monkeypatch.setattr(polynomial_dataset, 'read', lambda *args: read(*args).repeat())
    assert (
        run(*POLYNOMIAL, '--schedule=train', '--train_steps=3', '--hparams=cache=false', f'--overfit_batches={STEPS}')[0] == 0
    )


@pytest.mark.parametrize(
    'flag, schedule',
    [
        ('output_dir', 'train'),
        ('output_dir', 'evaluate'),
        ('output_dir', 'continuous_eval'),
        ('output_dir', 'predict'),
        ('output_dir', 'export'),
        ('data_dir', 'dry_run'),
        ('data_dir', 'train_and_evaluate'),
        ('warm_start_from', 'train'),
        ('hparams_set', 'train'),
        ('checkpoint', 'evaluate'),
        ('input', 'predict'),
    ],
)
@pytest.mark.parametrize('scheme', ['s3', 'hdfs', 'http', 'foo'])
def test_a_file_system_that_tensorflow_has_not_is_named_before_anything_is_made(run, tmp_path, flag, schedule, scheme):
    path = f'{scheme}://bucket/x.json'
    code, _, err = run(*POLYNOMIAL, f'--schedule={schedule}', f'--data_dir={tmp_path}/data', f'--{flag}={path}')
    assert code == 2
    assert err == (
        f'trainer.py: --{flag}={path}: this TensorFlow has no file system {scheme}:// (it has file://, gs://, ram://): '
        'mount it as a directory and give that path\n'
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('schedule', ['evaluate', 'predict', 'export'])
def test_asking_a_directory_that_is_not_there_does_not_make_it(run, tmp_path, schedule):
    assert run(f'--schedule={schedule}')[0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    'flags, message',
    [
        ([*SMALL, '--input=nothing*.png'], '--input=nothing*.png: no such file'),
        ([*SMALL, '--input={tmp}/text.png'], 'text.png is not an image of a kind that Pillow reads'),
        ([*POLYNOMIAL, '--input={tmp}/*.png'], '--input: --dataset=polynomial has no images'),
    ],
)
def test_wrong_images_are_named(run, tmp_path, flags, message):
    (tmp_path / 'text.png').write_text('no image')
    model = flags[:2]
    assert run(*model, '--train_steps=1', '--schedule=train')[0] == 0
    code, _, err = run(*[flag.format(tmp=tmp_path) for flag in flags], '--schedule=predict')
    assert code == 2
    assert message in err.splitlines()[-1]


def test_wrong_usage_ends_a_process_without_a_traceback(start):
    for flag in ('--modle=x', '--hparams=batch_size=x', '--hparams=\udce4=1', '--output_dir=\udce4'):
        process = start(flag, is_fresh=flag == '--modle=x')
        out, err = process.communicate()
        assert process.returncode == 2 and out == ''
        assert len(err.splitlines()) == 1 and 'Traceback' not in err


def test_damaged_data_fails_with_the_files_name(run, data_dir, tmp_path):
    (tmp_path / 'data' / 'mnist').mkdir(parents=True)
    (tmp_path / 'data' / 'mnist' / 'manifest.json').write_text('{}')
    code, _, err = run('--schedule=train', f'--data_dir={tmp_path}/data')
    assert code == 1
    assert err.splitlines()[-1].startswith(f'trainer.py: {tmp_path}/data/mnist/manifest.json: ')


def test_a_second_training_is_refused_and_a_dead_ones_place_is_taken(start, run, tmp_path):
    flags = (*POLYNOMIAL, '--schedule=train', '--hparams=learning_rate_schedule=constant', '--save_checkpoints_steps=200')
    first = start(*flags, '--train_steps=1000000')
    for line in first.stderr:
        if 'step = 300 ' in line:
            break
    code, _, err = run(*flags, '--train_steps=1000000')
    assert code == 1
    assert re.search(rf'trainer.py: --output_dir=.*: process {first.pid} on .* is training there', err.splitlines()[-1])
    assert first.poll() is None
    first.kill()
    first.wait()
    reached = int(tf.train.latest_checkpoint(str(tmp_path / 'output')).rpartition('-')[2])
    code, result, _ = run(*flags, f'--train_steps={reached + 5}')
    assert (code, result) == (0, {'global_step': reached + 5})


@pytest.mark.skipif(not os.path.exists('/proc/net/tcp'), reason='sockets are looked up in /proc')
def test_a_training_on_one_machine_listens_on_no_port(start):
    process = start(*POLYNOMIAL, '--schedule=train', '--hparams=learning_rate_schedule=constant', '--train_steps=1000000')
    for line in process.stderr:
        if 'step = 100 ' in line:
            break
    targets = {os.readlink(link.path) for link in os.scandir(f'/proc/{process.pid}/fd')}
    listening = []
    for kind in ('tcp', 'tcp6'):
        with open(f'/proc/{process.pid}/net/{kind}', encoding='ascii') as file:
            sockets = [line.split() for line in file.read().splitlines()[1:]]
        listening += [fields[1] for fields in sockets if fields[3] == '0A' and f'socket:[{fields[9]}]' in targets]
    assert targets and listening == []


def test_the_checkpoint_that_a_training_goes_on_from_is_not_written_again(run, tmp_path):
    def files():
        return {
            path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (tmp_path / 'output').glob('model.ckpt-5.*')
        }

    run(*POLYNOMIAL, '--schedule=train', '--train_steps=5')
    before = files()
    code, _, err = run(*POLYNOMIAL, '--schedule=train', '--train_steps=8')
    assert code == 0 and len(before) == 3 and files() == before
    assert re.findall(r'Saving checkpoints for (\d+) ', err) == ['8']

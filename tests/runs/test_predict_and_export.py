"""An AlexNet from its training, by a process of its own, to what it predicts and exports; predictions that are not finite."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
from PIL import Image
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from datasets import mnist
from models import polynomial
from tests.shared import POLYNOMIAL, ROOT
import trainer


@pytest.fixture(scope='module')
def process(tmp_path_factory, data_dir):
    """The process of the training, which has ended; `output_dir` is its directory."""
    output_dir = tmp_path_factory.mktemp('alexnet') / 'output'
    command = [
        *[sys.executable, f'{ROOT}/trainer.py', f'--data_dir={data_dir}', f'--output_dir={output_dir}'],
        '--hparams=filters=[8,16],dense_units=32,warmup_steps=20,learning_rate=0.005,train_steps=150',
        '--save_checkpoints_steps=100',
    ]
    process = subprocess.run(command, cwd=output_dir.parent, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    process.output_dir = output_dir
    return process


@pytest.fixture(scope='module')
def predicted(process):
    """What the trained model predicts of the split eval, the test digits."""
    output_dir = shutil.copytree(process.output_dir, process.output_dir.parent / 'predicted')
    assert trainer.main(['trainer.py', f'--output_dir={output_dir}', '--schedule=predict']) == 0
    return [json.loads(line) for line in open(output_dir / 'predictions.jsonl')]


@pytest.fixture
def alexnet(process, run, tmp_path):
    """Calls the trainer on a copy of the trained model: alexnet('--schedule=predict') -> (exit code, result, stderr)."""
    shutil.copytree(process.output_dir, tmp_path / 'output')
    return run


def test_alexnet_learns_mnist_and_prints_what_it_reached(process):
    result, log = json.loads(process.stdout), process.stderr
    assert process.stdout.count('\n') == 1
    assert result['global_step'] == 150
    assert result['eval']['accuracy'] > 0.85 and result['eval']['loss'] < 0.5
    assert json.loads((process.output_dir / 'results.json').read_text()) == result
    # In the Estimator's own format, each once, and nothing else that only TensorFlow's developers need.
    assert len(re.findall('INFO loss = .*, step = 0', log)) == 1
    assert len(re.findall(' INFO global_step/sec: ', log)) == 1
    assert re.findall(r'Saving dict for global step (\d+): accuracy = 0\.\d+, ', log) == ['100', '150']
    assert 'deprecated' not in log and 'Warning' not in log and 'it/s' not in log and 'Using config' not in log
    assert all(re.match(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO ', line) for line in log.splitlines())


def test_predict_writes_a_line_for_every_example_of_the_network_that_was_evaluated(process, predicted):
    assert all(line.keys() == {'class', 'probabilities'} for line in predicted)
    probabilities, classes = (np.array([line[name] for line in predicted]) for name in ('probabilities', 'class'))
    np.testing.assert_allclose(probabilities.sum(1), np.ones(1000), atol=1e-4)
    np.testing.assert_array_equal(classes, probabilities.argmax(1))
    accuracy = np.mean(classes == mnist.read_idx('t10k-labels-idx1-ubyte')[:1000])
    assert accuracy == pytest.approx(json.loads(process.stdout)['eval']['accuracy'], abs=1e-6)


def test_predict_classifies_image_files(alexnet, predicted, tmp_path):
    images = mnist.read_idx('t10k-images-idx3-ubyte')[:5]
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f'{i}.png')
    Image.fromarray(images[0]).convert('RGB').resize((280, 280), Image.Resampling.NEAREST).save(tmp_path / '5.png')
    (tmp_path / '6.png').write_text('no image')
    code, result, err = alexnet('--schedule=predict', f'--input={tmp_path}/*.png')
    assert code == 0 and 'WARNING 1 of 7 examples cannot be predicted; ' in err
    assert result == {'global_step': 150, 'predictions': f'{tmp_path}/output/predictions.jsonl', 'errors': 1}
    lines = [json.loads(line) for line in open(result['predictions'])]
    assert [line['input'] for line in lines] == [f'{tmp_path}/{i}.png' for i in range(7)]
    for line, expected in zip(lines[:5], predicted):
        assert line['class'] == expected['class']
        np.testing.assert_allclose(line['probabilities'], expected['probabilities'], atol=1e-4)
    assert lines[5]['class'] == lines[0]['class'] and 'class' not in lines[6]

    for name, message in (
        ('nothing*.png', 'nothing*.png: no such file'),
        (f'{tmp_path}/6.png', f'nothing to predict: {tmp_path}/6.png is not an image of a kind that Pillow reads'),
    ):
        code, _, err = alexnet('--schedule=predict', f'--input={name}')
        assert code == 2 and message in err.splitlines()[-1]


def test_an_exported_alexnet_gives_the_numbers_of_predict(alexnet, predicted, tmp_path):
    code, result, _ = alexnet('--schedule=export', '--num_towers=2')
    assert code == 0 and result['export'].startswith(f'{tmp_path}/output/export/')
    signatures = tf2.saved_model.load(result['export']).signatures
    images = mnist.read_idx('t10k-images-idx3-ubyte')
    for lines in (predicted[:1], predicted[:7]):
        of_images = signatures['serving_default'](image=tf2.constant(images[: len(lines), :, :, None]))
        records = tf2.constant([mnist.records.encode({'image': image.tobytes()}) for image in images[: len(lines)]])
        for outputs in (of_images, signatures['examples:serving_default'](examples=records)):
            assert list(outputs['class'].numpy()) == [line['class'] for line in lines]
            np.testing.assert_allclose(outputs['probabilities'], [line['probabilities'] for line in lines], atol=1e-5)


def test_metrics_and_predictions_that_are_not_finite_are_json_all_the_same(run, capsys, data_dir, tmp_path, monkeypatch):
    def model(features, labels, mode, params):
        w = tf.get_variable('w', initializer=1.0)
        y = tf.where(features['x'] > 0, w / tf.zeros_like(features['x']), features['x'])
        return {'y': y}, None if labels is None else tf.square(w) + 0 * labels['y']

    def eval_metrics(features, labels, predictions, params):
        return {'largest': tf.metrics.mean(tf.reduce_max(predictions['y']))}

    monkeypatch.setattr(polynomial, 'model', model)
    monkeypatch.setattr(polynomial, 'eval_metrics', eval_metrics)
    flags = (
        *POLYNOMIAL,
        f'--data_dir={data_dir}',
        f'--output_dir={tmp_path}/output',
        '--hparams=num_samples=200,train_steps=2',
    )
    assert trainer.main(['trainer.py', *flags, '--best_metric=largest:max']) == 0
    for text in (capsys.readouterr().out, (tmp_path / 'output' / 'results.json').read_text()):
        assert json.loads(text, parse_constant=pytest.fail)['eval']['largest'] == 'Infinity'
    best = json.loads((tmp_path / 'output' / 'best' / 'best.json').read_text(), parse_constant=pytest.fail)
    assert best['value'] == best['eval']['largest'] == 'Infinity'
    _, result, _ = run('--schedule=predict', '--predict_split=train')
    lines = [json.loads(line, parse_constant=pytest.fail) for line in open(result['predictions'])]
    assert len(lines) == 200 and all(line.keys() == {'y'} for line in lines)
    assert 0 < [line['y'] for line in lines].count('Infinity') < 200
    assert all(line['y'] <= 0 for line in lines if line['y'] != 'Infinity')

"""An AlexNet from its training, by a process of its own, to what it predicts; predictions that are not finite."""

import json
import re
import subprocess
import sys

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from datasets import mnist
from models import polynomial
from tests.shared import POLYNOMIAL, ROOT


def test_alexnet_learns_mnist_prints_what_it_reached_and_predicts_the_split_and_image_files(run, data_dir, tmp_path):
    output_dir = tmp_path / 'output'
    hparams = '--hparams=filters=[8,16],dense_units=32,warmup_steps=20,learning_rate=0.005,train_steps=150'
    flags = (hparams, f'--data_dir={data_dir}', f'--output_dir={output_dir}', '--save_checkpoints_steps=100')
    command = [sys.executable, f'{ROOT}/trainer.py', *flags]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    result, log = json.loads(process.stdout), process.stderr
    assert process.stdout.count('\n') == 1
    assert result['global_step'] == 150
    assert result['eval']['accuracy'] > 0.85 and result['eval']['loss'] < 0.5
    assert json.loads((output_dir / 'results.json').read_text()) == result
    # In the Estimator's own format, each once, and nothing else that only TensorFlow's developers need.
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
    assert all(line.keys() == {'class', 'probabilities'} for line in predicted)
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
    assert [line['input'] for line in lines] == [f'{tmp_path}/{i}.png' for i in range(7)]
    assert [line.get('class') for line in lines] == [*classes[:5], classes[0], None]
    np.testing.assert_allclose([line['probabilities'] for line in lines[:5]], probabilities[:5], atol=1e-4)
    for name, message in (
        ('nothing*.png', 'nothing*.png: no such file'),
        (f'{tmp_path}/6.png', f'nothing to predict: {tmp_path}/6.png is not an image of a kind that Pillow reads'),
    ):
        code, _, err = run('--schedule=predict', f'--input={name}')
        assert code == 2 and message in err.splitlines()[-1]


def test_metrics_and_predictions_that_are_not_finite_are_json_all_the_same(run, tmp_path, monkeypatch):
    def model(features, labels, mode, params):
        w = tf.get_variable('w', initializer=1.0)
        y = w / tf.maximum(features['x'], 0.0)  # Infinite where x is not positive.
        return {'y': y}, None if labels is None else tf.square(w) + 0 * labels['y']

    def eval_metrics(features, labels, predictions, params):
        return {'largest': tf.metrics.mean(tf.reduce_max(predictions['y']))}

    def read(text):
        return json.loads(text, parse_constant=pytest.fail)

    monkeypatch.setattr(polynomial, 'model', model)
    monkeypatch.setattr(polynomial, 'eval_metrics', eval_metrics)
    output_dir = tmp_path / 'output'
    flags = (*POLYNOMIAL, '--hparams=num_samples=200,train_steps=2', '--best_metric=largest:max')
    code, result, _ = run(*flags)
    best = read((output_dir / 'best' / 'best.json').read_text())
    found = [result['eval'], read((output_dir / 'results.json').read_text())['eval'], best['eval']]
    assert code == 0 and [metrics['largest'] for metrics in found] == ['Infinity'] * 3 and best['value'] == 'Infinity'
    lines = [read(line) for line in open(run('--schedule=predict', '--predict_split=train')[1]['predictions'])]
    assert len(lines) == 200 and 0 < [line['y'] for line in lines].count('Infinity') < 200

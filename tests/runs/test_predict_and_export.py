"""What predict writes, and that an exported model gives the same."""

import json

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from datasets import mnist
from models import polynomial
from tests.shared import POLYNOMIAL, SMALL, read_weights
import trainer


def test_predict_writes_a_line_for_every_example(run, tmp_path):
    run(*SMALL, '--train_steps=200', '--schedule=train')
    code, result, _ = run(*SMALL, '--schedule=predict')
    assert code == 0
    assert result == {'global_step': 200, 'predictions': str(tmp_path / 'output' / 'predictions.jsonl')}
    lines = [json.loads(line) for line in open(result['predictions'])]
    assert len(lines) == 1000
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


@pytest.mark.parametrize(
    'flags, message',
    [
        ([*SMALL, '--input=nothing*.png'], '--input=nothing*.png: no such file'),
        ([*SMALL, '--input={tmp}/text.png'], 'text.png is not an image of a kind that Pillow reads'),
        ([*POLYNOMIAL, '--input={tmp}/*.png'], '--dataset=polynomial takes no files: it has no read_input()'),
    ],
)
def test_wrong_images_are_named(run, tmp_path, flags, message):
    (tmp_path / 'text.png').write_text('no image')
    model = flags[:2]
    assert run(*model, '--train_steps=1', '--schedule=train')[0] == 0
    code, _, err = run(*[flag.format(tmp=tmp_path) for flag in flags], '--schedule=predict')
    assert code == 2
    assert message in err.splitlines()[-1]

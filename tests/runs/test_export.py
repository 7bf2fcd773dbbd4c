"""--schedule=export --format: files beside a SavedModel, compared with the checkpoint; all of them, or none."""

import contextlib
import importlib
import io
import json
import os
import re

import numpy as np
import pytest

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError

PACKAGES = {'onnx': ('onnx', 'onnxruntime', 'tf2onnx'), 'tflite': ('ai_edge_litert',)}
FACTS = {'split', 'examples', 'output', 'largest_difference', 'metric', 'checkpoint', 'exported'}


def use(card):
    """Runs the Python of a card, in its directory; returns what it prints."""
    (code,) = re.findall(r'```python\n(.*?)\n```', card.read_text(), re.DOTALL)
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(card.parent)
        exec(code, {})
    return out.getvalue()


@pytest.mark.parametrize('kind', PACKAGES)
def test_a_file_is_exported_beside_a_saved_model_and_answers_as_its_card_says(run, trained_run, kind):
    for package in PACKAGES[kind]:
        pytest.importorskip(package)
    directory = trained_run('alexnet')
    code, result, err = run('--schedule=export', f'--format=saved_model,{kind}')
    assert code == 0, err
    assert result['export'] + f'-{kind}/model.{kind}' == result[kind] and os.path.exists(result[kind])
    assert {path.name for path in (directory / 'export').iterdir()} == {
        os.path.basename(result['export']),
        os.path.basename(result['export']) + f'-{kind}',
    }
    for facts in result['compared'].values():
        assert facts.keys() == FACTS and facts['examples'] == 1000 and facts['metric'] == 'accuracy'
        assert facts['largest_difference'] < 1e-5 and abs(facts['checkpoint'] - facts['exported']) <= 0.001

    folder = directory / 'export' / os.path.basename(os.path.dirname(result[kind]))
    card = json.loads((folder / 'model_card.json').read_text())
    assert card['inputs'] == {'image': {'dtype': 'uint8', 'shape': [None, 28, 28, 1]}}
    assert card['outputs']['probabilities'] == {'dtype': 'float32', 'shape': [None, 10]}
    assert card['comparison'] == result['compared'][kind]
    assert 'probabilities' in use(folder / 'README.md')
    header = dict(line.split(': ', 1) for line in (folder / 'README.md').read_text().split('---\n')[1].splitlines())
    assert (json.loads(header['library_name']), json.loads(header['pipeline_tag'])) == (kind, 'image-classification')


@pytest.mark.parametrize('kind', PACKAGES)
def test_an_export_that_differs_is_an_error_that_names_the_op_and_leaves_nothing(trained_run, data_dir, kind, monkeypatch):
    for package in PACKAGES[kind]:
        pytest.importorskip(package)
    directory = trained_run('polynomial')
    module = importlib.import_module(f'estimator_trainer.common.export.{kind}_file')
    convert = module.convert

    def convert_another(network, quantize, batches):
        definition = type(network.definition)()
        definition.CopyFrom(network.definition)
        for node in definition.node:
            node.op = 'Sign' if node.op == 'Square' else node.op
        return convert(network._replace(definition=definition), quantize, batches)

    monkeypatch.setattr(module, 'convert', convert_another)
    run = api.load(str(directory), data_dir=data_dir)
    with pytest.raises(RunError) as caught:
        run.export(format=['saved_model', kind])
    message = str(caught.value)
    assert re.match(rf'format={kind}: y differs by \S+ at most on 2000 examples of eval, more than 0.001 of its', message)
    assert re.search(r'the values of \S*(Square|stack|MatMul)\S* are the first to differ', message)
    assert [*(directory / 'export').iterdir()] == []


def test_a_program_gets_the_paths_of_quantized_files(trained_run, data_dir):
    for package in (*PACKAGES['onnx'], *PACKAGES['tflite']):
        pytest.importorskip(package)
    run = api.load(str(trained_run('alexnet')), data_dir=data_dir)
    found = run.export(format=['onnx', 'tflite'], quantize='int8')
    assert [*found] == ['onnx', 'tflite']
    plain = run.export(format='onnx')
    assert os.path.getsize(found['onnx']) < 0.7 * os.path.getsize(plain)
    import onnxruntime

    (probabilities,) = onnxruntime.InferenceSession(found['onnx']).run(
        ['probabilities'], {'image': np.zeros([2, 28, 28, 1], np.uint8)}
    )
    np.testing.assert_allclose(probabilities, run.predict(np.zeros([2, 28, 28, 1], np.uint8))['probabilities'], atol=0.05)


def test_without_its_data_an_export_is_not_compared(run, trained_run, tmp_path):
    trained_run('alexnet')
    code, result, err = run('--schedule=export', f'--data_dir={tmp_path}/none')
    assert code == 0 and 'compared' not in result
    assert '--format=saved_model: not compared with the checkpoint: the split eval cannot be read' in err
    card = open(os.path.join(result['export'], 'assets.extra', 'model_card.md')).read()
    assert '## Compared with the checkpoint\n\nnot compared: the split eval cannot be read' in card


@pytest.mark.parametrize(
    'flags, message',
    [
        (['--format=onx'], '--format=onx: onx is not one of saved_model, onnx, tflite'),
        (['--format='], '--format is empty'),
        (['--quantize=int8'], '--quantize=int8 makes ONNX and TFLite files smaller: add --format=onnx or --format=tflite'),
        (
            ['--format=tflite'],
            "--format=tflite needs ai-edge-litert: pip install 'estimator-trainer[tflite]'",
        ),
    ],
)
def test_wrong_flags_and_a_missing_package_are_named(run, trained_run, monkeypatch, flags, message):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None if name == 'ai_edge_litert' else find_spec(name))
    trained_run('polynomial')
    code, _, err = run('--schedule=export', *flags)
    assert code == 2 and err.splitlines()[-1].endswith(message)

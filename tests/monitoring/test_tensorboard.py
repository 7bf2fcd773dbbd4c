"""Runs in a real TensorBoard, queried over HTTP."""

import contextlib
import io
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request

import numpy as np
from PIL import Image
import pytest

from tests.shared import POLYNOMIAL

RATES = {'low': 0.125, 'high': 0.25}


def session_groups(ask):
    """Returns {name: its row in the HParams tab}."""
    columns = [{'hparam': 'learning_rate'}, {'metric': {'group': 'eval', 'tag': 'loss'}}]
    request = {'experimentName': '', 'allowedStatuses': ['STATUS_SUCCESS'], 'startIndex': 0, 'sliceSize': 10}
    answer = json.loads(ask('hparams/session_groups', request=json.dumps({**request, 'colParams': columns})))
    return {group['sessions'][0]['name']: group for group in answer['sessionGroups']}


@contextlib.contextmanager
def tensorboard(logs):
    """Starts TensorBoard on loopback, which loads the logs first, and yields ask('scalars/tags') -> its answer."""
    flags = f'--logdir={logs} --host=127.0.0.1 --port=0 --load_fast=false --reload_task=blocking --reload_interval=0'.split()
    command = [sys.executable, '-m', 'tensorboard.main', *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    address = next(filter(None, (re.search(r'http://127\.0\.0\.1:\d+/', line) for line in process.stderr)))

    def ask(path, **query):
        url = f'{address[0]}data/plugin/{path}?{urllib.parse.urlencode(query)}'
        with urllib.request.urlopen(url, timeout=100) as answer:
            return answer.read()

    try:
        yield ask
    finally:
        process.kill()
        process.communicate()


def check_comparison(ask, logs):
    groups = session_groups(ask)
    assert sorted(groups) == ['high', 'low', 'run']
    for name, rate in RATES.items():
        assert groups[name]['hparams']['learning_rate'] == rate and groups[name]['hparams']['dataset'] == 'polynomial'
        values = {(value['name']['group'], value['name']['tag']): value['value'] for value in groups[name]['metricValues']}
        result = json.loads((logs / name / 'results.json').read_text())
        assert values['eval', 'loss'] == pytest.approx(result['eval']['loss'], rel=1e-5)
    columns = json.loads(ask('hparams/experiment', request=json.dumps({'experimentName': ''})))['hparamInfos']
    assert {'learning_rate', 'batch_size', 'optimizer'} <= {column['name'] for column in columns}


def check_run(ask, logs):
    accuracy = json.loads((logs / 'run' / 'results.json').read_text())['eval']['accuracy']

    def tags(plugin, run):
        return set(json.loads(ask(f'{plugin}/tags'))[run])

    def scalars(run, tag):
        return {step: value for _, step, value in json.loads(ask('scalars/scalars', run=run, tag=tag))}

    assert {'loss', 'accuracy', 'learning_rate', 'examples/sec'} <= tags('scalars', 'run')
    assert {'loss', 'accuracy'} <= tags('scalars', 'run/eval')  # The same bare names: one chart holds both curves.
    assert sorted(scalars('run', 'loss')) == sorted(scalars('run', 'accuracy')) == [1, 6, 11, 16]
    assert sorted(scalars('run', 'examples/sec')) == [6, 11, 16]
    assert all(0 <= value <= 1 for value in scalars('run', 'accuracy').values())
    rates = [0.002 * 0.5 * (1 + np.cos(np.pi * step / 20)) for step in (0, 5, 10, 15)]
    np.testing.assert_allclose(list(scalars('run', 'learning_rate').values()), rates, rtol=1e-5)
    evaluated = scalars('run/eval', 'accuracy')
    assert sorted(evaluated) == [10, 20] and evaluated[20] == pytest.approx(accuracy, abs=1e-5)

    assert tags('images', 'run') == {f'inputs/image/{i}' for i in range(8)}
    image, *_ = json.loads(ask('images/images', run='run', tag='inputs/image/0', sample=0))
    content = ask('images/individualImage', **dict(urllib.parse.parse_qsl(image['query'])))
    assert Image.open(io.BytesIO(content)).size == (112, 152)
    assert 'confusion_matrix/0' in tags('images', 'run/eval') and 'confusion_matrix/1' in tags('text', 'run/eval')

    assert {'weights/conv2d/kernel', 'weights/dense_1/bias'} <= tags('histograms', 'run')
    assert len(json.loads(ask('histograms/histograms', run='run', tag='weights/conv2d/kernel'))) == 4

    (curve,) = json.loads(ask('pr_curves/pr_curves', tag='pr_curve/0', run='run/eval'))['run/eval'][-1:]
    assert curve['step'] == 20 and curve['recall'][0] == 1 and curve['precision'][0] == pytest.approx(0.1)

    assert 'run/eval' in json.loads(ask('projector/runs'))
    points = np.frombuffer(ask('projector/tensor', run='run/eval', name='embedding'), np.float32).reshape(1000, 16)
    assert points.any() and (points >= 0).all()  # After ReLU.
    header, *labels = ask('projector/metadata', run='run/eval', name='embedding').decode().splitlines()
    assert header == 'example\tlabel\tpredicted class' and len(labels) == 1000
    assert sum(label == predicted for _, label, predicted in map(str.split, labels)) / 1000 == pytest.approx(accuracy)
    assert Image.open(io.BytesIO(ask('projector/sprite_image', run='run/eval', name='embedding'))).size == (32 * 28, 32 * 28)

    graph = ask('graphs/graph', run='run', limit_attr_size=1024, large_attrs_key='_too_large_attrs').decode()
    assert 'name: "model/tower_0/' in graph and 'name: "model/tower_1/' in graph


def test_tensorboard_compares_runs_and_shows_each(run, tmp_path):
    hparams = '--hparams=filters=[4,8],dense_units=16,batch_size=32,warmup_steps=0'
    runs = {name: [*POLYNOMIAL, f'--hparams=learning_rate={rate}', '--train_steps=10'] for name, rate in RATES.items()}
    runs['run'] = [hparams, '--train_steps=20', '--save_checkpoints_steps=10', '--num_towers=2']
    for name, flags in runs.items():
        assert run(*flags, '--save_summary_steps=5', '--eval_steps=1', output_dir=tmp_path / name)[0] == 0
    with tensorboard(tmp_path) as ask:
        check_comparison(ask, tmp_path)
        check_run(ask, tmp_path)

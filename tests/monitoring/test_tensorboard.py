"""What TensorBoard shows of an output_dir, asked of a real one over HTTP."""

import io
import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import numpy as np
from PIL import Image
import pytest

import sweep
from tests import forked


@pytest.fixture
def ask(tmp_path):
    """Starts TensorBoard on loopback; ask('scalars/tags') returns what its data API answers."""
    process = subprocess.Popen(
        [
            sys.executable,
            '-m',
            'tensorboard.main',
            f'--logdir={tmp_path}/output',
            '--host=127.0.0.1',
            '--port=0',
            '--load_fast=false',
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    for line in process.stderr:
        address = re.search(r'http://127\.0\.0\.1:\d+/', line)
        if address:
            break

    def call(path, **query):
        url = f'{address[0]}data/plugin/{path}?{urllib.parse.urlencode(query)}'
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read()

    yield call
    process.kill()
    process.communicate()


def wait_for(condition, seconds=60):
    """TensorBoard loads the runs in the background."""
    end = time.time() + seconds
    while time.time() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError('TensorBoard did not load the runs')


def test_tensorboard_compares_the_trials_of_a_sweep(execute, request, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, 'Popen', forked.Popen)
    (tmp_path / 'space.json').write_text('{"learning_rate": {"low": 0.001, "high": 0.5, "log": true}}')
    code, result, _ = execute(
        sweep.main,
        [
            'sweep.py',
            '--model=polynomial',
            '--dataset=polynomial',
            '--trials=2',
            '--jobs=2',
            f'--space={tmp_path}/space.json',
            f'--data_dir={tmp_path}/data',
            f'--output_dir={tmp_path}/output',
            '--train_steps=30',
        ],
    )
    assert code == 0
    ask = request.getfixturevalue('ask')
    wait_for(lambda: len(json.loads(ask('scalars/tags'))) == 4)
    columns = [{'hparam': 'learning_rate'}, {'metric': {'group': 'eval', 'tag': 'loss'}}]
    answer = json.loads(
        ask(
            'hparams/session_groups',
            request=json.dumps(
                {
                    'experimentName': '',
                    'allowedStatuses': ['STATUS_SUCCESS'],
                    'startIndex': 0,
                    'sliceSize': 10,
                    'colParams': columns,
                }
            ),
        )
    )
    groups = {group['sessions'][0]['name']: group for group in answer['sessionGroups']}
    assert sorted(groups) == ['trial-0', 'trial-1']
    for name, group in groups.items():
        hparams = json.loads((tmp_path / 'output' / name / 'hparams.json').read_text())
        assert group['hparams']['learning_rate'] == pytest.approx(hparams['learning_rate'])
        (loss,) = [metric['value'] for metric in group['metricValues'] if metric['name'] == {'group': 'eval', 'tag': 'loss'}]
        results = json.loads((tmp_path / 'output' / name / 'results.json').read_text())
        assert loss == pytest.approx(results['eval']['loss'], rel=1e-5)
    assert result['trials'] == 2


def test_tensorboard_shows_the_run(run, request):
    _, result, _ = run(
        '--hparams=filters=[4,8],dense_units=16,batch_size=32,warmup_steps=0',
        '--train_steps=40',
        '--save_checkpoints_steps=20',
        '--save_summary_steps=10',
        '--eval_steps=1',
        '--num_towers=2',
    )
    ask = request.getfixturevalue('ask')

    def tags(plugin):
        return json.loads(ask(f'{plugin}/tags'))

    def scalars(run, tag):
        return {step: value for _, step, value in json.loads(ask('scalars/scalars', run=run, tag=tag))}

    found = wait_for(lambda: {'.', 'eval'} <= set(tags('scalars')) and tags('images') and tags('scalars'))
    assert {'loss', 'accuracy', 'learning_rate', 'examples/sec'} <= set(found['.'])
    assert {'loss', 'accuracy'} <= set(found['eval'])  # The same bare names: one chart holds both curves.

    assert sorted(scalars('.', 'loss')) == [1, 11, 21, 31]
    assert sorted(scalars('.', 'accuracy')) == [1, 11, 21, 31] and sorted(scalars('.', 'examples/sec')) == [11, 21, 31]
    assert all(0 <= value <= 1 for value in scalars('.', 'accuracy').values())
    rates = [0.002 * 0.5 * (1 + np.cos(np.pi * step / 40)) for step in (0, 10, 20, 30)]
    np.testing.assert_allclose(list(scalars('.', 'learning_rate').values()), rates, rtol=1e-5)
    evaluated = scalars('eval', 'accuracy')
    assert sorted(evaluated) == [20, 40]
    assert evaluated[40] == pytest.approx(result['eval']['accuracy'], abs=1e-5)

    assert sorted(tags('images')['.']) == [f'inputs/image/{i}' for i in range(8)]
    image, *_ = json.loads(ask('images/images', run='.', tag='inputs/image/0', sample=0))
    picture = Image.open(io.BytesIO(ask('images/individualImage', **dict(urllib.parse.parse_qsl(image['query'])))))
    assert picture.size == (112, 152)

    histograms = tags('histograms')['.']
    assert 'weights/conv2d/kernel' in histograms and 'weights/dense_1/bias' in histograms
    assert len(json.loads(ask('histograms/histograms', run='.', tag='weights/conv2d/kernel'))) == 4

    (curve,) = json.loads(ask('pr_curves/pr_curves', tag='pr_curve/0', run='eval'))['eval'][-1:]
    assert curve['step'] == 40 and curve['recall'][0] == 1 and curve['precision'][0] == pytest.approx(0.1)

    columns = json.loads(ask('hparams/experiment', request=json.dumps({'experimentName': ''})))['hparamInfos']
    assert {'learning_rate', 'batch_size', 'optimizer'} <= {column['name'] for column in columns}

    assert json.loads(ask('projector/runs')) == ['.', 'eval']
    points = np.frombuffer(ask('projector/tensor', run='eval', name='embedding'), np.float32).reshape(1000, 16)
    assert points.any() and (points >= 0).all()  # After ReLU.
    labels = ask('projector/metadata', run='eval', name='embedding').decode().splitlines()
    assert labels[0] == 'example\tlabel\tpredicted class' and len(labels) == 1001
    right = sum(label == predicted for _, label, predicted in map(str.split, labels[1:]))
    assert right / 1000 == pytest.approx(result['eval']['accuracy'])
    sprite = Image.open(io.BytesIO(ask('projector/sprite_image', run='eval', name='embedding')))
    assert sprite.size == (32 * 28, 32 * 28)

    graph = ask('graphs/graph', run='.', limit_attr_size=1024, large_attrs_key='_too_large_attrs').decode()
    assert 'name: "model/tower_0/' in graph and 'name: "model/tower_1/' in graph

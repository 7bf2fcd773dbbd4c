"""--loggers=mlflow against a server of its own: pip install -e '.[mlflow]' mlflow"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from estimator_trainer.common.monitoring.tracker import Tracker
from tests.cluster.tasks import free_ports

pytest.importorskip('mlflow.server', reason='a server needs the whole package mlflow', exc_type=ImportError)
MODULES = {'mlflow': 'estimator_trainer.common.loggers.mlflow_logger'}


@pytest.fixture(scope='module')
def server(tmp_path_factory):
    """The URI of a server with an empty database."""
    directory, (port,) = tmp_path_factory.mktemp('mlflow'), free_ports(1)
    command = [sys.executable, '-m', 'mlflow', 'server', '--host=127.0.0.1', f'--port={port}', '--workers=1']
    command += [f'--backend-store-uri=sqlite:///{directory}/db', f'--artifacts-destination={directory}/artifacts']
    environ = {**os.environ, 'MLFLOW_DISABLE_TELEMETRY': 'true', 'MLFLOW_SERVER_ENABLE_JOB_EXECUTION': 'false'}
    with open(directory / 'log', 'w') as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environ, cwd=directory, start_new_session=True)
    try:
        while not _answers(f'http://127.0.0.1:{port}/health'):
            assert process.poll() is None, (directory / 'log').read_text()
            time.sleep(0.1)
        yield f'http://127.0.0.1:{port}'
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # With the processes of its own.
        process.wait()


def _answers(url):
    try:
        with urllib.request.urlopen(url, timeout=100) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture
def client(server, monkeypatch, tmp_path):
    import mlflow

    monkeypatch.setenv('MLFLOW_TRACKING_URI', server)
    monkeypatch.setenv('MLFLOW_EXPERIMENT_NAME', tmp_path.name)
    monkeypatch.setenv('MLFLOW_DISABLE_TELEMETRY', 'true')
    return mlflow.MlflowClient(server)


def track(output_dir, learning_rate=0.1, **facts):
    run = {'name': 'a/b', 'group': '', 'output_dir': str(output_dir), 'flags': {'precision': 'bfloat16'}, **facts}
    run['hparams'] = {'learning_rate': learning_rate, 'filters': [4, 8]}
    (output_dir / 'report.html').write_text('<p>')
    artifacts = {'report': str(output_dir / 'report.html'), 'best_checkpoint': '/best/model.ckpt-9'}
    return Tracker(MODULES, run, find_artifacts=lambda: artifacts)


def run_id(output_dir):
    return json.loads((output_dir / 'loggers/mlflow.json').read_text())['id']


def test_a_run_and_its_resume_are_one_run_of_the_server(client, tmp_path):
    first = track(tmp_path)
    first.log(1, {'loss': 2, 'examples/sec': 30.5})
    first.evaluated({'global_step': 1, 'eval': {'accuracy': float('nan')}})
    first.end('failed', 'the loss is nan')
    found = client.get_run(run_id(tmp_path))
    assert (found.info.status, found.info.run_name) == ('FAILED', 'a/b')
    assert client.get_experiment(found.info.experiment_id).name == tmp_path.name
    assert found.data.params == {'learning_rate': '0.1', 'filters': '[4, 8]'}
    second = track(tmp_path, learning_rate=[0.2, 3])  # No name of a parameter.
    second.log(1, {'loss': 2})
    second.log(2, {'loss': 1})
    second.end('finished', '')
    again = client.get_run(run_id(tmp_path))
    assert again.info.run_id == found.info.run_id and again.info.status == 'FINISHED'
    assert again.data.params == {'learning_rate': '0.1', 'filters': '[4, 8]'}
    points = client.get_metric_history(again.info.run_id, 'train/loss')
    assert [(point.step, point.value) for point in points] == [(1, 2), (2, 1)]
    assert again.data.metrics['train/examples/sec'] == 30.5 and 'eval/accuracy' in again.data.metrics
    tags = {'flags.precision': 'bfloat16', 'changed.learning_rate': '[0.2, 3]', 'reason': '', 'output_dir': str(tmp_path)}
    assert again.data.tags == {**again.data.tags, **tags, 'best_checkpoint': '/best/model.ckpt-9'}
    assert [file.path for file in client.list_artifacts(again.info.run_id)] == ['report.html']


def test_the_trials_of_a_sweep_have_one_parent(client, tmp_path):
    trials = [tmp_path / f'trial-{number}' for number in range(2)]
    for trial in trials:
        trial.mkdir()
    for tracker in [track(trial, group=str(tmp_path)) for trial in trials]:  # They begin at the same time.
        tracker.end('stopped', 'SIGTERM')
    found = [client.get_run(run_id(trial)) for trial in trials]
    (parent,) = {run.data.tags['mlflow.parentRunId'] for run in found}
    assert [run.info.status for run in found] == ['KILLED', 'KILLED']
    assert client.get_run(parent).info.run_name.endswith(tmp_path.name) and client.get_run(parent).info.status == 'FINISHED'


def test_a_tracked_run_that_is_gone_is_one_warning_with_the_cure(client, tmp_path, caplog):
    (tmp_path / 'loggers').mkdir()
    (tmp_path / 'loggers/mlflow.json').write_text('{"id": "0123456789abcdef0123456789abcdef"}')
    tracker = track(tmp_path)
    tracker.log(1, {'loss': 1})
    tracker.end('finished', '')
    (warning,) = [record.message for record in caplog.records if record.levelname == 'WARNING']
    assert 'not found' in warning and f'delete {tmp_path}/loggers/mlflow.json to begin another' in warning


def test_a_server_that_is_away_is_one_warning(client, tmp_path, caplog, monkeypatch):
    monkeypatch.setenv('MLFLOW_TRACKING_URI', f'http://127.0.0.1:{free_ports(1)[0]}')
    monkeypatch.setenv('MLFLOW_HTTP_REQUEST_MAX_RETRIES', '0')
    tracker = track(tmp_path)
    tracker.log(1, {'loss': 1})
    tracker.end('finished', '')
    (warning,) = [record.message for record in caplog.records if record.levelname == 'WARNING']
    assert warning.startswith('--loggers=mlflow: start: ') and 'refused' in warning, warning

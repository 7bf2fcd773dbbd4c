"""--loggers=wandb, in its offline mode: pip install -e '.[wandb]'"""

import json
import struct

import pytest

from estimator_trainer.common.monitoring.tracker import Tracker

pytest.importorskip('wandb')
MODULES = {'wandb': 'estimator_trainer.common.loggers.wandb_logger'}


@pytest.fixture
def track(monkeypatch, tmp_path):
    """track() makes a Tracker of a run in tmp_path, whose files are in tmp_path/wandb."""
    settings = {'MODE': 'offline', 'DIR': tmp_path, 'SILENT': 'true', 'CONFIG_DIR': tmp_path, 'PROJECT': 'mine'}
    for name, value in settings.items():
        monkeypatch.setenv(f'WANDB_{name}', str(value))
    facts = {'name': 'a/b', 'group': '/x/y/sweep', 'output_dir': str(tmp_path), 'hparams': {'learning_rate': 0.1}}
    facts['flags'] = {'precision': 'bfloat16'}
    return lambda: Tracker(MODULES, facts, find_artifacts=lambda: {'best_checkpoint': '/b'})


def records(tmp_path):
    """Returns what each process has written, as protocol buffers."""
    from wandb.proto import wandb_internal_pb2

    found = []
    for path in sorted(tmp_path.glob('wandb/offline-run-*/*.wandb'), key=lambda path: path.stat().st_mtime_ns):
        found.append([wandb_internal_pb2.Record.FromString(data) for data in _scan(path.read_bytes())])
    return found


def _scan(content):
    """Yields the records of a file in the format of LevelDB's logs, in blocks of 32 KiB, after a header of 7 bytes."""
    place, parts = 7, b''
    while len(content) - place > 7:
        left = -place % 32768
        place += left if left < 7 else 0
        length, kind = struct.unpack_from('<HB', content, place + 4)
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # A whole record, or the last part of one.
            yield parts
            parts = b''


def items(record):
    return {item.key or '/'.join(item.nested_key): json.loads(item.value_json) for item in record}


def test_a_run_and_its_resume_have_one_id_offline(track, tmp_path):
    first = track()
    first.log(1, {'loss': 2})
    first.end('stopped', 'SIGTERM')
    second = track()
    second.log(1, {'loss': 2})
    second.evaluated({'global_step': 2, 'eval': {'accuracy': 0.5}})
    second.end('finished', '')
    written = records(tmp_path)
    runs = [next(record.run for record in of if record.HasField('run')) for of in written]
    run_id = json.loads((tmp_path / 'loggers/wandb.json').read_text())['id']
    named = [(run.run_id, run.display_name, run.project, run.run_group) for run in runs]
    assert named == [(run_id, 'a/b', 'mine', 'y/sweep')] * 2
    config = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
    assert config['learning_rate'] == 0.1 and config['flags'] == {'precision': 'bfloat16'}
    history = [items(record.history.item) for of in written for record in of if record.HasField('history')]
    logged = [{name: value for name, value in row.items() if not name.startswith('_')} for row in history]
    assert logged == [{'global_step': 1, 'train/loss': 2}, {'global_step': 2, 'eval/accuracy': 0.5}]
    summary = {}
    for record in written[1]:
        summary |= items(record.summary.update) if record.HasField('summary') else {}
    assert (summary['state'], summary['best_checkpoint']) == ('finished', '/b')
    assert [record.exit.exit_code for of in written for record in of if record.HasField('exit')] == [1, 0]


def test_a_missing_key_is_one_warning(track, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv('WANDB_MODE', 'online')
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.delenv('WANDB_API_KEY', raising=False)
    tracker = track()
    tracker.log(1, {'loss': 1})
    tracker.end('finished', '')
    (warning,) = [record.message for record in caplog.records if record.levelname == 'WARNING']
    assert warning.startswith('--loggers=wandb: start: ') and 'key' in warning, warning

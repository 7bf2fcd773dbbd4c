"""An output_dir is locked, or rejected by name, and its files are replaced atomically."""

import errno
import fcntl
import json
import os
import socket
from unittest import mock

import pytest

from estimator_trainer.common import files, locks, paths
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.storage import best_checkpoint, checkpoints, run_dir
from estimator_trainer.common.storage.history import add_training
from estimator_trainer.common.storage.metrics import add_metrics, read_metric
from estimator_trainer.common.storage.objective import Objective
from tests import forked
from tests.storage.test_best_checkpoint import kept, save


def evaluate(others, directory, output_dir, first):
    """Evaluates every third step, once the other processes do."""
    others.wait(100)
    for step in range(first, 24, 3):
        run_dir.ensure_writable(output_dir)
        result = {'global_step': step, 'eval': {'accuracy': step / 24}}
        add_metrics(output_dir, result)
        goal = Objective('accuracy', True)
        best_checkpoint.keep_if_best(f'{directory}/model.ckpt-{step}', output_dir, goal, 'eval', result)


def test_processes_that_evaluate_at_once_lose_no_row_of_the_table_and_keep_the_best_of_all_whole(tmp_path):
    output = tmp_path / 'a' / 'output'
    for step in range(24):
        save(tmp_path, step)
    others = forked.context.Barrier(3)
    processes = [forked.context.Process(target=evaluate, args=(others, tmp_path, str(output), i)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert read_metric(str(output), 'eval', 'accuracy') == [step / 24 for step in range(24)]
    names = ['best.json', *(f'model.ckpt-23.{suffix}' for suffix in ('data-00000-of-00001', 'index', 'meta'))]
    assert kept(output) == 23 and sorted(os.listdir(output / 'best')) == names
    assert sorted(path.name for path in output.iterdir() if path.suffix != '.lock') == ['best', 'metrics.csv']


@pytest.mark.parametrize('name', ['output', 'output/mnist/alexnet', 'output/'])
def test_an_output_dir_behind_a_link_that_leads_nowhere_names_the_link_and_its_target(tmp_path, name):
    (tmp_path / 'output').symlink_to('/no/disk')
    expected = f'{tmp_path}/output is a link to /no/disk, which does not exist: create or mount that'
    with pytest.raises(UsageError, match=f'^--output_dir={tmp_path}/{name}: cannot be written: {expected}$'):
        run_dir.ensure_writable(f'{tmp_path}/{name}')


def test_relative_paths_in_a_deleted_directory_name_that(tmp_path, monkeypatch):
    (tmp_path / 'gone').mkdir()
    monkeypatch.chdir(tmp_path / 'gone')
    (tmp_path / 'gone').rmdir()
    reason = 'the current directory was deleted: change to another one'
    with pytest.raises(UsageError, match=f'^--output_dir=output: cannot be written: {reason}$'):
        run_dir.ensure_writable('output')
    with pytest.raises(UsageError, match=f'^{reason}$'):
        paths.absolute('data')
    assert paths.absolute('/data') == '/data' and paths.absolute('gs://a/data') == 'gs://a/data'


def test_results_replace_earlier_ones_whole_with_text_for_numbers_that_json_does_not_have(tmp_path):
    run_dir.save_results(str(tmp_path), {'global_step': 1})
    values = {'loss': float('inf'), 'all': [1.5, (float('-inf'), {'deep': float('nan')})], 'text': 'inf', 'count': 3}
    run_dir.save_results(str(tmp_path), values)
    expected = {'loss': 'Infinity', 'all': [1.5, ['-Infinity', {'deep': 'NaN'}]], 'text': 'inf', 'count': 3}
    assert json.loads((tmp_path / 'results.json').read_text(), parse_constant=pytest.fail) == expected
    assert [path.name for path in tmp_path.iterdir()] == ['results.json']


def test_the_record_of_tasks_gets_a_line_for_each_change(tmp_path):
    run_dir.add_tasks(str(tmp_path), 0, ['chief', 'worker 0'])
    run_dir.add_tasks(str(tmp_path), 20, ('worker 0',))
    first, second = map(json.loads, (tmp_path / 'tasks.jsonl').read_text().splitlines())
    assert (first['from_step'], first['tasks']) == (0, ['chief', 'worker 0'])
    assert (second['from_step'], second['tasks']) == (20, ['worker 0']) and second['time'] >= first['time']


def test_a_file_that_is_being_replaced_stays_until_the_new_one_is_whole(tmp_path):
    (tmp_path / 'file').write_text('old')
    with pytest.raises(RuntimeError), files.atomic_path(str(tmp_path / 'file')) as part:
        (tmp_path / part).write_text('new')
        raise RuntimeError
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {'file': 'old'}


@pytest.mark.parametrize('name', ['metrics.csv', 'best/best.json'])
def test_leftovers_of_a_run_without_checkpoints_are_not_mixed_in(tmp_path, name):
    (tmp_path / 'best').mkdir()
    run_dir.check_empty(str(tmp_path))
    (tmp_path / name).write_text('')
    with pytest.raises(RunError, match=f'{name.partition("/")[0]} belongs to a run with no checkpoints'):
        run_dir.check_empty(str(tmp_path))
    (tmp_path / 'model.ckpt-1.index').write_text('')
    run_dir.check_empty(str(tmp_path))


def test_rows_of_the_training_alone_are_no_results(tmp_path):
    add_training(str(tmp_path), 'train', 1, {'loss': 1.0})
    run_dir.check_empty(str(tmp_path))
    add_metrics(str(tmp_path), {'global_step': 1, 'eval': {'loss': 1.0}})
    with pytest.raises(RunError, match='metrics.csv belongs to a run with no checkpoints'):
        run_dir.check_empty(str(tmp_path))


def test_a_lock_names_its_holder_and_ends_with_its_block(tmp_path):
    holder = f'process {os.getpid()} on {socket.gethostname()}'
    for _ in range(2):
        with run_dir.lock(str(tmp_path)):
            with pytest.raises(RunError, match=f'--output_dir={tmp_path}: {holder} is training there'):
                run_dir.lock(str(tmp_path)).__enter__()
    assert run_dir.holder(str(tmp_path)) == holder and run_dir.holder(str(tmp_path / 'other')) == ''


@pytest.mark.parametrize('code', [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog, code):
    monkeypatch.setattr(fcntl, 'flock', mock.Mock(side_effect=OSError(code, os.strerror(code))))
    assert not locks.are_supported(str(tmp_path)) and not locks.are_supported('gs://bucket/run')
    with run_dir.lock(str(tmp_path)), run_dir.lock(str(tmp_path)):
        assert f'{tmp_path}: the file system does not support locks' in caplog.text
    add_metrics(str(tmp_path), {'global_step': 1, 'eval': {'loss': 2.0}})
    assert read_metric(str(tmp_path), 'eval', 'loss') == [2]
    assert caplog.text.count('does not support locks') == 1


def test_a_lock_that_cannot_be_had_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, 'flock', mock.Mock(side_effect=OSError(errno.EIO, 'Input/output error')))
    for context in (run_dir.lock(str(tmp_path)), locks.taking_turns(str(tmp_path / 'trainer'))):
        with pytest.raises(OSError) as raised, context:
            pass
        assert files.explain(raised.value) == f'{tmp_path}/trainer.lock: Input/output error'


def test_a_file_that_a_process_is_writing_or_may_be_where_there_are_no_locks_is_no_leftover(tmp_path, monkeypatch):
    left = tmp_path / f'predictions.jsonl.{"0" * 32}.part'
    left.write_text('')
    with files.atomic_path(str(tmp_path / 'predictions.jsonl')) as part, open(part, 'w') as file:
        with monkeypatch.context() as context:
            context.setattr(fcntl, 'flock', mock.Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
            checkpoints.recover(str(tmp_path))
            files.write(str(tmp_path / 'file'), 'new')
        assert left.exists()
        checkpoints.recover(str(tmp_path))
        file.write('whole')
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {'predictions.jsonl': 'whole', 'file': 'new'}

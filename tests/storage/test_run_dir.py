"""An output_dir is claimed, or refused with its name."""

import errno
import fcntl
import json
import os
import socket

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common import files
from common.errors import RunError, UsageError
from common.storage import checkpoints, run_dir
from common.storage.metrics import add_metrics, read_metric
from tests.together import run_together


def test_claim_makes_the_directory_and_leaves_nothing_in_it(tmp_path):
    run_dir.ensure_writable(str(tmp_path / 'a' / 'b'))
    assert list((tmp_path / 'a' / 'b').iterdir()) == []


def test_claim_refuses_a_file(tmp_path):
    (tmp_path / 'file').write_text('x')
    for path in (tmp_path / 'file', tmp_path / 'file' / 'below'):
        with pytest.raises(UsageError, match=f'--output_dir={path}: cannot be written'):
            run_dir.ensure_writable(str(path))


def test_a_directory_without_a_checkpoint_is_named(tmp_path):
    with pytest.raises(UsageError, match=f'--output_dir={tmp_path}: contains no checkpoint'):
        checkpoints.require_checkpoint(str(tmp_path))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable('w', initializer=1.0)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / 'model.ckpt'), global_step=3)
    checkpoints.require_checkpoint(str(tmp_path))


def test_results_replace_earlier_ones_whole(tmp_path):
    for step in (1, 2):
        run_dir.save_results(str(tmp_path), {'global_step': step})
    assert json.loads((tmp_path / 'results.json').read_text()) == {'global_step': 2}
    assert [path.name for path in tmp_path.iterdir()] == ['results.json']


def test_numbers_that_are_not_finite_are_text_as_json_has_none(tmp_path):
    values = {'loss': float('inf'), 'all': [1.5, (float('-inf'), {'deep': float('nan')})], 'text': 'inf', 'count': 3}
    run_dir.save_results(str(tmp_path), values)
    assert json.loads((tmp_path / 'results.json').read_text(), parse_constant=pytest.fail) == {
        'loss': 'Infinity',
        'all': [1.5, ['-Infinity', {'deep': 'NaN'}]],
        'text': 'inf',
        'count': 3,
    }


def test_a_file_that_is_being_replaced_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / 'file'
    path.write_text('old')
    with pytest.raises(RuntimeError):
        with files.atomic_path(str(path)) as part:
            with open(part, 'w') as file:
                file.write('new')
            raise RuntimeError
    assert path.read_text() == 'old'
    assert [path.name for path in tmp_path.iterdir()] == ['file']


@pytest.mark.parametrize('output_dir', ['/a/b', '/a/b/', 'gs://a/b/', 'b'])
def test_checkpoints_are_reported_from_those_of_others(output_dir):
    directory = output_dir.rstrip('/')
    assert checkpoints.is_of(output_dir, f'{directory}/model.ckpt-1') and checkpoints.is_of(
        output_dir, f'{directory}/best/model.ckpt-1'
    )
    assert not checkpoints.is_of(output_dir, f'{directory}/other/model.ckpt-1') and not checkpoints.is_of(
        output_dir, '/a/model.ckpt-1'
    )


def test_a_checkpoint_is_known_by_any_path_that_leads_to_it(tmp_path, monkeypatch):
    (tmp_path / 'output' / 'best').mkdir(parents=True)
    (tmp_path / 'link').symlink_to('output')
    monkeypatch.chdir(tmp_path)
    for output_dir in ('output', './output/', str(tmp_path / 'output'), 'link'):
        for directory in ('output', str(tmp_path / 'output'), f'{tmp_path}/link', 'output/best', f'{tmp_path}/link/best'):
            assert checkpoints.is_of(output_dir, f'{directory}/model.ckpt-1')
        assert not checkpoints.is_of(output_dir, f'{tmp_path}/model.ckpt-1')


def test_metrics_are_rows_in_the_order_of_the_steps(tmp_path):
    add_metrics(str(tmp_path), {'global_step': 20, 'eval': {'loss': 2.0}})
    add_metrics(str(tmp_path), {'global_step': 100, 'eval': {'loss': 1.0, 'new, "odd"': 7}, 'train': {'loss': 0.5}})
    add_metrics(str(tmp_path), {'global_step': 3, 'eval': {'loss': 3.0}})
    add_metrics(str(tmp_path), {'global_step': 20, 'eval': {'loss': 2.5}})
    assert (tmp_path / 'metrics.csv').read_text().splitlines() == [
        'global_step,split,loss,"new, ""odd"""',
        '3,eval,3.0,',
        '20,eval,2.5,',
        '100,eval,1.0,7',
        '100,train,0.5,',
    ]
    assert read_metric(str(tmp_path), 'eval', 'loss') == [3, 2.5, 1]
    assert read_metric(str(tmp_path), 'eval', 'new, "odd"') == [7]
    assert read_metric(str(tmp_path), 'eval', 'nosuch') == []


def test_metrics_that_are_not_finite_are_read_as_numbers(tmp_path):
    for step, value in enumerate(('inf', '-inf', 'nan')):
        add_metrics(str(tmp_path), {'global_step': step, 'eval': {'loss': float(value)}})
    np.testing.assert_array_equal(read_metric(str(tmp_path), 'eval', 'loss'), [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    'content',
    [
        b'garbage\n1\n',
        b'\xff\xfe',
        b'global_step,split,loss\nx,eval,1\n',
        b'global_step,split,loss\n1,eval,abc\n',
        b'global_step,split,loss\n1,eval,1,2\n',
        'global_step,split,loss\n²,eval,1\n'.encode(),
    ],
)
def test_a_damaged_table_of_metrics_is_named(tmp_path, content):
    (tmp_path / 'metrics.csv').write_bytes(content)
    with pytest.raises(RunError, match='metrics.csv: .*delete it'):
        read_metric(str(tmp_path), 'eval', 'loss')


@pytest.mark.parametrize('name', ['metrics.csv', 'best'])
def test_what_another_training_left_without_its_checkpoints_is_not_mixed_in(tmp_path, name):
    run_dir.check_empty(str(tmp_path))
    (tmp_path / name).mkdir()
    with pytest.raises(RunError, match=f'{name} belongs to a run with no checkpoints'):
        run_dir.check_empty(str(tmp_path))
    (tmp_path / 'model.ckpt-1.index').write_text('')
    run_dir.check_empty(str(tmp_path))


def test_a_lock_names_its_holder_and_ends_with_its_block(tmp_path):
    with run_dir.lock(str(tmp_path)):
        holder = f'process {os.getpid()} on {socket.gethostname()}'
        with pytest.raises(RunError, match=f'--output_dir={tmp_path}: {holder} is training there'):
            with run_dir.lock(str(tmp_path)):
                pass
    with run_dir.lock(str(tmp_path)):
        pass


def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog):
    def flock(*unused):
        raise OSError(errno.ENOSYS, 'Function not implemented')

    monkeypatch.setattr(fcntl, 'flock', flock)
    with run_dir.lock(str(tmp_path)), run_dir.lock(str(tmp_path)):
        assert f'{tmp_path}: the file system does not support locks' in caplog.text
    add_metrics(str(tmp_path), {'global_step': 1, 'eval': {'loss': 2.0}})
    assert read_metric(str(tmp_path), 'eval', 'loss') == [2]
    assert caplog.text.count('does not support locks') == 1


def test_a_remote_directory_has_no_lock():
    with run_dir.lock('ram://somewhere'), run_dir.lock('ram://somewhere'):
        pass
    tf.io.gfile.makedirs('ram://somewhere')
    add_metrics('ram://somewhere', {'global_step': 1, 'eval': {'loss': 2.0}})
    assert read_metric('ram://somewhere', 'eval', 'loss') == [2]


def test_processes_that_evaluate_at_once_lose_no_row_of_the_table(tmp_path):
    (tmp_path / 'output').mkdir()
    run_together(
        tmp_path,
        """
from common.storage import run_dir
from common.storage.metrics import add_metrics, read_metric
output_dir, first = arguments
wait_for_the_others()
for step in range(int(first), 120, 4):
    add_metrics(output_dir, {'global_step': step, 'eval': {'loss': float(step)}})
""",
        *([tmp_path / 'output', i] for i in range(4)),
    )
    assert read_metric(str(tmp_path / 'output'), 'eval', 'loss') == list(range(120))


def test_processes_that_claim_a_directory_at_once_all_find_that_it_can_be_written(tmp_path):
    run_together(
        tmp_path,
        """
from common.storage import run_dir
from common.storage.metrics import add_metrics, read_metric
wait_for_the_others()
for _ in range(500):
    run_dir.ensure_writable(arguments[0])
""",
        *([tmp_path / 'output'] for _ in range(3)),
    )
    assert list((tmp_path / 'output').iterdir()) == []


def test_a_file_that_another_process_is_writing_is_not_taken_for_a_leftover(tmp_path):
    with files.atomic_path(str(tmp_path / 'predictions.jsonl')) as part:
        with open(part, 'w') as file:
            checkpoints.recover(str(tmp_path))
            file.write('whole')
    assert (tmp_path / 'predictions.jsonl').read_text() == 'whole'
    assert [path.name for path in tmp_path.iterdir()] == ['predictions.jsonl']


def test_where_there_are_no_locks_a_file_that_may_be_written_by_another_process_stays(tmp_path, monkeypatch):
    def flock(*unused):
        raise OSError(errno.ENOLCK, 'No locks available')

    part = tmp_path / f'predictions.jsonl.{"0" * 32}.part'
    part.write_text('')
    with monkeypatch.context() as context:
        context.setattr(fcntl, 'flock', flock)
        checkpoints.recover(str(tmp_path))
        with files.atomic_path(str(tmp_path / 'file')) as own, open(own, 'w') as file:
            file.write('new')
    assert part.exists() and (tmp_path / 'file').read_text() == 'new'
    checkpoints.recover(str(tmp_path))
    assert not part.exists()


def test_a_file_that_is_taken_away_between_its_making_and_its_lock_is_made_again(tmp_path, monkeypatch):
    flock, parts = fcntl.flock, []

    def take_away(*args):
        flock(*args)
        if not parts:
            parts.append(next(tmp_path.iterdir()))
            parts[0].unlink()

    monkeypatch.setattr(fcntl, 'flock', take_away)
    with files.atomic_path(str(tmp_path / 'file')) as part:
        assert parts == [tmp_path / part]
        files.remove_abandoned(part)
        assert (tmp_path / part).exists()

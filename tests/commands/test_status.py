"""The table of runs and what each line says."""

import datetime
import errno
import os
import subprocess
import sys
import types

import pytest

from estimator_trainer.common import files
from estimator_trainer.common.commands import status as command
from estimator_trainer.common.commands.columns import align, with_notes
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.storage import status
from tests.shared import ROOT

NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)
GONE = {'pid': 2**70}
ELSEWHERE = {'host': 'node7', 'pid': 12}


def written(directory, age=5, **values):
    """Writes a status of a living process, `age` seconds old."""
    updated = (NOW - datetime.timedelta(seconds=age)).isoformat()
    values = {**status.new(), 'state': 'training', 'global_step': 4300, 'train_steps': 10000, 'updated': updated, **values}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / 'status.json').write_text(files.dumps(values))


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(status, 'now', lambda: NOW)


@pytest.mark.parametrize(
    'values, state, note',
    [
        ({}, 'training', ''),
        ({'resumed': 1}, 'training', 'resumed once'),
        ({'age': 1500}, 'training', 'no news for 25 min'),
        (GONE, 'killed?', f'process {2**70} is gone while training'),
        ({**GONE, 'state': 'evaluating'}, 'killed?', f'process {2**70} is gone while evaluating'),
        ({**ELSEWHERE, 'resumed': 2}, 'training', 'on node7, resumed twice'),
        ({**ELSEWHERE, 'age': 10000}, 'killed?', 'no news for 3 h of process 12 on node7, while training'),
        ({**ELSEWHERE, 'age': -5}, 'training', 'on node7'),
        ({**GONE, 'state': 'stopped', 'reason': 'SIGTERM'}, 'stopped', 'by SIGTERM'),
        ({**GONE, 'state': 'failed', 'reason': 'the loss\x1b is nan'}, 'failed', r'the loss\x1b is nan'),
        ({**GONE, 'state': 'finished', 'global_step': 10000}, 'finished', ''),
        ({**GONE, 'state': 'finished', 'resumed': 3}, 'finished', 'before its last step, resumed 3 times'),
    ],
)
def test_the_state_of_a_run_is_that_of_its_process(tmp_path, values, state, note):
    written(tmp_path, **values)
    row = command.describe(str(tmp_path))
    assert (row.state, row.note) == (state, note)
    (tmp_path / 'model.ckpt-4000.index').write_text('')
    assert command.describe(str(tmp_path)).note == note + '; resumes from step 4,000' * (state == 'killed?')


def test_a_line_has_step_speed_time_left_and_metrics_but_no_speed_of_the_dead(tmp_path):
    evaluation = {
        'global_step': 4000,
        'eval': {'accuracy': 0.98765, 'auc': 1.0, 'loss': 'NaN', 'v': [1]},
        'train': {'loss': 1.0},
    }
    values = {'examples/sec': 15234.2, 'seconds_left': 312.0, 'training': {'loss': 0.123456}, 'evaluation': evaluation}
    written(tmp_path, **values)
    shown = ('4,300 of 10,000', '15,234 ex/s', '5 min', '0.1235', '5 s ago', 'loss=NaN accuracy=0.9877', '')
    assert command.describe(str(tmp_path))[2:] == shown
    written(tmp_path, **values, **GONE)
    assert command.describe(str(tmp_path))[3:5] == ('', '')


def test_evaluations_of_another_process_are_those_of_metrics_csv(tmp_path):
    written(tmp_path)
    for content, shown in (
        ('', ''),
        ('global_step,split,mode,loss\n5,train,train,1.5\n', ''),
        (
            'global_step,split,auc,loss,mode\n9,eval,0.25,0.5,\n9,train,,0.125,\n5,eval,0,3,\n20,train,,8,train\n',
            '0.5 auc=0.25',
        ),
        ('global_step,split,auc,loss\n9,eval,,NaN\n10,eval,1,0.12345\n11,ev', '0.1235 auc=1'),
        ('global_step,split,loss\n9,eval,NaN\n', 'nan'),
        ('loss\n5\n', ''),
    ):
        (tmp_path / 'metrics.csv').write_text(content)
        assert command.describe(str(tmp_path)).evaluation == (f'loss={shown}' if shown else '')
    written(tmp_path, evaluation={'global_step': 4000, 'eval': {'loss': 2.0}})
    assert command.describe(str(tmp_path)).evaluation == 'loss=2'


def test_what_is_known_of_a_run_without_a_readable_status_is_said(tmp_path):
    for name in ('model.ckpt-90.index', 'model.ckpt-1200.index', 'model.ckpt-1300_temp'):
        (tmp_path / name).write_text('')
    assert command.describe(str(tmp_path))[1:3] == ('unknown', '1,200')
    assert 'older version' in command.describe(str(tmp_path)).note
    for content in (b'{"state": "trai', b'\xff', b'{}'):
        (tmp_path / 'status.json').write_bytes(content)
        row = command.describe(str(tmp_path))
        assert row[1:3] == ('unknown', '1,200') and row.note.startswith('status.json cannot be read: ')


def test_runs_are_found_by_patterns_without_following_links(tmp_path, monkeypatch):
    for name in ('a', 'b/trial-1', 'b/trial-2'):
        written(tmp_path / 'output' / name)
    (tmp_path / 'output' / 'old' / 'best').mkdir(parents=True)
    (tmp_path / 'output' / 'old' / 'hparams.json').write_text('{}')
    (tmp_path / 'output' / 'loop').symlink_to(tmp_path / 'output')
    monkeypatch.chdir(tmp_path)
    every = [f'output/{name}' for name in ('a', 'b/trial-1', 'b/trial-2', 'old')]
    assert command.find_runs('output/**') == every
    assert command.find_runs(f'{tmp_path}/output/b/*-?') == [f'{tmp_path}/{name}' for name in every[1:3]]
    assert command.find_runs('output/a/') == ['output/a']
    for nothing in ('output', 'output/x*', 'nowhere', 'output/x**'):
        with pytest.raises(UsageError, match=r'there is no run|x\*\*: \*\* stands for whole folders'):
            command.find_runs(nothing)
    with pytest.raises(UsageError, match='gs://b/x: is remote'):
        command.find_runs('gs://b/x')


def test_a_run_that_this_user_may_not_read_is_not_called_missing(tmp_path, monkeypatch):
    written(tmp_path / 'a')

    def refuse(*given, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, 'stat', refuse)  # As of a directory of another user; root may read all.
    with pytest.raises(UsageError, match=f'^{tmp_path}/a: Permission denied: this user may not read it: use the user who'):
        command.find_runs(f'{tmp_path}/a')


def test_columns_are_aligned_and_names_and_texts_are_cut_to_the_width():
    rows = [('run', 'empty', 'note'), ('output/abcdefghijklmnopqrstuvwxyz/1', '', 'x' * 30), ('a', '', '')]
    assert align(rows, 67) == ['RUN' + 34 * ' ' + 'NOTE', f'output/abcdefghijklmnopqrstuvwxyz/1  {"x" * 30}', 'a']
    assert align(rows, 42) == ['RUN' + 19 * ' ' + 'NOTE', f'output/ab...uvwxyz/1  {"x" * 17}...', 'a']
    assert align(rows, 10) == ['RUN', 'output/...', 'a']
    rows = [('run', 'step', 'evaluation'), ('output/a', '23,000 of 400,000,000', 'loss=0.2754 accuracy=0.893')]
    assert align(rows, 49)[1] == 'output/a  23,000 of 400,000,000  loss=0.2754 a...'
    assert align(rows, 48)[1] == 'output/a  23,000 of 400,000,000'
    rows = [('run', 'step', 'note'), ('output/mnist/alexnet', '1,000 of 2,000', 'x' * 20)]
    assert align(rows, 40)[1] == 'output/mnist/alexnet  1,000 of 2,000'  # A name has the room of a text that is left out.
    assert align([('run',)], 10) == [] and align([('run',), ('output/abcdefghijklmnop',)], 10) == ['RUN', 'output/...']


def test_notes_are_below_their_lines_where_they_do_not_fit():
    rows = [('run', 'state', 'note'), ('a', 'failed', 'the loss is nan'), ('b', 'training', '')]
    assert with_notes(rows, 30) == ['RUN  STATE     NOTE', 'a    failed    the loss is nan', 'b    training']
    assert with_notes(rows, 29) == ['RUN  STATE', 'a    failed', '    the loss is nan', 'b    training']
    assert with_notes(rows, 16)[2:4] == ['    the loss is', '    nan']


CODE = """
import sys
from estimator_trainer.common.commands import trainer

code = trainer.main(sys.argv)
sys.exit(3 if 'tensorflow' in sys.modules else code)
"""


def test_the_table_is_printed_whole_into_a_pipe_without_importing_tensorflow(tmp_path):
    written(tmp_path / 'a', **GONE, state='failed', reason='x' * 300)
    written(tmp_path / 'b')
    command = [sys.executable, '-c', CODE, '--schedule=status', f'--runs={tmp_path}/**']
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, '')
    header, first, second = process.stdout.splitlines()
    assert header.split() == ['RUN', 'STATE', 'STEP', 'UPDATED', 'NOTE']
    assert first.startswith(f'{tmp_path}/a  failed') and first.endswith('x' * 300)
    assert second.startswith(f'{tmp_path}/b  training  4,300 of 10,000')


def test_a_watched_table_is_printed_again_on_a_terminal_alone(tmp_path, monkeypatch, capsys):
    written(tmp_path)
    with pytest.raises(UsageError, match='--watch needs a terminal'):
        command.show(str(tmp_path), is_watched=True)
    monkeypatch.setattr(sys.stdout, 'isatty', lambda: True)
    clock = types.SimpleNamespace(sleep=lambda seconds: (tmp_path / 'status.json').unlink())
    monkeypatch.setattr(command, 'time', clock)
    with pytest.raises(UsageError, match='there is no run'):
        command.show(str(tmp_path), is_watched=True)
    assert capsys.readouterr().out.count('\x1b[H\x1b[JRUN') == 1

"""--schedule=compare prints a table of runs, and writes a page about them."""

import json
import os
import subprocess
import sys

import pytest

from estimator_trainer.common import files
from estimator_trainer.common.commands import api, compare
from estimator_trainer.common.commands.columns import in_blocks
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.report import page
from tests.commands.test_status import CODE
from tests.runs.test_report import Page
from tests.shared import ROOT

HOSTILE = '<img src=x onerror=alert(1)>'


@pytest.fixture
def output(tmp_path):
    """Returns a directory with two runs, whose names and settings are hostile."""
    for name, rate, loss in (('a', 0.5, 2), (HOSTILE, 0.25, 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / 'hparams.json').write_text(json.dumps({'learning_rate': rate, 'note': f'{rate}</td>{HOSTILE}'}))
        rows = f'global_step,split,loss,<b>\n100,eval,{loss + 1},1\n200,eval,{loss},3\n'
        (tmp_path / name / 'metrics.csv').write_text(rows)
        (tmp_path / name / 'model.ckpt-200.index').write_text('')
    return tmp_path


def test_the_table_is_printed_without_tensorflow_and_bold_only_on_a_terminal(output, capsys, monkeypatch):
    command = [sys.executable, '-c', CODE, '--schedule=compare', f'--runs={output}/*']
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, '')
    assert process.stdout.splitlines() == [
        f'RUN{" " * 27}STATE    STEP  LOSS  <B>  LEARNING_RATE  NOTE',
        f'{HOSTILE}  unknown  200   1     3    0.25           0.25</td>{HOSTILE}',
        f'a{" " * 29}unknown  200   2     3    0.5            0.5</td>{HOSTILE}',
        '',
        'Metrics are those at the lowest loss of each run.',
        f'With curves: {output}/compare.html',
    ]
    monkeypatch.setattr(sys.stdout, 'isatty', lambda: True)
    compare.show(f'{output}/*', None)
    assert 'unknown  200   \x1b[1m1\x1b[0m     3    0.25' in capsys.readouterr().out


def test_the_page_has_the_table_and_curves_and_escapes_what_is_in_the_files(output, monkeypatch):
    monkeypatch.chdir(output)
    compare.show('*', 'loss:min')
    found = Page('compare.html').check()
    header, first, second = found.rows('runs')
    assert header == ['run', 'state', 'step', 'loss', '<b>', 'learning_rate', 'note']
    assert HOSTILE in first[0] and first[1:] == ['unknown', '200', '<strong>1</strong>', '3', '0.25', f'0.25</td>{HOSTILE}']
    assert second[3] == '2' and 'Metrics are those at the lowest loss' in found.text
    charts = [attributes['aria-label'] for tag, attributes in found.elements if tag == 'svg']
    assert charts[0] == f'loss: loss by step. At their best: {HOSTILE} 1 at step 200; a 2 at step 200.'
    assert len(charts) == 2 and 'img' not in {tag for tag, _ in found.elements}
    assert not list(output.glob('*.part'))


def test_a_run_that_starts_meanwhile_does_not_delete_the_page(output, monkeypatch):
    def replace(part, path, move=os.replace):
        files.remove_abandoned(part)
        move(part, path)

    monkeypatch.setattr(os, 'replace', replace)
    compare.show(f'{output}/*', None)
    assert (output / 'compare.html').exists()


def test_the_page_has_lines_through_hostile_settings(output):
    for i in range(9):
        (output / f'{HOSTILE}{i}').mkdir()
        settings = {'learning_rate': i + 1.0, HOSTILE: f'{HOSTILE}{i % 2}'}
        (output / f'{HOSTILE}{i}' / 'hparams.json').write_text(json.dumps(settings))
        (output / f'{HOSTILE}{i}' / 'metrics.csv').write_text(f'global_step,split,loss\n100,eval,{i + 5}\n')
    compare.show(f'{output}/*', None)
    found = Page(output / 'compare.html').check()
    label = next(attributes['aria-label'] for tag, attributes in found.elements if tag == 'svg')
    assert label.startswith('Parallel coordinates: A line for each of 11 runs') and f'The best, {HOSTILE}, has' in label
    assert {row[0] for row in found.rows('settings')[1:]} == {'learning_rate', HOSTILE, 'note'}


def test_without_its_package_or_a_writable_directory_there_is_the_table_alone(output, capsys, monkeypatch):
    (output / 'compare.html').mkdir()
    with pytest.raises(RunError, match=r'/compare\.html: cannot be written: Is a directory'):
        compare.show(f'{output}/*', None)
    assert capsys.readouterr().out.count('unknown') == 2 and not list(output.glob('*.part'))
    monkeypatch.setattr(page, 'is_installed', lambda: False)
    compare.show(f'{output}/*', None)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith('No page with the curves: it needs the package jinja2: pip install jinja2')


def test_programs_get_the_rows_of_a_sweep_as_dicts(output):
    (output / 'a').rename(output / 'trial-0')
    (output / 'study.db').write_text('')
    (row,) = api.compare(str(output), 'loss:max')
    assert (row['run'], row['metrics_step'], row['metrics'], row['settings']) == ('trial-0', 100, {'<b>': 1, 'loss': 3}, {})
    for arguments, message in (
        (('nowhere',), "runs='output/"),
        ((str(output), 'loss'), '^best_metric=loss is not'),
        ((3,), 'must be a path'),
    ):
        with pytest.raises(api.UsageError, match=message):
            api.compare(*arguments)


def test_columns_that_do_not_fit_are_below_and_nothing_is_cut():
    rows = [('run', 'empty', 'loss', 'units'), ('abcdef', '', '1', '[1,2]'), ('b', '', '22', '3')]
    marks = {(2, 2): ('<', '>')}
    assert in_blocks(rows, 19, marks) == ['RUN     LOSS  UNITS', 'abcdef  1     [1,2]', 'b       <22>    3']
    wrapped = ['RUN     LOSS', 'abcdef  1', 'b       <22>', '', 'RUN     UNITS', 'abcdef  [1,2]', 'b       3']
    assert in_blocks(rows, 18, marks) == in_blocks(rows, 5, marks) == wrapped

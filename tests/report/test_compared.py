"""Comparisons: the choice of runs and metric, and the content of the table."""

import json
import os

import pytest

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.report import compared, compared_curves
from estimator_trainer.common.storage.objective import Objective

ROWS = 'global_step,split,mode,loss,accuracy\n'


def run(directory, hparams=None, flags=None, metrics='', name='', step=300):
    """Writes the files of a run, as objects or text, and returns what is read from them."""
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in (('hparams.json', hparams), ('flags.json', flags), ('metrics.csv', metrics)):
        if content:
            (directory / file).write_text(content if isinstance(content, str) else json.dumps(content))
    return compared.read_run(name or directory.name, str(directory), 'finished', step)


def runs(directory, *metrics, **facts):
    """Returns runs a, b, ... with the rows of metrics.csv below `ROWS`."""
    return [run(directory / name, metrics=ROWS + rows if rows else '', **facts) for name, rows in zip('abcd', metrics)]


def table(found, best_metric=None):
    return compared.as_table(compared.compare(found, best_metric))


def test_metrics_are_those_of_the_best_step_and_runs_are_sorted_by_them(tmp_path):
    found = runs(
        tmp_path, '100,eval,,0.5,0.75\n200,eval,,0.25,0.5\n300,eval,,1,0.9\n', '', '100,eval,,nan,\n', '300,eval,,0.125,0.25\n'
    )
    columns, rows, numbers, best = table(found)
    assert columns == ['run', 'state', 'step', 'metrics at', 'loss'] and numbers == range(2, 5)
    assert [(row[0], *row[3:]) for row in rows] == [
        ('d', '300', '0.125'),
        ('a', '200', '0.25'),
        ('b', '', ''),
        ('c', '100', 'nan'),
    ]
    assert best == {(0, 4)}
    columns, rows, _, best = table(found[:1] + found[3:], 'accuracy:max')
    assert columns[3:] == ['accuracy', 'loss']  # Each is best at its last step.
    assert [row[3:] for row in rows] == [['0.9', '1'], ['0.25', '0.125']] and best == {(0, 3), (1, 4)}
    assert [row[0] for row in table(found, 'rmse:min').rows] == ['a', 'b', 'c', 'd']


def test_the_objective_is_that_of_the_runs_if_they_agree(tmp_path):
    flags = {'best_metric': 'accuracy:max'}
    found = runs(tmp_path, '9,eval,,1,1\n', '9,eval,,2,2\n', flags=flags)
    assert compared.compare(found, None).objective == Objective('accuracy', True)
    result = compared.compare([*found, *runs(tmp_path / 'other', '9,eval,,3,3\n')], None)
    assert result.objective == Objective('loss', False)
    assert any('differ in --best_metric, and are sorted by loss' in note for note in result.notes)
    assert 'differ' not in ''.join(compared.compare(found, 'loss:min').notes)
    with pytest.raises(UsageError, match='--best_metric=loss is not of the form'):
        compared.compare(found, 'loss')


def test_the_best_value_is_marked_where_the_direction_is_known_and_values_differ():
    loss = Objective('loss', False)
    known = {name: compared.is_max(name, loss) for name in ('loss', 'weight_loss', 'mean_absolute_error', 'rmse', 'accuracy')}
    assert known == {'loss': False, 'weight_loss': False, 'mean_absolute_error': False, 'rmse': False, 'accuracy': True}
    assert compared.is_max('top_5_accuracy', loss) is compared.is_max('auc', loss) is True
    for unknown in ('accuracy_baseline', 'terror', 'loss/generator', 'label/mean', 'recognized_share'):
        assert compared.is_max(unknown, loss) is None
    assert compared.is_max('score', Objective('score', True)) is compared.is_max('rmse', Objective('rmse', True)) is True


@pytest.mark.parametrize(
    'values, marked',
    [(('1', '2', '1'), {(0, 3), (1, 3)}), (('1', '1'), set()), (('1',), set()), (('nan', '2', 'nan'), set())],
)
def test_values_that_are_all_equal_are_not_marked_and_equally_good_ones_all_are(tmp_path, values, marked):
    found = runs(tmp_path, *(f'300,eval,,{value},\n' for value in values))
    assert table(found).best == marked


def test_settings_are_those_that_differ_among_the_runs_that_have_them(tmp_path):
    common = {'batch_size': 128, 'seed': 1, 'filters': [1, 2]}
    found = [
        run(tmp_path / 'a', common, {'precision': 'float32', 'save_summary_steps': 5}),
        run(tmp_path / 'b', {**common, 'learning_rate': 0.5, 'filters': [3]}, {'precision': 'bfloat16', 'num_tasks': 2}),
        run(tmp_path / 'c', {'seed': 1, 'units': 7, 'num_epochs': 10}, {'eval_splits': ['test']}),
    ]
    columns, rows, _, _ = table(found)
    assert columns[3:] == ['learning_rate', 'filters', 'precision', 'eval_splits', 'num_tasks']
    assert [row[3:] for row in rows] == [
        ['0.001', '[1,2]', 'float32', '[eval]', '1'],
        ['0.5', '[3]', 'bfloat16', '[eval]', '2'],
        ['0.001', '', 'float32', '[test]', '1'],
    ]
    assert compared.as_dicts(compared.compare(found, None))[1] == {
        'run': 'b',
        'output_dir': str(tmp_path / 'b'),
        'state': 'finished',
        'step': 300,
        'metrics_step': None,
        'metrics': {},
        'settings': {'learning_rate': 0.5, 'filters': [3], 'precision': 'bfloat16', 'eval_splits': ['eval'], 'num_tasks': 2},
    }


def test_metrics_of_the_first_split_that_all_evaluated_runs_have_are_compared(tmp_path):
    found = [
        run(
            tmp_path / 'a',
            {},
            {'eval_splits': ['test', 'eval']},
            'global_step,split,loss,auc,v\n9,test,1,0.5,"[1, 2]"\n9,eval,2,0,\n',
        ),
        run(tmp_path / 'b', {}, {}, 'global_step,split,loss,rmse\n9,eval,3,4\n9,test,5,6\n'),
        run(tmp_path / 'c'),
    ]
    result = compared.compare(found, None)
    assert result.metrics == ['loss'] and [one and dict(one[1]) for one in result.chosen] == [
        {'loss': 1, 'auc': 0.5},
        {'loss': 3, 'rmse': 4},
        None,
    ]
    assert result.notes[1] == 'Only some runs have auc, rmse: left out.'


def test_lines_about_files_are_bounded_and_other_datasets_are_named(tmp_path):
    found = [run(tmp_path / f'{i}', {'dataset': f'd{i % 2}', 'learning_rate': 0.123456789}, '[') for i in range(12)]
    result = compared.compare(found, None)
    assert result.notes[1] == 'The runs are of different datasets: their metrics cannot be compared.'
    assert len(result.notes) == 11 and result.notes[-1] == '4 lines like these are left out.'
    assert compared.as_dicts(result)[0]['settings'] == {'dataset': 'd0'}
    found[0].settings['learning_rate'] = 0.2
    assert [row[3] for row in table(found)[1][:2]] == ['0.2', '0.123457']


def test_files_that_cannot_be_read_are_named_and_the_rest_is_shown(tmp_path):
    found = [
        run(tmp_path / 'a', '{', '[]', 'loss\n1\n', step=None),
        run(tmp_path / 'b', {'seed': 2, 'override_history': [{}]}, {}, f'{ROWS}100,eval,,0.5,0.5\n101,tr', name='<b\n>'),
    ]
    result = compared.compare(found, None)
    assert [note.partition(': ')[0] for note in result.notes[1:]] == ['<b >', 'a', 'a', 'a']
    named = ['changed on resuming', 'flags.json cannot be read', 'hparams.json cannot be read', 'metrics.csv cannot be read']
    assert all(name in note for name, note in zip(named, result.notes[1:]))
    assert [row[:5] for row in compared.as_table(result).rows] == [
        ['<b >', 'finished', '300', '100', '0.5'],
        ['a', 'finished', '', '', ''],
    ]
    assert run(tmp_path / 'b', step=None).step == 100
    os.remove(tmp_path / 'b' / 'metrics.csv')
    assert 'No run has an evaluation' in compared.compare([run(tmp_path / 'b')], None).notes[0]


def test_curves_have_a_line_for_each_of_the_first_runs_and_say_in_words_where_they_are_at_their_best(tmp_path):
    training = '1,train,train,4,\n101,train,train,2,\n'
    found = runs(tmp_path, f'{training}100,eval,,0.5,0.75\n200,eval,,1,0.5\n', '100,eval,,0.25,nan\n')
    charts, omitted = compared_curves.draw(compared.compare(found, None))
    assert [chart.title for chart in charts] == ['loss', 'accuracy', 'loss of the training'] and omitted == []
    assert [path.name for path in charts[0].paths] == ['b', 'a']
    assert charts[0].text == 'loss by step. At their best: b 0.25 at step 100; a 0.5 at step 100.'
    assert charts[2].text == 'loss of the training by step. At the end: a 2 at step 101.'
    many = [one._replace(name=f'{number}') for number in range(10) for one in found[:1]]
    assert len(compared_curves.draw(compared.compare(many, None))[0][0].paths) == 8
    assert compared_curves.draw(compared.compare([run(tmp_path / 'none')], None)) == ([], [])

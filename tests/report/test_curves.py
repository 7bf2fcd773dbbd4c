"""Curves of a run, in words, and the table of its metrics."""

import numpy as np

from estimator_trainer.common.report.curves import Best, draw, of_metrics
from estimator_trainer.common.storage.history import History
from estimator_trainer.common.storage.objective import Objective

STEPS = np.array([1, 11, 21])
TRAINING = {
    'global_step': STEPS,
    'a': np.array([1.0, 1, 1]),
    'loss': np.array([4.0, np.nan, 1.0]),
    'learning_rate': np.array([0.1, 0.1, 0.1]),
    'examples/sec': np.array([np.nan, 100, 200]),
}
EVALUATIONS = {'eval': {'global_step': STEPS, 'loss': np.array([3.0, 2.0, 2.5]), 'accuracy': np.array([0.5, np.nan, 0.75])}}


def test_loss_and_objective_come_first_and_each_chart_says_what_it_shows():
    charts, omitted = draw(History(TRAINING, EVALUATIONS), Best(Objective('accuracy', True), 'eval', 21))
    assert [chart.title for chart in charts] == ['loss', 'accuracy', 'a', 'learning rate', 'examples per second']
    marked = ' The dashed line marks the best checkpoint, of step 21.'
    assert [chart.text for chart in charts] == [
        'loss by step: training goes from 4 at step 1 to 1 at step 21; eval goes from 3 at step 1 to 2.5 at step 21.' + marked,
        'accuracy by step: eval goes from 0.5 at step 1 to 0.75 at step 21, at its best 0.75 at step 21.' + marked,
        'a by step: training stays at 1 from step 1 to 21.' + marked,
        'learning rate by step: it stays at 0.1 from step 1 to 21.',
        'examples per second by step: it goes from 100 at step 11 to 200 at step 21.',
    ]
    assert [chart.marker is None for chart in charts] == [False, False, False, True, True] and not omitted


def test_the_best_of_a_loss_is_the_least():
    charts, _ = draw(History({}, EVALUATIONS), Best(Objective('loss', False), 'eval', None))
    assert 'at its best 2 at step 11.' in charts[0].text and charts[0].marker is None


def test_a_run_without_curves_has_none():
    assert draw(History({}, {}), Best(Objective('loss', False), 'eval', None)) == ([], [])


def test_many_metrics_are_named_beyond_the_first():
    columns = {'global_step': STEPS, **{f'm{i:02}': np.arange(3.0) for i in range(30)}, 'learning_rate': np.ones(3)}
    charts, omitted = draw(History(columns, {}), Best(Objective('loss', False), 'eval', None))
    assert [chart.title for chart in charts] == [*(f'm{i:02}' for i in range(10)), 'learning rate']
    assert omitted == [f'm{i:02}' for i in range(10, 30)]


def test_details_of_the_best_f1_come_after_other_metrics():
    names = ['best_f1_threshold', 'best_f1', 'log_loss', 'best_f1_recall', 'accuracy']
    columns = {'global_step': STEPS, **dict.fromkeys(names, np.arange(3.0))}
    charts, _ = draw(History({}, {'eval': columns}), Best(Objective('loss', False), 'eval', None))
    assert [chart.title for chart in charts] == ['accuracy', 'best_f1', 'log_loss', 'best_f1_recall', 'best_f1_threshold']


def test_each_of_several_targets_has_a_curve_of_its_loss_and_its_best_f1_is_no_detail():
    names = [f'{name}{target}' for target in 'abc' for name in ('accuracy_', 'auc_', 'best_f1_', 'best_f1_recall_', 'loss/')]
    columns = {'global_step': STEPS, **dict.fromkeys(['loss', *names], np.arange(3.0))}
    charts, omitted = draw(History({}, {'eval': columns}), Best(Objective('loss', False), 'eval', None))
    assert [chart.title for chart in charts][:6] == ['loss', 'loss/a', 'loss/b', 'loss/c', 'accuracy_a', 'accuracy_b']
    assert omitted == ['best_f1_a', 'best_f1_b', 'best_f1_c', 'best_f1_recall_a', 'best_f1_recall_b', 'best_f1_recall_c']


def test_metrics_are_those_of_the_last_evaluation_of_each_split_and_of_the_best():
    evaluations = [
        {'global_step': 10, 'eval': {'loss': 1.0, 'accuracy': 0.5}, 'test': {'loss': 3.0}},
        {'global_step': 20, 'eval': {'loss': 2.0, 'accuracy': 0.25, 'vector': [1.0, 2.5]}},
    ]
    columns, rows = of_metrics(evaluations, evaluations[0])
    assert columns == ['eval, last', 'test, last', 'eval, best', 'test, best']
    assert rows == [
        ['step', '20', '10', '10', '10'],
        ['loss', '2', '3', '1', '3'],
        ['accuracy', '0.25', '', '0.5', ''],
        ['vector', '1, 2.5', '', '', ''],
    ]
    assert of_metrics(evaluations[1:], evaluations[1])[0] == ['eval, last']  # The last is the best.
    assert of_metrics([], None) == ([], [])

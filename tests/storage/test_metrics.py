"""metrics.csv, and the comparison of evaluations."""

import math

import numpy as np
import pytest

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.storage import metrics
from estimator_trainer.common.storage.metrics import add_metrics, read_evaluations, read_metric
from estimator_trainer.common.storage.objective import Objective, parse_objective

LOSS, ACCURACY = Objective('loss', False), Objective('accuracy', True)


def test_a_goal_is_a_metric_and_a_direction():
    texts = ['loss:min', 'accuracy:max', 'a:b:max']
    assert list(map(parse_objective, texts)) == [LOSS, ACCURACY, Objective('a:b', True)]
    for text in ('', 'loss', 'loss:', ':min', 'loss:least', 'loss:min '):
        with pytest.raises(UsageError, match='is not of the form METRIC:min or METRIC:max'):
            parse_objective(text)


def test_less_or_more_is_better_by_the_goal_and_anything_than_nan():
    better = [(1.0, 2.0, 0.0), (0.9, 1.5, 0.5), (1.0, math.nan, 5.0)]
    others = [(2.0, 1.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.5, 0.5), (math.nan, 1.0, 0.0), (math.nan, math.nan, 0.0)]
    for is_better, rows in ((True, better), (False, others)):
        for value, other, delta in rows:
            assert LOSS.is_better(value, other, delta) is ACCURACY.is_better(-value, -other, delta) is is_better
    assert LOSS.best([math.nan, 3.0, 1.0, 2.0, math.nan]) == 1.0
    assert ACCURACY.best([math.nan, 3.0, 1.0]) == 3.0
    assert LOSS.best([math.nan]) is None and ACCURACY.best([]) is None


def test_a_warning_names_each_metric_that_is_nan_with_its_step_and_a_reason(caplog):
    metrics.warn_of_nan({'global_step': 7, 'eval': {'accuracy': 1.0, 'auc': math.nan}, 'train': {'loss': math.nan, 'n': 1}})
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        'auc of the split eval is NaN at step 7: eval may lack a class, or have labels that are NaN, 0 or all equal.',
        'loss of the split train is NaN at step 7: an input, a label or a weight may be NaN.',
    ]


def test_evaluations_since_the_best_are_counted():
    for goal, values, min_delta, expected in (
        (LOSS, [], 0.0, 0),
        (LOSS, [3.0, 1.0, 2.0, 1.0], 0.0, 2),
        (ACCURACY, [1.0, 3.0, 2.0], 0.0, 1),
        (LOSS, [3.0, 2.9, 2.8, 2.4], 0.5, 0),
        (LOSS, [3.0, 2.9, 2.8, 2.6], 0.5, 3),
        (LOSS, [math.nan, math.nan, 1.0, math.nan], 0.0, 1),
    ):
        assert metrics.evaluations_since_best(values, goal, min_delta) == expected


def test_metrics_are_rows_in_the_order_of_the_steps(tmp_path):
    evaluations = [(20, 2.0, {}), (100, 1.0, {'new, "odd"': 7}), (3, -math.inf, {}), (20, math.nan, {})]
    for step, loss, others in evaluations:
        add_metrics(str(tmp_path), {'global_step': step, 'eval': {'loss': loss, **others}, 'train': {'loss': 0.5}})
    assert (tmp_path / 'metrics.csv').read_text().splitlines() == [
        'global_step,split,loss,"new, ""odd"""',
        '3,eval,-inf,',
        '3,train,0.5,',
        '20,eval,nan,',
        '20,train,0.5,',
        '100,eval,1.0,7',
        '100,train,0.5,',
    ]
    np.testing.assert_array_equal(read_metric(str(tmp_path), 'eval', 'loss'), [-math.inf, math.nan, 1])
    assert read_metric(str(tmp_path), 'eval', 'new, "odd"') == [7]
    assert read_metric(str(tmp_path), 'eval', 'nosuch') == []
    assert read_metric(str(tmp_path), 'train', 'loss', last_step=20) == [0.5, 0.5]


DAMAGED_ROWS = ('1,eval', 'x,eval,1', '1,eval,abc', '1,eval,1,2', '²,eval,1', '1,,1')


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'global_step,split,loss\n1,eval,0.1',
        b'garbage\n1\n',
        b'\xff\xfe',
        *(f'global_step,split,loss\n{row}\n'.encode() for row in DAMAGED_ROWS),
    ],
)
def test_a_damaged_table_of_metrics_is_named(tmp_path, content):
    (tmp_path / 'metrics.csv').write_bytes(content)
    for read in (read_evaluations, lambda path: read_metric(path, 'eval', 'loss')):
        with pytest.raises(RunError, match='metrics.csv: .*delete it'):
            read(str(tmp_path))

"""Facts about a run, in words."""

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.report import run_facts
from estimator_trainer.common.storage import run_dir, status

FINISHED = {**status.new(), 'state': 'finished', 'global_step': 40, 'train_steps': 40}


@pytest.mark.parametrize(
    'changes, patience, expected',
    [
        ({}, 0, ('finished', '')),
        ({'train_steps': 100}, 0, ('finished', 'Before its last step, 100.')),
        (
            {'train_steps': 100},
            3,
            ('stopped early', 'The metric had not improved for 3 evaluations, so training ended before step 100.'),
        ),
        ({'state': 'stopped', 'reason': 'SIGTERM'}, 0, ('stopped', 'By SIGTERM: it can resume.')),
        ({'state': 'failed', 'reason': 'no\nspace'}, 0, ('failed', 'Reason: no space.')),
        ({'state': 'training'}, 0, ('training', 'The run was not over when this report was written.')),
        ({'state': 'training', 'process_start': 'another'}, 0, ('killed', 'Its process ended while training.')),
    ],
)
def test_the_state_of_a_run(changes, patience, expected):
    assert run_facts.state_of({**FINISHED, **changes}, patience) == expected


def test_a_run_without_a_status_is_unknown(tmp_path):
    assert run_dir.read_status(str(tmp_path)) == {}
    (tmp_path / 'status.json').write_text('{')
    assert run_dir.read_status(str(tmp_path)) == {}
    assert run_facts.state_of({}, 0)[0] == 'unknown' and run_facts.time_of({}) == []


@pytest.mark.parametrize('seconds, expected', [(42.4, '42 s'), (200, '3 min 20 s'), (18720, '5 h 12 min')])
def test_durations(seconds, expected):
    assert run_facts.duration(seconds) == expected


def test_the_time_between_the_first_and_the_last_news():
    found = {**FINISHED, 'started': '2026-01-31T09:00:00+00:00', 'updated': '2026-01-31T09:20:30+00:00', 'resumed': 2}
    assert run_facts.time_of(found)[:4] == [
        ('started', '2026-01-31 09:00:00 UTC'),
        ('updated', '2026-01-31 09:20:30 UTC'),
        ('between them', '20 min 30 s'),
        ('resumed', '2 times'),
    ]


def test_the_time_of_steps_is_summed_by_part(tmp_path):
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(str(tmp_path))
    lines = [(1, {'loss': 3.0}), (11, {'step_ms/computing': 6.0, 'step_ms/input': 2.0}), (31, {'step_ms/computing': 12.0})]
    for step, scalars in lines:
        values = [tf.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        writer.add_summary(tf.Summary(value=values), step)
    writer.close()
    # 10 steps of 6 and 2 ms, and 20 of 12 ms.
    assert run_facts.time_by_part(str(tmp_path)) == [
        ('computing', pytest.approx(0.3), pytest.approx(0.3 / 0.32), pytest.approx(10)),
        ('input', pytest.approx(0.02), pytest.approx(0.02 / 0.32), pytest.approx(2 / 3)),
    ]
    assert run_facts.time_by_part(str(tmp_path / 'none')) == []


def test_settings_that_are_not_the_defaults():
    params = {'batch_size': 32, 'filters': (4, 8), 'seed': 1}
    assert run_facts.changed(params, {'filters': [16], 'batch_size': 128, 'gone': 3}) == [
        ('batch_size', '32', '128'),
        ('filters', '[4, 8]', '[16]'),
    ]
    saved = {
        'schedule': 'train',
        'eval_splits': ['a', 'b'],
        'warm_start_names': [],
        'xla': False,
        'num_towers': 2,
        'data_dir': '/d',
    }
    defaults = {
        'schedule': 'x',
        'eval_splits': ('eval',),
        'warm_start_names': (),
        'xla': False,
        'num_towers': 1,
        'data_dir': 'data',
    }
    assert run_facts.flags_of(saved, defaults) == ['--eval_splits=a,b', '--num_towers=2']
    assert run_facts.overridden([{'global_step': 1000, 'hparams': {'seed': [1, 2]}}]) == ['seed was 1 up to step 1,000, then 2']


def test_commands_can_be_pasted():
    found = dict(run_facts.commands('my runs/a;b', 300, ['*.csv', '*.tsv']))
    assert found['Predict files'] == "python trainer.py --schedule=predict --output_dir='my runs/a;b' --input='*.csv'"
    assert found['Resume, and train longer'].endswith('--train_steps=600')
    assert dict(run_facts.commands('r', 3, ['*.gif', '*.png']))['Predict files'].endswith("--input='*.png'")
    assert 'Predict files' not in dict(run_facts.commands('runs', 300, []))


def test_the_main_numbers_are_the_best_and_the_last():
    last = {'global_step': 2000, 'eval': {'auc': 0.75, 'accuracy': 0.5, 'loss': 1.5, 'vector': [1.0]}}
    best = {'global_step': 1000, 'eval': {'loss': 1.25}}
    assert run_facts.tiles(last, best, 'eval', 'loss') == [
        ('best loss', '1.25', 'eval, step 1,000'),
        ('last loss', '1.5', 'eval, step 2,000'),
        ('last accuracy', '0.5', 'eval, step 2,000'),
        ('last auc', '0.75', 'eval, step 2,000'),
    ]
    forecasts = {
        'global_step': 1,
        'eval': {'rmse_last_value': 3.0, 'rmse_last_season': 2.0, 'rmse': 1.0, 'mae': 1.0, 'loss': 1.0},
    }
    names = [name for name, *_ in run_facts.tiles(forecasts, None, 'eval', 'loss')]
    assert names == ['last loss', 'last mae', 'last rmse', 'last rmse_last_season']  # Baselines come last.
    assert run_facts.tiles(None, None, 'eval', 'loss') == []

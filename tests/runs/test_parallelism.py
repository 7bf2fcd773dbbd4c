"""Towers and threads that the flags leave open: chosen once for a run, which keeps them."""

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import write_json
from estimator_trainer.common.runs import parallelism, saved_flags
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.training.parallelism import Parallelism
from tests import linear
from tests.runs.test_experiment import make


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    """Two cores, and threads that are not made yet, whatever other tests have computed in this process."""
    monkeypatch.setattr(parallelism, 'num_cores', lambda: 2)
    monkeypatch.setattr(parallelism, 'has_threads_per_session', lambda: True)


def _found(experiment):
    session = experiment.estimator.config.session_config
    threads = session.intra_op_parallelism_threads if session else 0
    assert threads == experiment.options.intra_op_threads
    return experiment.options.num_towers, threads


@pytest.mark.parametrize(
    'expected, steps, options',
    [
        ((1, 1), 1000, {}),  # A linear model.
        ((1, 0), 999, {}),
        ((0, 0), 1000, {'schedule': 'evaluate'}),
        ((2, 0), 1000, {'num_towers': 2}),
        ((1, 2), 1000, {'intra_op_threads': 2}),
    ],
)
def test_long_trainings_get_what_the_flags_leave_open(tmp_path, expected, steps, options):
    assert _found(make(tmp_path, f'train_steps={steps}', **options)) == expected


def test_towers_are_made_and_said(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(parallelism, 'choose', lambda *arguments: Parallelism(2, 1))
    tf.logging.set_verbosity(tf.logging.INFO)
    experiment = make(tmp_path, 'train_steps=1000')
    assert _found(experiment) == (2, 1)
    assert 'Each step trains 2 towers' in caplog.text


def test_a_run_that_resumes_keeps_what_it_began_with(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, 'has_checkpoint', lambda path: True)
    for kept, options, expected in (
        ({}, {}, (1, 0)),  # A run of an older version.
        ({'parallelism': {'num_towers': 2, 'intra_op_threads': 1}}, {}, (2, 1)),
        ({'parallelism': {'num_towers': 2, 'intra_op_threads': 1}}, {'num_towers': 1}, (1, 1)),
    ):
        write_json(str(tmp_path / 'flags.json'), kept)
        assert _found(make(tmp_path, 'train_steps=1000', **options)) == expected
        saved_flags.save(str(tmp_path), {'parallelism': {'num_towers': 1, 'intra_op_threads': 0}}, 1, step=2)
        assert saved_flags.load(str(tmp_path))['parallelism'] == kept.get(
            'parallelism', {'num_towers': 1, 'intra_op_threads': 0}
        )


def test_the_error_of_a_model_is_left_to_the_training(tmp_path, monkeypatch):
    def model(features, labels, mode, params):
        raise TypeError('wrong')

    monkeypatch.setattr(linear.MODEL, 'model', model)
    assert _found(make(tmp_path, 'train_steps=1000')) == (1, 0)


def test_only_models_of_independent_examples_may_be_divided(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(parallelism, 'choose', lambda *arguments: found.append(arguments[-1]) or Parallelism())
    make(tmp_path, 'train_steps=1000')
    monkeypatch.setattr(linear.MODEL, 'INDEPENDENT_EXAMPLES', True, raising=False)
    make(tmp_path, 'train_steps=1000')
    assert found == [False, True]

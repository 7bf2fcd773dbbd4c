"""Clusters whose trainings end before their last step, as early stopping or a hook asks for."""

import pytest

from tests.cluster.conftest import STEPS
from tests.shared import assert_equal

pytestmark = pytest.mark.slow

STOPPING = ('--early_stopping_patience=1', '--early_stopping_min_delta=0.1', '--eval_every_steps=5')


def test_early_stopping_stops_all_at_the_step_of_one_process(train):
    runs = [train(count, *STOPPING) for count in (1, 2)]
    assert [run.wait() for run in runs] == [[0], [0, 0]]
    steps = [run.result(name)['global_step'] for run, name in ((runs[0], 'chief0'), (runs[1], 'chief0'), (runs[1], 'worker0'))]
    assert steps[0] < STEPS and steps == [steps[0]] * 3
    assert_equal(runs[1].weights(), runs[0].weights(), 1e-6)


def test_a_hook_stops_all_where_the_tasks_wait_for_one_another_and_is_refused_elsewhere(train):
    parts = ('--model=tests.training.model_with_parts', '--schedule=train', '--save_checkpoints_steps=10')
    runs = [train(2, *parts, f'--hparams=batch_size=12,last_step={step}') for step in (20, 15)]
    assert [run.wait() for run in runs] == [[0, 0], [2, 2]]
    assert int(runs[0].weights()['global_step']) == 20
    for task in ('chief0', 'worker0'):
        assert 'The hook of train has seen [1, 2, 3, ' in runs[0].log(task)
        assert runs[1].error(task) == (
            'trainer.py: a hook of the model stops the training after step 15: in a cluster that is possible only at the '
            'multiples of 10, where the tasks wait for the chief to save or evaluate'
        )

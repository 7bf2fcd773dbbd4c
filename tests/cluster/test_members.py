"""Messages about other tasks."""

import pytest

from estimator_trainer.common.cluster.members import Members
from estimator_trainer.common.cluster.probe import ANSWERS, FOREIGN, LOST, SILENT, UNKNOWN, UNREACHABLE
from estimator_trainer.common.cluster.sightings import Sightings

MEMBERS = Members({'h1:2222': 'chief', 'h2:2222': 'worker 0', 'h3:2222': 'worker 1'}, 'h1:2222')
B, C = 'worker 0 (h2:2222)', 'worker 1 (h3:2222)'
FROM = 'cannot be reached from chief (h1:2222)'


@pytest.mark.parametrize(
    'b, c, text',
    [
        (LOST, None, f'{B} is lost'),
        (LOST, LOST, f'{B}, {C} are lost'),
        (SILENT, UNREACHABLE, f'{B} does not answer, and {C} {FROM}'),
        (UNREACHABLE, UNREACHABLE, f'{B}, {C} {FROM}'),
        (UNKNOWN, FOREIGN, f"{B}: unknown host h2, and port 2222 of h3 is not TensorFlow's"),
    ],
)
def test_tasks_are_named_by_their_states(b, c, text):
    assert MEMBERS.describe({'h2:2222': b, 'h3:2222': c} if c else {'h2:2222': b}) == text


@pytest.mark.parametrize(
    'time, b, c, text',
    [
        (105, LOST, ANSWERS, f'{B} is lost; its own log may say why'),
        (105, LOST, UNREACHABLE, f'{B} is lost, and {C} {FROM}; their own logs may say why'),
        (116, LOST, ANSWERS, f'{B} is lost, after 15 s without a step; its own log may say why'),
        (
            116,
            LOST,
            LOST,
            f'{B}, {C} are lost, after 15 s without a step, perhaps because they could not reach one another; '
            'their own logs may say why',
        ),
    ],
)
def test_tasks_that_end_after_a_long_wait_have_lost_one_another(time, b, c, text):
    sightings = Sightings()
    sightings.complete_step(100, 0.1)
    sightings.see({'h2:2222': ANSWERS, 'h3:2222': ANSWERS}, time - 1.5, time - 1)
    sightings.see({'h2:2222': b, 'h3:2222': c}, time, time + 0.5)
    assert MEMBERS.describe_culprits(sightings.culprits(), sightings) == text


def test_missing_tasks_and_other_programs_are_named_with_the_cure():
    cure = 'for 600 seconds (--cluster_timeout): check that it runs and that its address is right'
    found = MEMBERS.describe_missing({'h2:2222': LOST, 'h3:2222': UNKNOWN}, 600)
    assert found == f'{B} {FROM}, and {C}: unknown host h3 {cure}'
    cause = 'another program answers there, or a task that has --min_tasks, unlike this one'
    cure = 'correct the address, end that program, or start all tasks with the same command'
    found = MEMBERS.describe_foreign({'h2:2222': FOREIGN, 'h3:2222': LOST})
    assert found == f"port 2222 of h2 is not TensorFlow's: {cause}: {cure}"

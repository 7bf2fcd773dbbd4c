"""Conclusions of a task from the states of the others over time; no clock runs."""

import pytest

from estimator_trainer.common.cluster.probe import ANSWERS, FOREIGN, LOST, SILENT, UNKNOWN, UNREACHABLE
from estimator_trainer.common.cluster.sightings import Sightings

TIMEOUT = 15.0


def seen(*rounds, last_step=100.0):
    """Returns the sightings of rounds (time, states of b and c) after a step."""
    sightings = Sightings()
    if last_step is not None:
        sightings.complete_step(last_step, 0.1)
    for time, *states in rounds:
        sightings.see(dict(zip('bc', states)), time, time + 0.5)
    return sightings


def test_nobody_is_asked_while_steps_complete_in_twice_their_time():
    sightings = Sightings()
    assert not sightings.is_quiet(0) and not sightings.has_trained
    sightings.complete_step(100, 0.1)
    assert sightings.is_quiet(102.9) and not sightings.is_quiet(103) and sightings.has_trained
    sightings.complete_step(110, 10)
    assert sightings.is_quiet(129) and not sightings.is_quiet(131)


@pytest.mark.parametrize(
    'rounds, is_loss',
    [
        ([(104, LOST, ANSWERS)], False),  # It may have been refused once, as it started.
        ([(104, LOST, ANSWERS), (105, ANSWERS, ANSWERS), (106, LOST, ANSWERS)], False),
        ([(104, SILENT, ANSWERS), (105, LOST, ANSWERS)], False),
        ([(104, LOST, ANSWERS), (105, LOST, ANSWERS)], True),
        ([(104, FOREIGN, ANSWERS), (105, FOREIGN, ANSWERS)], True),
        *(([(104, ANSWERS, state), (114, ANSWERS, state)], False) for state in (SILENT, UNREACHABLE, UNKNOWN)),
        *(([(104, ANSWERS, state), (115, ANSWERS, state)], True) for state in (SILENT, UNREACHABLE, UNKNOWN)),
        ([(104, UNREACHABLE, ANSWERS), (106, ANSWERS, ANSWERS), (140, ANSWERS, ANSWERS)], False),  # TCP bridges it.
        ([(112, UNREACHABLE, ANSWERS), (114, ANSWERS, ANSWERS), (124, ANSWERS, ANSWERS)], False),  # TCP may still repeat.
        ([(112, UNREACHABLE, ANSWERS), (114, ANSWERS, ANSWERS), (125, ANSWERS, ANSWERS)], True),  # gRPC has given up.
        ([(104, ANSWERS, SILENT), (112, ANSWERS, ANSWERS), (114, ANSWERS, SILENT), (120, ANSWERS, SILENT)], False),
    ],
)
def test_a_loss_is_an_end_seen_twice_or_no_answer_for_the_timeout(rounds, is_loss):
    assert seen(*rounds).has_loss(rounds[-1][0] + 0.5, TIMEOUT) == is_loss


def test_a_step_ends_all_suspicion_and_answers_of_before_do_not_count():
    sightings = seen((104, LOST, UNREACHABLE), (105, LOST, UNREACHABLE))
    assert sightings.has_loss(106, TIMEOUT) and sightings.outages == {'c': (100, 105.5)}
    sightings.complete_step(107, 0.1)
    sightings.see({'b': LOST, 'c': LOST}, 106.9, 108)
    assert not sightings.troubles and not sightings.outages


@pytest.mark.parametrize(
    'rounds, culprits',
    [
        ([(104, UNREACHABLE, ANSWERS), (112, UNREACHABLE, ANSWERS), (116, UNREACHABLE, LOST)], 'b'),  # c has seen b, and ended.
        ([(104, SILENT, ANSWERS), (112, SILENT, ANSWERS), (116, LOST, LOST)], 'b'),
        ([(104, UNREACHABLE, LOST)], 'bc'),
        ([(104, ANSWERS, ANSWERS), (115, ANSWERS, ANSWERS), (116, LOST, LOST)], 'bc'),  # They could not reach each other.
        ([(104, ANSWERS, ANSWERS)], ''),
    ],
)
def test_the_culprit_is_the_first_in_trouble(rounds, culprits):
    assert ''.join(seen(*rounds).culprits()) == culprits


def test_an_outage_is_remembered_after_its_end_with_its_times():
    sightings = seen((104, UNREACHABLE, ANSWERS), (120, UNKNOWN, ANSWERS), (125, ANSWERS, ANSWERS), (126, LOST, ANSWERS))
    assert sightings.outages == {'b': (100, 120.5)} and not sightings.troubles['b'].is_cut_off
    assert sightings.waited(sightings.troubles['b']) == 25.5
    assert seen((104, LOST, SILENT)).outages == {}
    before_training = seen((104, ANSWERS, ANSWERS), (105, LOST, SILENT), last_step=None)
    assert before_training.troubles['b'].since == 104.5 and before_training.waited(before_training.troubles['b']) == 0

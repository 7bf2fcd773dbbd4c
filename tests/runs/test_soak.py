"""The tools of tools/soak, with small counts; docs/reliability.md has what large ones gave."""

import signal

from hypothesis import HealthCheck, given, settings
import pytest

from tests import forked
from tools.soak import configurations, mutations, wrong_modules
from tools.soak.ledger import read_ledger
from tools.soak.stops import SAVE_STEPS, stop_again_and_again

pytestmark = pytest.mark.slow

EVERYTHING = ['--num_towers=2', '--steps_per_loop=7', '--hparams=ema_decay=0.9,gradient_accumulation_steps=3,cache=false']


@pytest.mark.parametrize('flags', [[], EVERYTHING], ids=['default', 'everything'])
def test_a_killed_training_resumes_as_if_nothing_had_been(flags):
    found = stop_again_and_again(times=3, inside_saves=2, number=signal.SIGKILL, flags=flags, popen=forked.Popen)
    assert found['inside_saves'] >= 1
    assert (found['same'], found['same_weights'], found['codes']) == (3, True, [-9])
    assert found['redone'] <= SAVE_STEPS


@pytest.mark.parametrize('number, code', [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_training_saves_and_loses_no_step(number, code):
    found = stop_again_and_again(times=1, inside_saves=0, number=number, flags=EVERYTHING, popen=forked.Popen)
    assert (found['same'], found['same_weights'], found['codes'], found['redone']) == (1, True, [code], 0)


def test_a_damaged_tfrecord_file_is_named_with_its_place_and_kills_nobody():
    assert mutations.read_in_processes(60) == {'named': 60, 'not named': 0, 'silent': 0, 'signal deaths': 0}


@settings(max_examples=100, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(configurations.mistakes())
def test_a_mistake_on_the_command_line_is_refused_by_its_name(mistake):
    assert configurations.is_refused(mistake), configurations.refuse(*mistake[1:])


@pytest.mark.parametrize('case', configurations.pick_modules(10), ids=range(10))
def test_a_mistake_in_a_module_is_reported_by_its_function_or_its_line(case):
    assert wrong_modules.is_reported(case), wrong_modules.run(case[1])


def test_a_ledger_is_read_as_it_was_written(tmp_path):
    (tmp_path / 'ledger').write_text('0 [39 36] [1053525520 -1]\n1 [7 8] [0 5]\n')
    assert read_ledger(tmp_path / 'ledger') == [(0, (39, 36), (1053525520, -1)), (1, (7, 8), (0, 5))]

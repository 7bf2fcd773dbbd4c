"""The table of tools.gpu_check, with outcomes that are given, and one check on the CPU."""

import subprocess
import sys

import numpy as np
import pytest

from tests import forked
from tools.gpu_check import pictures
from tools.gpu_check.checks import START, Check, Outcome, Run, make_checks
from tools.gpu_check.execution import Execution
from tools.gpu_check.table import Absent, Failure, Row, difference, make_row, markdown

ON_CPU, ON_GPU, TORCH = Run('weights', on_cpu=True), Run('weights', ('--xla',)), Run('torch')
WEIGHTS = Check('XLA', ON_GPU, ON_CPU, 0.02)
SPEED = Check('speed', Run('speed'), TORCH)


def arrays(*values):
    return Outcome({'w': np.array(values, np.float32)})


def executing(outcomes):
    """Returns an `execute` with given outcomes, of which errors are raised."""

    def execute(run):
        if isinstance(outcomes[run], Exception):
            raise outcomes[run]
        return outcomes[run]

    return execute


@pytest.mark.parametrize(
    'found, cells, is_right',
    [
        (arrays(1, 3.01), ('5.0e-03', '0.02', '', '', 'right'), True),  # 0.01 of a change of 2.
        (arrays(1, 3.1), ('5.0e-02', '0.02', '', '', 'DIFFERS'), False),
        (arrays(1, np.nan), ('nan', '0.02', '', '', 'DIFFERS'), False),
        (Outcome({'v': np.ones(2)}), ('', '', '', '', 'FAILED: other variables, or other shapes: v, w'), False),
        (arrays(1), ('', '', '', '', 'FAILED: other variables, or other shapes: w'), False),
        (Failure('out of memory'), ('', '', '', '', 'FAILED: out of memory'), False),
        (Failure('--xla requires a GPU; none'), ('', '', '', '', 'FAILED: --xla requires a GPU; none'), False),
    ],
)
def test_a_difference_beyond_the_tolerance_or_a_failure_is_a_line(found, cells, is_right):
    execute = executing({START: arrays(0, 1), ON_CPU: arrays(1, 3), ON_GPU: found})
    assert make_row(WEIGHTS, 1, execute) == Row(('XLA', *cells), is_right)


def test_what_a_machine_cannot_do_is_not_run_and_no_failure():
    refused = executing({ON_GPU: Failure('--xla requires a GPU; none is visible')})
    assert make_row(WEIGHTS, 0, refused) == Row(('XLA', *[''] * 4, 'not run: --xla requires a GPU'))
    two = Check('NCCL', Run('all_reduce'), Run('sum'), 0.0, devices=2, for_gpus=True)
    assert make_row(two, 1, refused).cells[-1] == 'not run: needs 2 GPUs, this machine has 1'
    assert make_row(two, 0, refused).cells[-1] == 'not run: needs GPUs'
    sums = {
        Run('all_reduce'): Outcome({'sum': np.array([4, 4])}, 12.345, 'GB/s'),
        Run('sum'): Outcome({'sum': np.array([4, 4])}),
    }
    assert make_row(two, 2, executing(sums)) == Row(('NCCL', '0.0e+00', '0', '12.3 GB/s', '', 'right'))


@pytest.mark.parametrize(
    'torch, beside',
    [
        (Outcome(speed=500.0), '2.47 of PyTorch'),
        (Absent('not installed'), 'PyTorch: not installed'),
        (Failure('no'), 'PyTorch: no'),
    ],
)
def test_a_speed_is_compared_with_pytorch_where_that_runs(torch, beside):
    execute = executing({Run('speed'): Outcome(speed=1234.0), TORCH: torch})
    assert make_row(SPEED, 1, execute) == Row(('speed', '', '', '1,234 examples/s', beside, 'measured'))


def test_weights_that_have_not_changed_compare_with_nothing():
    with pytest.raises(Failure, match='^no variable has changed$'):
        difference({'w': np.ones(2)}, {'w': np.ones(2)}, {'w': np.ones(2)})


def test_the_table_as_markdown():
    text = markdown({'TensorFlow': '2.21'}, [Row(('a', '', '', '', '', 'FAILED: x | y'), is_right=False)])
    assert text == (
        '- TensorFlow: 2.21\n\n| check | difference | at most | speed | compared | result |\n'
        '| --- | --- | --- | --- | --- | --- |\n| a |  |  |  |  | FAILED: x \\| y |\n'
    )


def test_each_line_has_a_name_of_its_own_and_pytorch_the_precision_and_the_device():
    checks = {check.name: check for check in make_checks(2)}
    assert len(checks) == len(make_checks(0)) == 12
    assert checks['speed: float16'].against.variant == 'float16_fused_cuda'
    assert make_checks(0)[7].against.variant == 'float32_fused'


_SUMS = """
import numpy as np
import tensorflow as tf
from tools.gpu_check import all_reduce
(cpu,) = tf.config.list_physical_devices('CPU')
tf.config.set_logical_device_configuration(cpu, 2 * [tf.config.LogicalDeviceConfiguration()])
found, seconds = all_reduce.sums(['/cpu:0', '/cpu:1'], 3000, tf.distribute.ReductionToOneDevice())
print(np.array_equal(found, 2 * [(np.arange(3000) % 1009) + (np.arange(3000, 6000) % 1009)]) and seconds > 0)
"""


def test_the_sum_of_devices_is_that_of_numpy():
    process = forked.Popen([sys.executable, '-c', _SUMS], stdout=subprocess.PIPE)
    assert process.communicate()[0] == 'True\n'


def test_two_towers_give_the_weights_of_one_process(tmp_path):
    pictures.write(str(tmp_path))
    execution = Execution(tmp_path, 0)
    (check,) = [check for check in make_checks(0) if check.name == 'two devices, by towers']
    row = make_row(check, 0, execution)
    assert row.is_right and 0 < float(row.cells[1]) < check.tolerance
    with pytest.raises(Failure, match=r'^--hparams: unknown hyper-parameter'):
        execution(Run('weights', hparams='no_such=1'))

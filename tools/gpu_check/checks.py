"""The checks: pairs of runs, and the differences that are allowed between them."""

from collections.abc import Mapping
import dataclasses

import numpy as np

STEPS = 20  # Of comparisons of weights.
SPEED_BATCH = 512


@dataclasses.dataclass(frozen=True)
class Run:
    """A process.

    Attributes:
      program: 'start', 'weights' or 'speed' of trainer.py, 'torch', 'all_reduce', or 'sum', which is NumPy's.
      flags: of trainer.py.
      hparams: of trainer.py, 'name=value'.
      variant: of benchmarks/peers/torch_nets.py.
      on_cpu: whether GPUs are hidden from it.
    """

    program: str
    flags: tuple[str, ...] = ()
    hparams: str = ''
    variant: str = ''
    on_cpu: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run yields: arrays by name, or a speed, in `unit`."""

    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    speed: float = 0.0
    unit: str = 'examples/s'


@dataclasses.dataclass(frozen=True)
class Check:
    """A line of the table.

    Attributes:
      name: of the line.
      run: what is checked.
      against: what it is compared with: the arrays if there is a tolerance, else the speed.
      tolerance: the largest difference allowed, as a share of the largest change of a weight in the training; None for none.
      devices: how many it needs; the CPU serves, too, where there are no GPUs, unless it is for_gpus.
    """

    name: str
    run: Run
    against: Run
    tolerance: float | None = None
    devices: int = 1
    for_gpus: bool = False


START = Run('start', on_cpu=True)  # 'weights' begins with its weights, since devices may draw others.
_CPU = Run('weights', on_cpu=True)
_TOWERS, _PROCESSES, _FLOAT16 = '--num_towers=2', '--local_cluster=worker:2', '--precision=float16'

# Float32 rounds by 6e-8, and the order of sums differs: up to 2e-6 on CPUs, by towers, processes, NCHW. TensorFloat-32 is off.
_FLOAT32_TOLERANCE = 1e-4
# Numbers of 11 bits round by 5e-4, in each layer, forward and backward; those of bfloat16, of 8 bits, made 3e-3 on a CPU. XLA
# may multiply in TensorFloat-32, of 11 bits.
_SHORT_TOLERANCE = 2e-2


def make_checks(gpus: int) -> list[Check]:
    """Returns all checks, for GPUs or the CPU."""

    def weights(name, *flags, hparams='', tolerance=_FLOAT32_TOLERANCE, devices=1):
        return Check(name, Run('weights', flags, hparams), _CPU, tolerance, devices)

    def speed(name, *flags, precision='float32', devices=1):
        torch = Run('torch', variant=f'{precision}_fused_cuda' if gpus else f'{precision}_fused')
        return Check(f'speed: {name}', Run('speed', flags), torch, devices=devices)

    return [
        weights('one device'),
        weights('NCHW', hparams='data_format=NCHW'),
        weights('float16 with loss scaling', _FLOAT16, tolerance=_SHORT_TOLERANCE),
        weights('XLA', '--xla', tolerance=_SHORT_TOLERANCE),
        weights('two devices, by towers', _TOWERS, devices=2),
        weights('two devices, a process each', _PROCESSES, devices=2),
        # Sums of small integers are exact in float32.
        Check('NCCL: sum of 100 MB', Run('all_reduce'), Run('sum'), 0.0, devices=2, for_gpus=True),
        speed('float32'),
        speed('float16', _FLOAT16, precision='float16'),
        speed('XLA', '--xla'),
        speed('two devices, by towers', _TOWERS, devices=2),
        speed('two devices, a process each', _PROCESSES, devices=2),
    ]

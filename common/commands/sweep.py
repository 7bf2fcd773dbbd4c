"""Searches hyper-parameters; each trial is a run, and several train in parallel.

python sweep.py --space=hparams/spaces/alexnet_mnist.json --trials=20
"""

import dataclasses
import importlib
import logging
import shlex
from typing import TYPE_CHECKING, Any

from absl import flags as absl_flags

from estimator_trainer.common import processes
from estimator_trainer.common.commands import command, flags, trainer
from estimator_trainer.common.errors import RunError, UsageError, check_all
from estimator_trainer.common.options.entry import Trait, flag
from estimator_trainer.common.options.table import MAX_DEVICES, names_with
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.sweep import forks
from estimator_trainer.hparams.defaults import MAXIMUM

if TYPE_CHECKING:
    from estimator_trainer.common.stop import StopOnSignal


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """The flags that trainer.py does not have."""

    space: str = flag(
        '',
        'Required. A JSON file with the search space: for each hyper-parameter a list of choices, or a range '
        'such as {"low": 1e-4, "high": 0.1, "log": true}.',
        group='Sweep',
        traits=Trait.PATH,
    )
    sampler: str = flag(
        'tpe',
        'How to choose the points of the space: tpe by the results of earlier trials, grid all in order. Neither repeats a '
        'point of a finite space.',
        choices=('tpe', 'grid'),
    )
    trials: int | None = flag(None, 'Total number of trials.', default_text='20; of a grid, all points', bounds=(1, MAXIMUM))
    seeds: int = flag(
        1, 'Number of seeds, from --seed on, with which each point runs; its value is their mean.', bounds=(1, MAX_DEVICES)
    )


def define_flags() -> absl_flags.FlagValues:
    """Returns the trainer's flags and the sweep's own."""
    FLAGS = flags.define(flags.define(None, SweepOptions))
    FLAGS['output_dir'].help = 'The study, and the output_dir of each trial. (default: output/DATASET/MODEL_sweep)'
    return FLAGS


def check_flags(FLAGS: absl_flags.FlagValues) -> None:
    """Raises UsageError if flags are empty or incompatible."""
    check_all([lambda: check_trial_flags(FLAGS), lambda: _check_space(FLAGS)])


def _check_space(FLAGS):
    if not FLAGS.space:
        raise UsageError('--space is missing: a JSON file of the search space, such as hparams/spaces/alexnet_mnist.json')


def check_trial_flags(FLAGS: absl_flags.FlagValues) -> None:
    """Raises UsageError if flags but --space are empty, incompatible, or not for trials."""
    check_all([lambda: _check_trials(FLAGS), lambda: trainer.check_command(FLAGS), lambda: _check_directory(FLAGS)])


def _check_trials(FLAGS):
    given = [name for name in names_with(Trait.NOT_IN_TRIALS) if FLAGS[name].present]
    if given:
        raise UsageError(
            *(f'--{name} is for trainer.py: each trial of a sweep trains and evaluates, in one process' for name in given)
        )


def _check_directory(FLAGS):
    if is_remote(FLAGS.output_dir or ''):
        raise UsageError(f'--output_dir={FLAGS.output_dir}: a sweep needs a local directory')


def run(FLAGS: absl_flags.FlagValues, stop: 'StopOnSignal', server: forks.Server | None) -> dict[str, Any]:
    """Runs the remaining trials and returns the result."""
    request = load_request()
    space = request.read_space(FLAGS.space)
    result, _ = request.run(FLAGS, stop, server, space, f'--space={FLAGS.space}')
    logging.getLogger('tensorflow').info(
        'To see the trials side by side, and which hyper-parameters matter: --schedule=compare --runs=%s',
        shlex.quote(flags.output_dir(FLAGS, flags.SWEEP_DIR)),
    )
    return result


def trials_server() -> forks.Server | None:
    """Returns the server that forks trials; None if this system has no forks. It imports TensorFlow while this process does."""
    return forks.make_server(['trials'])


def load_request() -> Any:
    """Imports `commands.sweep_request`, with TensorFlow; raises RunError if a package that only sweeps need is missing."""
    try:
        return importlib.import_module('estimator_trainer.common.commands.sweep_request')
    except ModuleNotFoundError as error:
        raise RunError(f"{error.name} is not installed: pip install 'estimator-trainer[sweep]'") from None


def main(argv: list[str]) -> int:
    """Runs a command line and returns the exit code: 0 on success, 1 on failure, 2 for wrong usage."""
    processes.keep_objects()
    server = trials_server()
    return command.execute(
        argv,
        define_flags(),
        lambda FLAGS: trainer.help_text(FLAGS, __doc__),
        check_flags,
        lambda FLAGS, stop: run(FLAGS, stop, server),
        beside=server,
    )

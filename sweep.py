"""Searches hyper-parameters; each trial is a training, and several run in parallel: python sweep.py --help"""

import signal

if __name__ == '__main__':  # Until StopOnSignal takes over, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import os
import sys
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

from absl import flags

from common.cluster import tf_config
from common.errors import UsageError
from common.files import read_json
from common.paths import check_scheme, is_remote
from common.runs import command, request
from common.runs import flags as run_flags
from common.runs.stop import StopOnSignal
from common.storage.metrics import parse_objective
from common.training.model_fn import check_hparams
from hparams import build
import trainer

try:
    from common.sweep.search import search
    from common.sweep.space import read_space
    from common.sweep.trials import TrialRunner
except ModuleNotFoundError as error:
    sys.exit(f"sweep.py: {error.name} is not installed: pip install -e '.[sweep]'")

# Flags that must be the same for trials to be comparable.
_SAME = (
    'best_metric',
    'eval_splits',
    'eval_steps',
    'eval_every_steps',
    'save_checkpoints_steps',
    'early_stopping_patience',
    'early_stopping_min_delta',
    'overfit_batches',
    'warm_start_from',
    'warm_start_names',
    'warm_start_exclude',
    'freeze',
)
# Flags of the sweep itself, and those that reach the trials in another way.
_NOT_PASSED_ON = (
    'space',
    'trials',
    'jobs',
    'model',
    'dataset',
    'output_dir',
    'hparams',
    'hparams_set',
    'train_steps',
    'num_epochs',
    'seed',
    'log_file',
)


def define_flags() -> flags.FlagValues:
    """Returns the trainer's flags and the sweep's own."""
    FLAGS = flags.FlagValues()
    flag = run_flags.FlagGroup(FLAGS, 'Sweep')
    flag.string(
        'space',
        '',
        'A JSON file of what to search: for each hyper-parameter a list of choices, or a range '
        'such as {"low": 1e-4, "high": 0.1, "log": true}.',
    )
    flag.integer('trials', 20, 'Total number of trials.', lower_bound=1, upper_bound=2**31 - 1)
    flag.integer('jobs', 1, 'Number of trials to run in parallel.', lower_bound=1, upper_bound=1024)
    run_flags.define(FLAGS)
    FLAGS['output_dir'].help = 'The study, and the output_dir of each trial. (default: output/DATASET/MODEL_sweep)'
    return FLAGS


def check_flags(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if flags are empty or incompatible."""
    for name in ('schedule', 'override_hparams', 'checkpoint', 'eval_timeout', 'input', 'predict_split', 'visualize'):
        if FLAGS[name].present:
            raise UsageError(f'--{name} is for trainer.py: a sweep trains and evaluates')
    for name in ('local_cluster', 'restarts'):
        if FLAGS[name].present:
            raise UsageError(f'--{name} is for trainer.py: each trial of a sweep trains in one process')
    run_flags.check(FLAGS)
    if not FLAGS.space:
        raise UsageError('--space is missing: a JSON file of what to search, such as hparams/spaces/alexnet_mnist.json')
    if is_remote(FLAGS.output_dir or ''):
        raise UsageError(f'--output_dir={FLAGS.output_dir}: a sweep needs a local directory')


def run(FLAGS: flags.FlagValues, stop: StopOnSignal) -> dict[str, Any]:
    """Runs the remaining trials and returns the result."""
    tf_config.refuse(os.environ, 'sweep.py')
    _, _, params = request.load(FLAGS)
    check_scheme('space', FLAGS.space)
    objective = parse_objective(FLAGS.best_metric)
    space: dict[str, Any] = read_space(FLAGS.space, params, _given(FLAGS))
    for name in space.keys() & {'optimizer', 'learning_rate_schedule'}:
        for choice in space[name].choices:
            check_hparams(build.HParams(build.override(params, '--space', {name: choice})))
    passed_on = [FLAGS[name].serialize() for name in FLAGS if FLAGS[name].present and name not in _NOT_PASSED_ON]
    trial_runner = TrialRunner(
        trainer.__file__,
        [f'--model={FLAGS.model}', f'--dataset={FLAGS.dataset}', *passed_on],
        params,
        FLAGS.output_dir or f'output/{FLAGS.dataset}/{FLAGS.model}_sweep',
        FLAGS.eval_splits[0],
        objective,
    )
    return search(trial_runner, space, _setup(FLAGS, params), FLAGS.trials, FLAGS.jobs, stop)


def _given(FLAGS):
    """Returns the names of the hyper-parameters that flags set, which must not be searched."""
    given = {*build.parse(FLAGS.hparams), *(name for name in ('train_steps', 'num_epochs', 'seed') if FLAGS[name].present)}
    return {*given, 'train_steps', 'num_epochs'} if given & {'train_steps', 'num_epochs'} else given


def _setup(FLAGS, params):
    """Returns what trials must have in common to be comparable."""
    space = {f'the space of {name}': values for name, values in read_json(FLAGS.space).items()}
    return {**params, **space, **{f'--{name}': FLAGS[name].value for name in _SAME}}


def main(argv: list[str]) -> int:
    """Runs a command line and returns the exit code: 0 on success, 1 on failure, 2 for wrong usage."""
    return command.execute(argv, define_flags(), lambda FLAGS: trainer.help_text(FLAGS, __doc__), check_flags, run)


if __name__ == '__main__':
    sys.exit(main(sys.argv))

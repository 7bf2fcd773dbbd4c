"""Trains a model on a dataset, evaluates it, predicts with it and exports it: python trainer.py --help"""

import signal

if __name__ == '__main__':  # Until StopOnSignal takes over, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import math
import os
import re
import sys
import types
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

from absl import flags

from common import paths
from common.data import manifest
from common.data.source import DataSource
from common.errors import UsageError
from common.monitoring.profiler import parse_steps
from common.plugins import loader
from common.runs import command, runner, tf_config
from common.runs.options import MAX_STEPS, from_flags
from common.runs.schedules import SCHEDULES
from common.runs.stop import StopOnSignal
from common.training.model_fn import check_hparams
from common.training.session_config import PRECISIONS
from hparams import build
from hparams.defaults import MAXIMUM

_PATHS = ('output_dir', 'data_dir', 'hparams_set', 'warm_start_from', 'checkpoint', 'input', 'visualize')
_MAX_DEVICES = 1024  # And threads: more than any machine has, but not enough to exhaust it.


def define_flags(FLAGS: flags.FlagValues | None = None) -> flags.FlagValues:
    """Adds the flags with their defaults, grouped as in --help, and returns all."""
    FLAGS = flags.FlagValues() if FLAGS is None else FLAGS

    flag = command.FlagGroup(FLAGS, 'What to run')
    flag.string('model', 'alexnet', 'A file name under models/, or a dotted module path.')
    flag.string('dataset', 'mnist', 'A file name under datasets/, or a dotted module path.')
    flag.enum(
        'schedule',
        'train_and_evaluate',
        list(SCHEDULES),
        'What to do; dry_run trains and evaluates one step, predicts a batch, and keeps no output.',
    )
    flag.boolean('help', False, 'Show this help.', short_name='h')

    flag = command.FlagGroup(FLAGS, 'Paths')
    flag.string('output_dir', None, 'Checkpoints, events, results. (default: output/DATASET/MODEL)')
    flag.string('data_dir', 'data', 'Converted data.')
    flag.boolean('verify_data', False, 'Compare the checksums of all data files, also of those that were verified before.')

    flag = command.FlagGroup(FLAGS, 'Hyper-parameters')
    flag.string('hparams', '', 'Hyper-parameters, such as learning_rate=0.01,filters=[16,32].')
    flag.string('hparams_set', '', 'A file of hparams/, or a path to a JSON file. (default: MODEL_DATASET, if it exists)')
    flag.integer(
        'train_steps',
        None,
        "The step at which training ends; takes precedence over num_epochs. (default: the set's)",
        lower_bound=1,
        upper_bound=MAXIMUM,
    )
    flag.number('num_epochs', None, "The epochs after which training ends. (default: the set's)", lower_bound=0)
    flag.integer(
        'seed',
        None,
        "One seed for Python, NumPy, TensorFlow and the order of the data. (default: the set's, or 1)",
        lower_bound=0,
        upper_bound=MAXIMUM,
    )

    flag = command.FlagGroup(FLAGS, 'Execution')
    flag.integer(
        'save_checkpoints_steps', None, 'Steps between checkpoints. (default: an epoch)', lower_bound=1, upper_bound=MAX_STEPS
    )
    flag.integer(
        'save_summary_steps', 100, 'Steps between log lines and points in TensorBoard.', lower_bound=1, upper_bound=MAX_STEPS
    )
    flag.integer(
        'keep_checkpoint_max',
        5,
        'Number of recent checkpoints to keep; 0 keeps all.',
        lower_bound=0,
        upper_bound=2**31 - 1,
    )
    flag.integer('num_gpus', 0, 'Towers, on GPUs 0 to N-1.', lower_bound=0, upper_bound=_MAX_DEVICES)
    flag.integer(
        'num_towers',
        1,
        'Towers, on GPUs if there are any, else on logical CPU devices.',
        lower_bound=1,
        upper_bound=_MAX_DEVICES,
    )

    flag.integer(
        'steps_per_loop',
        1,
        'Steps per session call: larger values are faster if a step is short.',
        lower_bound=1,
        upper_bound=2**31 - 1,
    )
    flag.enum(
        'precision',
        'float32',
        PRECISIONS,
        'The precision of matrix products and convolutions: bfloat16 is faster on CPUs that support it, float16 on GPUs.',
    )
    flag.boolean('xla', False, 'Compile with XLA; needs a GPU.')
    flag.integer(
        'inter_op_threads', 0, 'Ops that run in parallel; 0 lets TensorFlow choose.', lower_bound=0, upper_bound=_MAX_DEVICES
    )
    flag.integer(
        'intra_op_threads', 0, 'Threads within an op; 0 lets TensorFlow choose.', lower_bound=0, upper_bound=_MAX_DEVICES
    )
    flag.string('profile_steps', '', 'Steps to profile for TensorBoard, such as 100:110; the end is exclusive.')
    flag.integer(
        'overfit_batches',
        0,
        'Train on this many batches only, the first ones, to check that the model can overfit them; 0 trains on all.',
        lower_bound=0,
        upper_bound=MAX_STEPS,
    )
    flag.string('warm_start_from', '', 'Start from the weights of another training: a checkpoint, output_dir or SavedModel.')
    flag.string('freeze', '', 'Regular expression; variables whose names match it are not trained.')
    flag.boolean('debug_numerics', False, 'Stop at the first op that produces a NaN or an infinity, and name it; slower.')
    flag.boolean('full_traceback', False, "Show TensorFlow's and the framework's lines in tracebacks, too.")

    flag = command.FlagGroup(FLAGS, 'Evaluation')
    flag.integer(
        'eval_every_steps',
        None,
        'Steps between evaluations; there is always one at the end. (default: each checkpoint)',
        lower_bound=1,
        upper_bound=MAX_STEPS,
    )
    flag.integer(
        'eval_steps', 0, 'Number of evaluation batches; 0 evaluates the whole split.', lower_bound=0, upper_bound=MAX_STEPS
    )
    flag.integer(
        'eval_timeout',
        0,
        'Seconds that continuous_eval waits for the next checkpoint before it fails; 0 waits forever.',
        lower_bound=0,
        upper_bound=2**31 - 1,
    )
    flag.list('eval_splits', ['eval'], 'The splits to evaluate.')
    flag.string(
        'best_metric', 'loss:min', 'Which checkpoint to keep in output_dir/best: METRIC:min or METRIC:max, of the first split.'
    )
    flag.integer(
        'early_stopping_patience',
        0,
        'Evaluations without an improvement of best_metric after which training ends; 0 trains to the end.',
        lower_bound=0,
        upper_bound=MAX_STEPS,
    )
    flag.number('early_stopping_min_delta', 0.0, 'The least change that counts as an improvement.', lower_bound=0)
    flag.string('checkpoint', 'latest', 'What to evaluate, predict with or export: latest, best, or the path of a checkpoint.')

    flag = command.FlagGroup(FLAGS, 'Prediction')
    flag.string('input', '', "Files to predict instead of a split, of the kind that the dataset reads, such as '*.png'.")
    flag.string('predict_split', 'eval', 'The split to predict.')
    flag.string('visualize', '', 'A PNG file to write: a contact sheet of the images with their predictions.')
    return FLAGS


def check_flags(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if flags are empty or incompatible."""
    for name in ('model', 'dataset', 'data_dir', 'output_dir', 'predict_split'):
        if FLAGS[name].value == '':
            raise UsageError(f'--{name} is empty')
    for name in ('num_epochs', 'early_stopping_min_delta'):
        if FLAGS[name].value is not None and not math.isfinite(FLAGS[name].value):  # type: ignore[arg-type]
            raise UsageError(f'--{name}={FLAGS[name].value} must be a finite number')
    if not FLAGS.eval_splits or '' in FLAGS.eval_splits:
        raise UsageError(f'--eval_splits={",".join(FLAGS.eval_splits)}: a name is empty')
    for name, schedules in {
        'input': ['predict'],
        'predict_split': ['predict'],
        'visualize': ['predict'],
        'checkpoint': ['evaluate', 'predict', 'export'],
        'eval_timeout': ['continuous_eval'],
        'best_metric': ['train_and_evaluate', 'continuous_eval', 'dry_run'],
        'early_stopping_patience': ['train_and_evaluate', 'dry_run'],
        'early_stopping_min_delta': ['train_and_evaluate', 'dry_run'],
    }.items():
        if FLAGS[name].present and FLAGS.schedule not in schedules:
            raise UsageError(f'--{name} requires --schedule={" or ".join(schedules)}, not {FLAGS.schedule}')
    if FLAGS.debug_numerics and FLAGS.schedule == 'export':
        raise UsageError('--debug_numerics does not go with --schedule=export: the checks would become part of the model')
    if FLAGS.visualize and not FLAGS.visualize.lower().endswith('.png'):
        raise UsageError(f'--visualize={FLAGS.visualize} must be the name of a PNG file, such as predictions.png')
    if FLAGS.profile_steps:
        parse_steps(FLAGS.profile_steps)
    try:
        re.compile(FLAGS.freeze)
    except re.error as error:
        raise UsageError(f'--freeze={FLAGS.freeze} is not a regular expression: {error}') from None
    if FLAGS.output_dir and set('*?[]\\') & set(FLAGS.output_dir):
        raise UsageError(f'--output_dir={FLAGS.output_dir}: TensorFlow reads * ? [ ] \\ as glob patterns: use other characters')


def load(FLAGS: flags.FlagValues) -> tuple[types.ModuleType, types.ModuleType, build.HParams]:
    """Returns the model and dataset modules that the flags name, and their hyper-parameters."""
    model = loader.load('model', FLAGS.model)
    dataset = loader.load('dataset', FLAGS.dataset)
    for name in _PATHS:  # Only now, as the modules may register file systems.
        paths.check_scheme(name, FLAGS[name].value or '')
    params = build.make_hparams(
        FLAGS.model,
        model.get_params(),
        FLAGS.dataset,
        dataset.get_params(),
        FLAGS.hparams_set,
        FLAGS.hparams,
        train_steps=FLAGS.train_steps,
        num_epochs=FLAGS.num_epochs,
        seed=FLAGS.seed,
    )
    check_hparams(params)
    return model, dataset, params


def run(FLAGS: flags.FlagValues, stop: StopOnSignal) -> dict[str, Any]:
    """Runs the schedule that the flags select and returns the result."""
    tf_config.clear_local(os.environ)
    if FLAGS.verify_data:
        manifest.clear_cache()
    model, dataset, params = load(FLAGS)
    output_dir = FLAGS.output_dir or f'output/{FLAGS.dataset}/{FLAGS.model}'
    return runner.run(model, DataSource(dataset, FLAGS.data_dir, params), output_dir, from_flags(FLAGS), stop)


def main(argv: list[str]) -> int:
    """Runs a command line and returns the exit code: 0 on success, 1 on failure, 2 for wrong usage."""
    return command.execute(argv, __doc__, define_flags(), check_flags, run)


if __name__ == '__main__':
    sys.exit(main(sys.argv))

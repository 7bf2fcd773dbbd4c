"""The trainer's flags: their names, defaults and ranges, and which go together."""

from collections.abc import Mapping
import functools
import math
import os
import re
from typing import Any

from absl import flags

from common import paths
from common.cluster import local_tasks
from common.errors import UsageError
from common.plugins import loader, source
from common.runs.schedule import SCHEDULES
from common.training.options import MAX_STEPS, PRECISIONS, parse_names, parse_steps
from hparams import merge
from hparams.defaults import MAXIMUM
from hparams.sets import missing_set, set_path
from hparams.text import nearest, parse

_MAX_DEVICES = 1024  # And threads: more than any machine has, but not enough to exhaust it.


class FlagGroup:
    """Defines flags under a title of --help."""

    def __init__(self, FLAGS: flags.FlagValues, title: str):
        def define(function):
            return functools.partial(function, flag_values=FLAGS, module_name=title)

        self.string = define(flags.DEFINE_string)
        self.integer = define(flags.DEFINE_integer)
        self.number = define(flags.DEFINE_float)
        self.boolean = define(flags.DEFINE_bool)
        self.enum = define(flags.DEFINE_enum)
        self.list = define(flags.DEFINE_list)


def define(FLAGS: flags.FlagValues | None = None) -> flags.FlagValues:
    """Adds the trainer's flags with their defaults, grouped as in --help, and returns all."""
    FLAGS = flags.FlagValues() if FLAGS is None else FLAGS

    flag = FlagGroup(FLAGS, 'What to run')
    flag.string('model', 'alexnet', 'A file name under models/, or a dotted module path.')
    flag.string('dataset', 'mnist', 'A file name under datasets/, or a dotted module path.')
    flag.enum(
        'schedule',
        'train_and_evaluate',
        list(SCHEDULES),
        'What to do; dry_run trains and evaluates one step, predicts a batch, and keeps no output.',
    )
    flag.boolean('help', False, 'Show this help; with --model or --dataset, their hyper-parameters.', short_name='h')
    flag.boolean('list', False, 'List the models, the datasets and the sets of hyper-parameters.')

    flag = FlagGroup(FLAGS, 'Paths')
    flag.string('output_dir', None, 'Checkpoints, events, results. (default: output/DATASET/MODEL)')
    flag.string('data_dir', 'data', 'Converted data.')
    flag.boolean('verify_data', False, 'Compare the checksums of all data files, also of those that were verified before.')

    flag = FlagGroup(FLAGS, 'Hyper-parameters')
    flag.string('hparams', '', 'Hyper-parameters, such as learning_rate=0.01,filters=[16,32].')
    flag.string('hparams_set', '', 'A file of hparams/, or a path to a JSON file. (default: MODEL_DATASET, if it exists)')
    flag.string(
        'override_hparams',
        '',
        'Hyper-parameters that a training resumes with another value of, such as learning_rate=1e-4,batch_size=256.',
    )
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

    flag = FlagGroup(FLAGS, 'Execution')
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
    flag.list(
        'warm_start_names',
        [],
        'Variables that have other names there: OLD:NEW; OLD/:NEW/ for a whole scope; an empty side removes or adds one.',
    )
    flag.string('warm_start_exclude', '', 'Regular expression; variables whose names match it are initialized from scratch.')
    flag.string('freeze', '', 'Regular expression; variables whose names match it are not trained.')
    flag.boolean('debug_numerics', False, 'Stop at the first op that produces a NaN or an infinity, and name it; slower.')
    flag.enum('verbosity', 'info', ['debug', 'info', 'warning', 'error'], 'The least important messages that are logged.')
    flag.string('log_file', '', 'A local file to which the log is written, too.')
    flag.boolean('full_traceback', False, "Show TensorFlow's and the framework's lines in tracebacks, too.")

    flag = FlagGroup(FLAGS, 'Cluster')
    flag.number(
        'cluster_timeout',
        600.0,
        'Seconds that a task of a cluster waits for the others before it fails; longer than an evaluation takes.',
        lower_bound=1,
    )

    flag.string(
        'local_cluster',
        '',
        'Train in a cluster on this machine, a process for each task, such as worker:2 or chief:1,worker:2,ps:1,evaluator:1.',
    )
    flag.integer(
        'restarts',
        0,
        'How often the tasks of --local_cluster are started again if one fails.',
        lower_bound=0,
        upper_bound=2**31 - 1,
    )

    flag = FlagGroup(FLAGS, 'Evaluation')
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

    flag = FlagGroup(FLAGS, 'Prediction')
    flag.string('input', '', "Files to predict instead of a split, or folders of them, such as '*.png'.")
    flag.string('predict_split', 'eval', 'The split to predict.')
    flag.string('visualize', '', 'A PNG file to write: a contact sheet of the images with their predictions.')
    return FLAGS


def check(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if flags are empty or incompatible."""
    for name in ('model', 'dataset', 'data_dir', 'output_dir', 'predict_split'):
        if FLAGS[name].value == '':
            raise UsageError(f'--{name} is empty')
    for name in ('num_epochs', 'early_stopping_min_delta', 'cluster_timeout'):
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
        'local_cluster': ['train_and_evaluate', 'train'],
        'override_hparams': ['train_and_evaluate', 'train'],
    }.items():
        if FLAGS[name].present and FLAGS.schedule not in schedules:
            raise UsageError(f'--{name} requires --schedule={" or ".join(schedules)}, not {FLAGS.schedule}')
    if FLAGS.input and FLAGS['predict_split'].present:
        raise UsageError(f'--input={FLAGS.input} does not go with --predict_split={FLAGS.predict_split}: give one of the two')
    if FLAGS.debug_numerics and FLAGS.schedule == 'export':
        raise UsageError('--debug_numerics does not go with --schedule=export: the checks would become part of the model')
    if FLAGS.visualize and not FLAGS.visualize.lower().endswith('.png'):
        raise UsageError(f'--visualize={FLAGS.visualize} must be the name of a PNG file, such as predictions.png')
    if FLAGS.local_cluster:
        local_tasks.parse(FLAGS.local_cluster)
        if paths.is_remote(FLAGS.output_dir or ''):
            raise UsageError(f'--output_dir={FLAGS.output_dir}: --local_cluster needs a local directory for its logs')
    if FLAGS.restarts and not FLAGS.local_cluster:
        raise UsageError('--restarts requires --local_cluster')
    if FLAGS.profile_steps:
        parse_steps(FLAGS.profile_steps)
    for name in ('freeze', 'warm_start_exclude'):
        try:
            re.compile(FLAGS[name].value or '')
        except re.error as error:
            raise UsageError(f'--{name}={FLAGS[name].value} is not a regular expression: {error}') from None
    parse_names(FLAGS.warm_start_names)
    for name in ('warm_start_names', 'warm_start_exclude'):
        if FLAGS[name].value and not FLAGS.warm_start_from:
            raise UsageError(f'--{name} requires --warm_start_from')
    if FLAGS.output_dir and set('*?[]\\') & set(FLAGS.output_dir):
        raise UsageError(f'--output_dir={FLAGS.output_dir}: TensorFlow reads * ? [ ] \\ as glob patterns: use other characters')


def check_names(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if there is no model, dataset or set of hyper-parameters of a name, or --hparams is malformed."""
    for kind in ('model', 'dataset'):
        loader.check_name(kind, FLAGS[kind].value or '')
    name = FLAGS.hparams_set
    if name and not paths.is_remote(name) and not os.path.exists(set_path(name)):
        raise missing_set(name)
    for flag in ('hparams', 'override_hparams'):
        parse(FLAGS[flag].value or '', f'--{flag}')
    if SCHEDULES[FLAGS.schedule].trains:  # Others may take model and dataset from the output_dir.
        _check_hparams(FLAGS)


def _check_hparams(FLAGS):
    """Raises UsageError if --hparams has an unknown name or a wrong value, if that can be told without TensorFlow."""
    if not FLAGS.hparams:
        return
    model, dataset = source.read('model', FLAGS.model), source.read('dataset', FLAGS.dataset)
    if model and dataset:
        merge.add_text(merge.of_modules(FLAGS.model, model.params, FLAGS.dataset, dataset.params), FLAGS.hparams)


def from_values(values: Mapping[str, Any]) -> flags.FlagValues:
    """Returns the flags with the given values, of the flags' types; None leaves a flag at its default.

    Raises:
      UsageError: there is no such flag, or the value has another type or is out of range.
    """
    FLAGS = define()
    for name, value in values.items():
        if name not in FLAGS:
            raise UsageError(f'there is no option {name}{nearest(name, FLAGS)}')
        if value is None:
            continue
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            raise UsageError(f'{name}={value} must be a list of strings')
        try:
            FLAGS[name].parse(value)
        except flags.Error as error:
            raise UsageError(str(error)) from None
    FLAGS.mark_as_parsed()
    check(FLAGS)
    return FLAGS

"""The flags of trainer.py, one entry each, from which their definitions, checks, lists and forwarding derive."""

from collections.abc import Sequence
import dataclasses

from estimator_trainer.common.options.entry import Trait, flag, flags_of
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.values import (
    MAX_STEPS,
    check_directory,
    check_formats,
    check_intervals,
    check_splits,
    file_name,
    parse_names,
    parse_step,
    parse_steps,
    regular_expression,
)
from estimator_trainer.hparams.defaults import MAXIMUM as MAX_INT

MAX_DEVICES = 1024  # And threads: more than any machine has, but not enough to exhaust it.
PRECISIONS = ('float32', 'bfloat16', 'float16')
PATH, LOCAL_PATH, NOT_EMPTY, COMMAND_LINE = Trait.PATH, Trait.LOCAL_PATH, Trait.NOT_EMPTY, Trait.COMMAND_LINE
LAUNCHER, SAME_IN_TASKS, SAME_IN_TRIALS = Trait.LAUNCHER, Trait.SAME_IN_TASKS, Trait.SAME_IN_TRIALS
SET_IN_TRIALS, NOT_IN_TRIALS, CHANGES_RESULT, KEPT = Trait.SET_IN_TRIALS, Trait.NOT_IN_TRIALS, Trait.CHANGES_RESULT, Trait.KEPT
OF_TRAINING, OF_EVALUATION = Trait.OF_TRAINING, Trait.OF_EVALUATION
_TRAINING = ('train_and_evaluate', 'train')
_STOPPING = ('train_and_evaluate', 'dry_run')


@dataclasses.dataclass(frozen=True)
class Options:
    """The value of each flag, as given; an Experiment has the resolved paths and lengths."""

    model: str = flag(
        'alexnet',
        'A file name under models/, or the dotted path of your own module.',
        group='What to run',
        traits=NOT_EMPTY | SET_IN_TRIALS,
    )
    dataset: str = flag(
        'mnist', 'A file name under datasets/, or the dotted path of your own module.', traits=NOT_EMPTY | SET_IN_TRIALS
    )
    schedule: str = flag(
        'train_and_evaluate',
        f'What to do: {"; ".join(f"{name} {facts.help}" for name, facts in SCHEDULES.items())}.',
        choices=tuple(SCHEDULES),
        traits=NOT_IN_TRIALS | KEPT,
    )
    help: bool = flag(
        False, 'List the flags; with --model or --dataset, their hyper-parameters instead.', traits=COMMAND_LINE, short_name='h'
    )
    list: bool = flag(False, 'List the models, the datasets and the sets of hyper-parameters.', traits=COMMAND_LINE)
    version: bool = flag(False, 'Print the version.', traits=COMMAND_LINE)

    output_dir: str | None = flag(
        None,
        'Where checkpoints, event files and results go.',
        default_text='output/DATASET/MODEL',
        group='Paths',
        check=check_directory,
        traits=PATH | NOT_EMPTY | SET_IN_TRIALS,
    )
    overwrite: bool = flag(
        False,
        'Start over: delete the run in output_dir, and nothing else, before training.',
        schedules=_TRAINING,
        traits=LAUNCHER | SAME_IN_TASKS | NOT_IN_TRIALS,
    )
    from_step: int | str | None = flag(
        None,
        'Go back to the checkpoint of this step, or to the best one: what is newer moves to output_dir/abandoned, and training '
        'goes on from there. The same command, given again, resumes.',
        default_text='the latest',
        schedules=_TRAINING,
        traits=NOT_IN_TRIALS,
    )
    runs: str = flag(
        '',
        "The runs to print the status of, or to compare: a pattern of output_dirs, such as --runs='output/**' for all below "
        "output, or a sweep's output_dir.",
        default_text='output_dir; compare needs it',
        schedules=('status', 'compare'),
        excludes=('output_dir',),
        traits=PATH | COMMAND_LINE | NOT_IN_TRIALS,
    )
    watch: bool = flag(
        False,
        'Print the status again every two seconds, on a terminal, until Ctrl-C.',
        schedules=('status',),
        traits=COMMAND_LINE | NOT_IN_TRIALS,
    )
    data_dir: str = flag('data', 'Where converted data goes.', traits=PATH | NOT_EMPTY)
    verify_data: bool = flag(False, 'Compare the checksums of all data files, even those already verified.')

    hparams: str = flag(
        '', 'Hyper-parameters, such as learning_rate=0.01,filters=[16,32].', group='Hyper-parameters', traits=SET_IN_TRIALS
    )
    hparams_set: str = flag(
        '',
        'A set of hparams/, such as resnet_cifar10, or the path of a JSON file; without it MODEL_DATASET, if it exists.',
        traits=PATH | SET_IN_TRIALS,
    )
    override_hparams: str = flag(
        '',
        'Hyper-parameters to change when resuming, such as learning_rate=1e-4,batch_size=256.',
        schedules=(*_TRAINING, 'dry_run'),
        traits=NOT_IN_TRIALS,
    )
    train_steps: int | None = flag(
        None,
        'The step at which training ends; takes precedence over num_epochs.',
        default_text="the set's",
        bounds=(1, MAX_INT),
        traits=SET_IN_TRIALS,
    )
    num_epochs: float | None = flag(
        None, 'The epochs after which training ends.', default_text="the set's", bounds=(0, None), traits=SET_IN_TRIALS
    )
    seed: int | None = flag(
        None,
        'One seed for Python, NumPy, TensorFlow and the order of the data.',
        default_text="the set's, or 1",
        bounds=(0, MAX_INT),
        traits=SET_IN_TRIALS,
    )

    exclude: str | None = flag(
        None,
        'A CSV file of training records to leave out, such as suspects.csv; those with a label in the column corrected are '
        'kept, with that label.',
        default_text="the set's, or none",
        traits=PATH | SET_IN_TRIALS,
    )

    folds: int = flag(
        0,
        'Divide the training data into this many parts, and train a run for each, output_dir/fold_N, which evaluates on that '
        'part and trains on the others; 0 trains one run.',
        group='Folds',
        bounds=(0, MAX_DEVICES),
        schedules=_STOPPING,
        excludes=('local_cluster',),
        traits=LAUNCHER | NOT_IN_TRIALS,
    )
    jobs: int = flag(
        1,
        'Number of runs in parallel, of --folds or of a sweep.',
        bounds=(1, MAX_DEVICES),
        traits=LAUNCHER | SET_IN_TRIALS,
    )

    save_checkpoints_steps: int | None = flag(
        None,
        'Steps between checkpoints.',
        default_text='an epoch',
        group='Execution',
        bounds=(1, MAX_STEPS),
        traits=SAME_IN_TASKS | SAME_IN_TRIALS | KEPT | OF_TRAINING,
    )
    save_summary_steps: int = flag(
        100,
        'Steps between log lines, and between points in TensorBoard.',
        bounds=(1, MAX_STEPS),
        traits=SAME_IN_TASKS | KEPT | OF_TRAINING,
    )
    keep_checkpoint_max: int = flag(
        5, 'Number of recent checkpoints to keep; 0 keeps all.', bounds=(0, MAX_INT), traits=KEPT | OF_TRAINING
    )
    keep_checkpoint_every: int = flag(
        0,
        'Save a checkpoint at each multiple of this step, and keep it beside the recent ones; 0 for none.',
        bounds=(0, MAX_STEPS),
        traits=SAME_IN_TASKS | KEPT | OF_TRAINING,
    )
    num_gpus: int = flag(
        0,
        'Number of towers, on GPUs 0 to N-1.',
        bounds=(0, MAX_DEVICES),
        traits=CHANGES_RESULT,
    )
    num_towers: int = flag(
        0,
        'Number of towers, on GPUs if there are any, else on the CPU; 1 trains without. 0 chooses: one per core, with one '
        'thread each, for models of independent examples with products that are not small, without batch norm, on 2 '
        'to 4 cores, in runs of 1,000 steps or more in one process; else 1.',
        bounds=(0, MAX_DEVICES),
        traits=CHANGES_RESULT,
    )
    steps_per_loop: int = flag(
        0,
        'Steps to run in one session call: faster where steps are short, with the same results; not for models with stateful '
        'random ops such as tf.nn.dropout. 0 runs as many as take at most 0.2 s, in runs of 1,000 steps or more in one '
        'process, if no hooks or training step of the modules must see each.',
        bounds=(0, MAX_INT),
        traits=SAME_IN_TASKS | KEPT | OF_TRAINING,
    )
    precision: str = flag(
        'float32',
        'Compute precision of matrix products and convolutions: bfloat16 is faster on CPUs that support it; float16, with loss '
        'scaling, is for GPUs.',
        choices=PRECISIONS,
        traits=CHANGES_RESULT,
    )
    xla: bool = flag(False, 'Compile with XLA, for GPUs.', traits=CHANGES_RESULT)
    inter_op_threads: int = flag(0, 'Ops that run in parallel; 0 lets TensorFlow choose.', bounds=(0, MAX_DEVICES))
    intra_op_threads: int = flag(
        0,
        'Threads within an op. 0 chooses: one in towers that --num_towers=0 has chosen, and for models of small products, on 2 '
        'to 4 cores, in runs of 1,000 steps or more in one process; else one per core.',
        bounds=(0, MAX_DEVICES),
    )
    profile_steps: str = flag(
        '',
        'Steps to profile, such as 100:110 (the end is exclusive); viewing them in TensorBoard needs the package '
        'tensorboard-plugin-profile.',
        check=parse_steps,
        traits=SAME_IN_TASKS | OF_TRAINING,
    )
    overfit_batches: int = flag(
        0,
        'Train on only this many batches, the first ones, to see whether the model can learn them; 0 trains on all.',
        bounds=(0, MAX_STEPS),
        traits=CHANGES_RESULT | OF_TRAINING,
    )
    warm_start_from: str = flag(
        '',
        'Initialize the weights from another run: a checkpoint, an output_dir, a SavedModel, or a .h5 or .keras file of '
        'tf.keras; the log lists the loaded variables.',
        traits=PATH | SAME_IN_TRIALS | KEPT | OF_TRAINING,
    )
    warm_start_names: Sequence[str] = flag(
        (),
        'Variables that have other names there: OLD:NEW; OLD/:NEW/ for a whole scope; an empty side removes or adds a scope.',
        check=parse_names,
        requires='warm_start_from',
        traits=SAME_IN_TRIALS | KEPT | OF_TRAINING,
    )
    warm_start_exclude: str = flag(
        '',
        'Regular expression; variables whose names match it anywhere are initialized from scratch.',
        check=regular_expression('warm_start_exclude'),
        requires='warm_start_from',
        traits=SAME_IN_TRIALS | KEPT | OF_TRAINING,
    )
    freeze: str = flag(
        '',
        'Regular expression; variables whose names match it anywhere are not trained.',
        check=regular_expression('freeze'),
        traits=CHANGES_RESULT | OF_TRAINING,
    )
    record_margins: bool = flag(
        False,
        "Record each training example's margin at each step, the logit of its label minus the largest other one, by which "
        '--schedule=suspects finds wrong labels.',
        traits=SAME_IN_TASKS | KEPT | OF_TRAINING,
    )
    debug_numerics: bool = flag(
        False, 'Stop at the first op that produces a NaN or an infinity, and name it; slower.', traits=SAME_IN_TASKS
    )
    verbosity: str = flag(
        'info',
        'The lowest level of messages to log.',
        choices=('debug', 'info', 'warning', 'error'),
        traits=COMMAND_LINE | LAUNCHER,
    )
    loggers: Sequence[str] = flag(
        (),
        'Where to track the run, too: mlflow, wandb, or the dotted path of your own module; several, separated by commas.',
        schedules=(*_TRAINING, 'continuous_eval', 'report', 'dry_run'),
        traits=KEPT,
    )
    log_file: str = flag(
        '',
        'Also write the log to this local file, with the error at the end if there is one.',
        traits=LOCAL_PATH | COMMAND_LINE | LAUNCHER | SET_IN_TRIALS,
    )
    full_traceback: bool = flag(False, 'Include the lines of TensorFlow and the framework in tracebacks.', traits=COMMAND_LINE)

    cluster_timeout: float = flag(
        600.0,
        'Seconds that a task of a cluster waits for the others before it fails; must exceed the time of an evaluation.',
        group='Cluster',
        bounds=(1, None),
        traits=COMMAND_LINE,
    )
    local_cluster: str = flag(
        '',
        'Train in a cluster on this machine, a process for each task, such as worker:2 or chief:1,worker:2,ps:1,evaluator:1.',
        schedules=_TRAINING,
        traits=COMMAND_LINE | LAUNCHER | NOT_IN_TRIALS,
    )
    min_tasks: int = flag(
        0,
        'Elastic training: if tasks of a cluster are lost, the others, if at least this many, go on from the latest '
        'checkpoint; a restarted task joins at the next one. All tasks need access to output_dir. 0 stops all instead.',
        bounds=(0, MAX_DEVICES),
        schedules=_TRAINING,
        traits=COMMAND_LINE | SAME_IN_TASKS | NOT_IN_TRIALS,
    )
    restarts: int = flag(
        0,
        'How often to restart the tasks of --local_cluster if one fails: all, or with --min_tasks this one.',
        bounds=(0, MAX_INT),
        requires='local_cluster',
        traits=COMMAND_LINE | LAUNCHER | NOT_IN_TRIALS,
    )

    eval_every_steps: int | None = flag(
        None,
        'Steps between evaluations; there is always one at the end.',
        default_text='each checkpoint',
        group='Evaluation',
        bounds=(1, MAX_STEPS),
        traits=SAME_IN_TASKS | SAME_IN_TRIALS | KEPT | OF_EVALUATION,
    )
    eval_steps: int = flag(
        0,
        'Number of evaluation batches; 0 evaluates the whole split.',
        bounds=(0, MAX_STEPS),
        traits=SAME_IN_TRIALS | KEPT | OF_EVALUATION,
    )
    eval_timeout: int = flag(
        0,
        'Seconds that continuous_eval waits for the next checkpoint before it fails; 0 waits forever, and logs every minute '
        'what it waits for.',
        bounds=(0, MAX_INT),
        schedules=('continuous_eval',),
        traits=NOT_IN_TRIALS,
    )
    eval_splits: Sequence[str] = flag(
        ('eval',),
        'Splits to evaluate, such as eval,train.',
        check=check_splits,
        traits=NOT_EMPTY | SAME_IN_TRIALS | KEPT | OF_EVALUATION,
    )
    best_metric: str | None = flag(
        None,
        'The metric of the checkpoint kept in output_dir/best: METRIC:min or METRIC:max, on the first split; by which '
        'runs are compared.',
        default_text='loss:min',
        schedules=('train_and_evaluate', 'continuous_eval', 'compare', 'dry_run'),
        traits=SAME_IN_TRIALS | KEPT,
    )
    early_stopping_patience: int = flag(
        0,
        'Evaluations without a better best_metric after which training stops; 0 disables early stopping.',
        bounds=(0, MAX_STEPS),
        schedules=_STOPPING,
        traits=SAME_IN_TRIALS | KEPT,
    )
    early_stopping_min_delta: float = flag(
        0.0,
        'Smallest improvement of best_metric that counts.',
        bounds=(0, None),
        schedules=_STOPPING,
        traits=SAME_IN_TRIALS | KEPT,
    )
    checkpoint: str | None = flag(
        None,
        'The checkpoint to evaluate, predict with, export, serve, report on or rank suspects by: latest, best, or a path; to '
        'serve, also the path of an export, or of a directory of them.',
        default_text='best, if the run had --best_metric or --early_stopping_patience; else latest',
        schedules=('evaluate', 'predict', 'export', 'serve', 'report', 'suspects'),
        traits=PATH | NOT_IN_TRIALS,
    )

    input: str = flag(
        '',
        "Files to predict or evaluate, of the kind that the dataset reads, such as --input='*.png'; or folders of such files.",
        group='Prediction',
        schedules=('predict', 'evaluate'),
        excludes=('predict_split', 'eval_splits'),
        traits=PATH | NOT_IN_TRIALS,
    )
    predict_split: str = flag(
        'eval',
        'The split to predict; for a report, by default the one that the run has evaluated.',
        schedules=('predict', 'report'),
        traits=NOT_EMPTY | NOT_IN_TRIALS,
    )
    predictions: str = flag(
        '',
        'The file for the predictions, a JSON object in each line, such as predictions.jsonl.',
        default_text='output_dir/predictions.jsonl',
        check=file_name('predictions', '.jsonl', '.jsonl'),
        schedules=('predict',),
        traits=PATH | NOT_IN_TRIALS,
    )
    visualize: str = flag(
        '',
        'A PNG file to write: the first 100 images, each with its prediction, and framed in red if it is wrong.',
        check=file_name('visualize', '.png', 'PNG'),
        schedules=('predict',),
        traits=PATH | NOT_IN_TRIALS,
    )

    top: int = flag(
        0,
        'Number of suspects, those of the lowest scores; 0 lists all whose score is negative.',
        bounds=(0, MAX_INT),
        schedules=('suspects',),
        traits=NOT_IN_TRIALS,
    )

    step: str = flag(
        '',
        'A step, such as 1234, or several, from the first to the last: 1200:1234. Records are counted up to that step, or in '
        'these; a replay computes them again.',
        default_text='all of the run; a replay needs it',
        group='Past steps',
        check=parse_step,
        schedules=('replay', 'seen'),
        traits=NOT_IN_TRIALS,
    )
    record: str = flag(
        '',
        'The record whose steps to list: FILE:17, the line of a table or a text, from 1 on, or the number in a TFRecord file, '
        'from 0 on; the file of a picture; or train:17, the number in a split, from 0 on.',
        schedules=('seen',),
        traits=NOT_IN_TRIALS,
    )
    replay_dir: str = flag(
        '',
        'Where the replay of steps is written: replay.html, replay.jsonl, a contact sheet of pictures, and summaries.',
        default_text='OUTPUT_DIR-replay',
        schedules=('replay',),
        traits=PATH | NOT_IN_TRIALS,
    )

    format: Sequence[str] = flag(
        ('saved_model',),
        'What to export, of saved_model,onnx,tflite: a SavedModel, with parsing and texts; model.onnx for ONNX Runtime; '
        'model.tflite for TFLite.',
        group='Export',
        check=check_formats,
        schedules=('export',),
        traits=NOT_EMPTY | NOT_IN_TRIALS,
    )
    quantize: str | None = flag(
        None,
        'Make model.onnx and model.tflite smaller: float16 halves the weights; int8 quantizes weights and activations, '
        'by the range of the latter on examples of the training data.',
        default_text='none',
        choices=('int8', 'float16'),
        schedules=('export',),
        traits=NOT_IN_TRIALS,
    )

    port: int = flag(
        8501,
        'The port of the server; 0 takes a free one.',
        group='Serving',
        bounds=(0, 65535),
        schedules=('serve',),
        traits=NOT_IN_TRIALS,
    )
    host: str = flag(
        '127.0.0.1',
        'The address at which the server listens; 0.0.0.0 lets other machines send requests, too.',
        schedules=('serve',),
        traits=NOT_EMPTY | NOT_IN_TRIALS,
    )

    intervals: str = flag(
        '3',
        'The number of intervals between kept checkpoints to train again, chosen at random; or all.',
        group='Verification',
        check=check_intervals,
        schedules=('verify',),
        traits=NOT_EMPTY | NOT_IN_TRIALS,
    )
    export: str = flag(
        '',
        'An export of the run, in place of its checkpoints: says from which step it comes, and whether it was edited.',
        schedules=('verify',),
        traits=PATH | NOT_IN_TRIALS,
    )


TABLE = flags_of(Options)


def names_with(trait: Trait) -> list[str]:
    """Returns the names of the flags that have a trait."""
    return [name for name, entry in TABLE.items() if trait in entry.traits]

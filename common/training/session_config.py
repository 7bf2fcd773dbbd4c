"""Session configuration: devices, precision, compilation, threads, seed."""

import os

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import ALONE, TrainingTask
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training.parallel import tower_devices

_MANY = 32


def make_run_config(output_dir: str, seed: int, options: Options, task: TrainingTask = ALONE) -> 'tf.estimator.RunConfig':
    """Returns the tf.estimator.RunConfig of a run.

    Args:
      output_dir: its model_dir.
      seed: TensorFlow's; the tasks of a cluster draw different numbers.

    Raises:
      UsageError: the machine does not support the requested options.
    """
    config = tf.estimator.RunConfig(
        model_dir=output_dir,
        tf_random_seed=seed,
        session_config=make_session_config(options),
        save_summary_steps=0,  # common/monitoring/summaries.py writes summaries and log lines.
        log_step_count_steps=None,
        save_checkpoints_secs=None,  # common/training/saving.py saves them.
        keep_checkpoint_max=options.keep_checkpoint_max,
    )
    return task.run_config(config)


def make_session_config(options: Options) -> tf.ConfigProto | None:
    """Returns the tf.ConfigProto for the options, or None if they are TensorFlow's defaults.

    bfloat16 and float16 use TensorFlow's auto mixed precision graph rewrite, for bfloat16 on CPUs and for float16 on GPUs:
    matrix products, convolutions and the ops between them compute in the lower precision, the rest, such as sums, losses and
    the weights, in float32. Checkpoints and exported models are the same. For the loss scaling of float16, see
    common/training/optimizer.py.

    Raises:
      UsageError: the available devices do not support the towers, the precision or XLA.
    """
    tower_devices(options)  # A wrong number is found before there is a directory of the run.
    has_gpus = bool(tf.config.list_physical_devices('GPU'))
    if options.xla and not has_gpus:
        raise UsageError('--xla requires a GPU; none is visible. XLA would be slower on CPUs: omit the flag')
    if options.precision == 'bfloat16' and has_gpus:
        raise UsageError(
            '--precision=bfloat16 requires a CPU, but GPUs are visible: omit it, or hide them with CUDA_VISIBLE_DEVICES=-1'
        )
    if options.precision == 'float16' and not has_gpus:
        raise UsageError('--precision=float16 requires a GPU; none is visible: use --precision=bfloat16 on CPUs')
    config = tf.ConfigProto(allow_soft_placement=True)
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriting.ONE  # As in the Estimator's default.
    default = config.SerializeToString()
    if options.precision == 'bfloat16':
        rewriting.auto_mixed_precision_onednn_bfloat16 = rewriting.ON
    if options.precision == 'float16':
        rewriting.auto_mixed_precision = rewriting.ON
    if options.xla:
        config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    _set_threads(config, options)
    return None if config.SerializeToString() == default else config


def _set_threads(config, options):
    """Sets the numbers of threads if they are given; by default, a session has one per core."""
    config.inter_op_parallelism_threads = options.inter_op_threads
    config.use_per_session_threads = options.inter_op_threads > 0
    config.intra_op_parallelism_threads = options.intra_op_threads
    os.environ['TF_OVERRIDE_GLOBAL_THREADPOOL'] = '1'  # Read when a process makes its first device.
    # oneDNN's functions for the gradients of filters are kept, instead of made anew in each step.
    os.environ.setdefault('TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE', 'false')
    if options.intra_op_threads:
        if not has_threads_per_session():
            tf.logging.warning(
                '--intra_op_threads=%d has no effect: TensorFlow has already made the threads of this process: give it in a '
                'new one, before anything is computed.',
                options.intra_op_threads,
            )


def has_threads_per_session() -> bool:
    """Whether sessions have threads of their own within ops; True if that cannot be seen."""
    threads, counts = '/proc/self/task', []
    if not os.path.isdir(threads):
        return True
    for count in (1, _MANY):
        config = tf.ConfigProto(intra_op_parallelism_threads=count, device_count={'GPU': 0})
        with tf.Session(graph=tf.Graph(), config=config):
            counts.append(len(os.listdir(threads)))
    return counts[1] - counts[0] >= _MANY // 2  # Other threads may come and go.

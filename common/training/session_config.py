"""How sessions run a graph: devices, precision, compilation, threads, seed."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training.parallel import tower_devices

PRECISIONS = ('float32', 'bfloat16', 'float16')


def make_run_config(output_dir, seed, options):
    """Returns the tf.estimator.RunConfig of a run.

    Args:
      output_dir: str.
      seed: int, TensorFlow's.
      options: TrainingOptions.

    Raises:
      UsageError: the machine does not have what the options ask for.
    """
    return tf.estimator.RunConfig(
        model_dir=output_dir,
        tf_random_seed=seed,
        session_config=make_session_config(tower_devices(options), options),
        save_summary_steps=0,  # common/monitoring/summaries.py writes them, and the log.
        log_step_count_steps=None,
        keep_checkpoint_max=options.keep_checkpoint_max,
    )


def make_session_config(devices, options):
    """Returns the tf.ConfigProto for what is asked, or None where TensorFlow's own choices are.

    With bfloat16 or float16, matrix products, convolutions and what lies between them compute in it, and the rest, such as
    sums, losses and the weights, in float32: TensorFlow's rewriting of graphs, of which that to bfloat16 is for CPUs and
    that to float16 for GPUs. Checkpoints and exported models do not differ. What float16 has to have in training is in
    common/training/optimizer.py.

    Args:
      devices: list of str, those of the towers, which `tower_devices` chose.
      options: TrainingOptions.

    Raises:
      UsageError: the precision or the compiler is not for the devices that there are.
    """
    has_gpus = bool(tf.config.list_physical_devices('GPU'))
    if options.xla and not has_gpus:
        raise UsageError('--xla requires a GPU; none is visible, and on CPUs it would be slower: omit it')
    if options.precision == 'bfloat16' and has_gpus:
        raise UsageError(
            '--precision=bfloat16 requires a CPU, but GPUs are visible: omit it, or hide them with CUDA_VISIBLE_DEVICES=-1'
        )
    if options.precision == 'float16' and not has_gpus:
        raise UsageError('--precision=float16 requires a GPU; none is visible: use --precision=bfloat16 on CPUs')
    config = tf.ConfigProto(allow_soft_placement=True)
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriting.ONE  # As in the Estimator's own.
    default = config.SerializeToString()
    on_cpus = [device for device in devices if '/cpu' in device]
    if on_cpus:
        config.device_count['CPU'] = len(on_cpus)
    if options.precision == 'bfloat16':
        rewriting.auto_mixed_precision_onednn_bfloat16 = rewriting.ON
    if options.precision == 'float16':
        rewriting.auto_mixed_precision = rewriting.ON
    if options.xla:
        config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    config.inter_op_parallelism_threads = options.inter_op_threads
    config.intra_op_parallelism_threads = options.intra_op_threads
    return None if config.SerializeToString() == default else config

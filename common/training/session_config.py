"""How sessions run a graph: devices, precision, compilation, threads."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError

PRECISIONS = ('float32', 'bfloat16', 'float16')


def make_session_config(devices, precision='float32', xla=False, inter_op_threads=0, intra_op_threads=0):
    """Returns the tf.ConfigProto for what is asked, or None where TensorFlow's own choices are.

    With bfloat16 or float16, matrix products, convolutions and what lies between them compute in it, and the rest, such as
    sums, losses and the weights, in float32: TensorFlow's rewriting of graphs, of which that to bfloat16 is for CPUs and
    that to float16 for GPUs. Checkpoints and exported models do not differ. What float16 has to have in training is in
    common/training/optimizer.py.

    Args:
      devices: list of str, those of the towers, which `common.training.parallel.tower_devices` chose.
      precision: one of PRECISIONS.
      xla: bool, whether to compile what the compiler takes.
      inter_op_threads, intra_op_threads: int, threads for ops, and within one; 0 leaves it to TensorFlow.

    Raises:
      UsageError: the precision or the compiler is not for the devices that there are.
    """
    has_gpus = bool(tf.config.list_physical_devices('GPU'))
    if xla and not has_gpus:
        raise UsageError(
            '--xla compiles for GPUs, of which TensorFlow sees none here; on CPUs it would be slower: leave it out'
        )
    if precision == 'bfloat16' and has_gpus:
        raise UsageError(
            '--precision=bfloat16 is for CPUs, and TensorFlow sees GPUs here: leave it out, or hide them with '
            'CUDA_VISIBLE_DEVICES=-1'
        )
    if precision == 'float16' and not has_gpus:
        raise UsageError(
            '--precision=float16 is for GPUs, of which TensorFlow sees none here: --precision=bfloat16 is for CPUs'
        )
    config = tf.ConfigProto(allow_soft_placement=True)
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriting.ONE  # As in the Estimator's own.
    default = config.SerializeToString()
    on_cpus = [device for device in devices if '/cpu' in device]
    if on_cpus:
        config.device_count['CPU'] = len(on_cpus)
    if precision == 'bfloat16':
        rewriting.auto_mixed_precision_onednn_bfloat16 = rewriting.ON
    if precision == 'float16':
        rewriting.auto_mixed_precision = rewriting.ON
    if xla:
        config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    config.inter_op_parallelism_threads = inter_op_threads
    config.intra_op_parallelism_threads = intra_op_threads
    return None if config.SerializeToString() == default else config

"""tf.contrib.tfprof.model_analyzer: the size and the time of a model."""

import tensorflow.compat.v1 as tf

_builder = tf.profiler.ProfileOptionBuilder
TRAINABLE_VARS_PARAMS_STAT_OPTIONS = _builder.trainable_variables_parameter()
FLOAT_OPS_OPTIONS = _builder.float_operation()
PRINT_ALL_TIMING_MEMORY = _builder.time_and_memory()


def print_model_analysis(graph, run_meta=None, op_log=None, tfprof_cmd='scope', tfprof_options=None):
    """Prints the analysis, and returns its protocol buffer."""
    return tf.profiler.profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options or TRAINABLE_VARS_PARAMS_STAT_OPTIONS)

"""Replacements of names that TensorFlow 2 does not have, nor this package."""

_FORESTS = 'the package tensorflow_decision_forests'
_IO = 'the package tensorflow-io'
_PROBABILITY = 'the package tensorflow-probability'
_ADDONS = 'the package tensorflow-addons'
_OPTIMIZATION = 'the package tensorflow-model-optimization'
_NOTHING = 'nothing replaces it'
_TPU = 'nothing: there are no TPUs'
# {path, of which the longest that a name begins with counts: what to use}
CONTRIB = {
    'all_reduce': 'tf.distribute',
    'batching': 'tf.nondifferentiable_batch_function',
    'bayesflow': _PROBABILITY,
    'bigtable': _IO,
    'boosted_trees': _FORESTS,
    'cloud': _IO,
    'coder': 'the package tensorflow-compression',
    'constrained_optimization': 'the package tensorflow-constrained-optimization',
    'copy_graph': 'tf.import_graph_def',
    'data': 'tf.data.experimental',
    'decision_trees': _FORESTS,
    'distributions': _PROBABILITY,
    'eager': 'tf.GradientTape, tf.Variable and tf.function',
    'estimator.boosted_trees_classifier_train_in_memory': _FORESTS,
    'estimator.boosted_trees_regressor_train_in_memory': _FORESTS,
    'factorization': 'tf.estimator.experimental.KMeans for clusters; a matrix factorization in tf ops',
    'ffmpeg': _IO,
    'fused_conv': _NOTHING,
    'gan': 'the package tensorflow-gan',
    'graph_editor': 'tf.import_graph_def with input_map, or tf.graph_util',
    'grid_rnn': _NOTHING,
    'hadoop': _IO,
    'ignite': _IO,
    'image': _ADDONS,
    'input_pipeline': 'tf.data',
    'integrate': _PROBABILITY,
    'kafka': _IO,
    'keras': 'tf.keras',
    'kernel_methods': _NOTHING,
    'kfac': 'the package kfac',
    'kinesis': _IO,
    'labeled_tensor': _NOTHING,
    'learn': 'tf.estimator',
    'libsvm': _IO,
    'linear_optimizer': 'tf.estimator.experimental.LinearSDCA',
    'memory_stats': 'tf.config.experimental.get_memory_info',
    'mixed_precision': 'tf.mixed_precision',
    'model_pruning': _OPTIMIZATION,
    'mpi': 'the package horovod',
    'mpi_collectives': 'the package horovod',
    'nccl': 'tf.distribute.NcclAllReduce',
    'nearest_neighbor': 'the package scann',
    'opt': 'the optimizers of tf.train or tf.keras.optimizers.legacy',
    'optimizer_v2': 'tf.keras.optimizers.legacy',
    'periodic_resample': 'tf.nn.depth_to_space',
    'quantize': _OPTIMIZATION,
    'receptive_field': _NOTHING,
    'recurrent': 'tf.while_loop',
    'reduce_slice_ops': 'tf.math.segment_sum',
    'resampler': f'{_ADDONS}: image.resampler, on TensorFlow 2.15 only',
    'rpc': _NOTHING,
    'saved_model.load_keras_model': 'tf.keras.models.load_model',
    'saved_model.save_keras_model': 'tf.keras.models.save_model',
    'session_bundle': 'tf.saved_model',
    'solvers': 'tf.linalg.experimental.conjugate_gradient',
    'specs': _NOTHING,
    'tensor_forest': _FORESTS,
    'testing': 'tf.test',
    'text': f'{_ADDONS}: text.skip_gram_sample, on TensorFlow 2.15 only',
    'tfprof.ProfileContext': 'tf.train.ProfilerHook',
    'timeseries': _NOTHING,
    'tpu': _TPU,
    'verbs': _NOTHING,
}
# Names of TensorFlow before 1.0.
_BEFORE_1 = {
    'audio_summary': 'tf.summary.audio',
    'batch_matmul': 'tf.matmul',
    'complex_abs': 'tf.abs',
    'concat_v2': 'tf.concat',
    'histogram_summary': 'tf.summary.histogram',
    'image_summary': 'tf.summary.image',
    'inv': 'tf.reciprocal',
    'listdiff': 'tf.setdiff1d',
    'merge_all_summaries': 'tf.summary.merge_all',
    'merge_summary': 'tf.summary.merge',
    'models.rnn': 'tf.contrib.rnn',
    'mul': 'tf.multiply',
    'neg': 'tf.negative',
    'pack': 'tf.stack',
    'python.ops.rnn_cell': 'tf.nn.rnn_cell',
    'python.ops.seq2seq': 'tf.contrib.legacy_seq2seq',
    'scalar_summary': 'tf.summary.scalar',
    'select': 'tf.where',
    'sub': 'tf.subtract',
    'train.SummaryWriter': 'tf.summary.FileWriter',
    'unpack': 'tf.unstack',
}
_OTHERS = {
    'examples': 'tf.keras.datasets',
    'python.keras': 'tf.keras',
    'tpu': _TPU,
}
TABLE = {**_BEFORE_1, **_OTHERS, **{f'contrib.{name}': what for name, what in CONTRIB.items()}}


def replacement(path: str) -> str:
    """Returns what to do about a name, such as contrib.kfac.optimizer, of the module tensorflow; '' if that is not known.

    It is a name of `tf`, 'use ...' or 'nothing ...'.
    """
    parts = path.split('.')
    prefixes = ('.'.join(parts[:end]) for end in range(len(parts), 0, -1))
    found = next((TABLE[prefix] for prefix in prefixes if prefix in TABLE), '')
    is_name = found.startswith('tf.') and ' ' not in found
    return found if is_name or not found or found.startswith('nothing') else f'use {found}'


def absent(path: str) -> str:
    """Returns the message of an error about a name of the module tensorflow."""
    found = replacement(path)
    advice = f'use {found}' if found.startswith('tf.') else found or 'docs/porting.md has a table of what replaces such names'
    return f'tf.{path}: TensorFlow 2 does not have it; {advice}'

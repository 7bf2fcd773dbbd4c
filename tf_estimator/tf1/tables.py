"""Tables of where the names of tf.contrib live today."""

DISTRIBUTIONS = {'tf_slim': 'tf-slim', 'tensorflow_gan': 'tensorflow-gan', 'tensorflow_probability': 'tensorflow-probability'}

_OWN = 'tf_estimator.tf1'
_LEARN = f'{_OWN}.learn'
_V1 = 'tensorflow.compat.v1'
_ESTIMATOR = 'tensorflow_estimator.python.estimator'
_PYTHON = 'tensorflow.python'
_SLIM = 'tf_slim'
_TPU = ' '.join(
    [
        *(f'{_ESTIMATOR}.tpu.{name}' for name in ('tpu_estimator', 'tpu_config', 'tpu_context', 'error_handling', 'util')),
        *(f'{_PYTHON}.tpu.{name}' for name in ('tpu', 'tpu_function', 'tpu_feed', 'tpu_optimizer', 'tpu_replication')),
        *(f'{_PYTHON}.tpu.{name}' for name in ('bfloat16', 'tensor_tracer', 'training_loop', 'ops.tpu_ops')),
    ]
)
_CONTRIB = {
    'autograph': f'{_V1}.autograph',
    'checkpoint': f'{_V1}.train',
    'cluster_resolver': f'{_V1}.distribute.cluster_resolver',
    'compiler': '',
    'compiler.jit': f'{_V1}.xla.experimental',
    'compiler.xla': f'{_V1}.xla.experimental',
    'crf': f'{_OWN}.crf',
    'cudnn_rnn': f'{_OWN}.rnn',
    'data': f'{_OWN}.data {_V1}.data.experimental {_V1}.data',
    'deprecated': '',
    'distribute': f'{_OWN}.distribute {_V1}.distribute {_V1}.distribute.experimental',
    'distributions': f'{_V1}.distributions tensorflow_probability.distributions',
    'eager': f'{_V1} {_V1}.train {_PYTHON}.eager.backprop {_PYTHON}.framework.test_util',
    'factorization': '',
    'estimator': f'{_OWN}.estimator {_OWN}.recurrent {_V1}.estimator.experimental {_V1}.estimator {_ESTIMATOR}.early_stopping',
    'feature_column': f'{_OWN}.feature_column {_V1}.feature_column',
    'framework': f'{_SLIM}.ops.variables {_SLIM} {_SLIM}.ops.framework_ops {_V1}.train {_V1} {_PYTHON}.util.deprecation '
    f'{_PYTHON}.framework.smart_cond',
    'framework.audio_ops': f'{_PYTHON}.ops.gen_audio_ops',
    'framework.nest': f'{_PYTHON}.util.nest',
    'gan': 'tensorflow_gan',
    'hooks': f'{_V1}.train',
    'image': f'{_OWN}.image',
    'keras': f'{_V1}.keras {_V1}.keras.layers',
    'keras.python.keras.layers': f'{_V1}.keras.layers',
    'layers': f'{_OWN}.layers {_SLIM}.layers {_SLIM}',
    'learn': f'{_LEARN}.learners {_LEARN}.experiments {_LEARN}.evaluation_metrics {_LEARN}.input_data '
    f'{_LEARN}.records {_LEARN}.keys {_V1}.estimator',
    'learn.datasets': f'{_OWN}.mnist',
    'learn.datasets.base': f'{_LEARN}.input_data {_OWN}.mnist',
    'learn.datasets.mnist': f'{_OWN}.mnist',
    'learn.io': f'{_LEARN}.input_data {_LEARN}.records',
    'learn.learn_runner': f'{_LEARN}.experiments',
    'learn.monitors': f'{_LEARN}.monitors',
    'learn.preprocessing': f'{_LEARN}.vocabularies',
    'learn.python.learn.estimators.rnn_common': f'{_LEARN}.recurrent',
    'learn.utils': f'{_LEARN}.experiments',
    'learn.utils.input_fn_utils': f'{_LEARN}.input_data',
    'learn.utils.saved_model_export_utils': f'{_LEARN}.experiments',
    'legacy_seq2seq': f'{_OWN}.legacy_seq2seq',
    'linalg': f'{_V1}.linalg',
    'lite': f'{_V1}.lite',
    'lookup': f'{_OWN}.lookup {_PYTHON}.ops.lookup_ops',
    'losses': f'{_SLIM}.losses {_SLIM}.losses.metric_learning',
    'metrics': f'{_SLIM}.metrics {_V1}.metrics',
    'nn': f'{_V1}.nn',
    'opt': f'{_OWN}.opt {_OWN}.external_optimizer',
    'predictor': f'{_OWN}.predictor',
    'predictor.core_estimator_predictor': f'{_OWN}.predictor',
    'predictor.predictor': f'{_OWN}.predictor',
    'predictor.predictor_factories': f'{_OWN}.predictor',
    'predictor.saved_model_predictor': f'{_OWN}.predictor',
    'proto': f'{_V1}.io',
    'rnn': f'{_OWN}.rnn {_V1}.nn.rnn_cell {_V1}.nn',
    'rnn.python.ops.rnn_cell': f'{_OWN}.rnn {_V1}.nn.rnn_cell',  # Not the tf.nn.rnn_cell that tf.nn has.
    'saved_model': f'{_V1}.saved_model',
    'seq2seq': f'{_OWN}.seq2seq {_OWN}.attention {_OWN}.beam_search {_OWN}.decoding',
    'signal': f'{_V1}.signal',
    'slim': f'{_SLIM} {_OWN}.layers',
    'slim.init_ops': f'{_PYTHON}.ops.init_ops',
    'slim.nets': f'{_SLIM}.nets',
    'sparsemax': f'{_OWN}.sparsemax',
    'staging': f'{_PYTHON}.ops.data_flow_ops',
    'stateless': f'{_V1}.random',
    'summary': f'{_PYTHON}.ops.summary_ops_v2',
    'tensorboard': '',
    'tensorboard.plugins': '',
    'tensorboard.plugins.projector': 'tensorboard.plugins.projector',
    'tensorrt': f'{_PYTHON}.compiler.tensorrt.trt_convert',
    'tfprof': f'{_V1}.profiler',
    'tfprof.model_analyzer': f'{_OWN}.tfprof',
    'tfprof.tfprof_logger': f'{_PYTHON}.profiler.tfprof_logger',
    'tpu': f'{_V1}.estimator.tpu {_V1}.tpu {_TPU}',
    'training.hparam_pb2': f'{_OWN}.hparam_pb2',
    'training': f'{_OWN}.hparam {_OWN}.buckets {_SLIM}.training.training {_SLIM}.training.evaluation {_V1}.train',
    'util': f'{_V1} {_PYTHON}.framework.tensor_util',
}
# {module: paths of the modules with its names, in the order in which they are searched}
PACKAGES = {
    'tensorflow.contrib': (),
    'tensorflow.examples': (),
    'tensorflow.examples.tutorials': (),
    'tensorflow.examples.tutorials.mnist': (f'{_OWN}.mnist',),
    'tensorflow.examples.tutorials.mnist.input_data': (f'{_OWN}.mnist',),
    **{f'tensorflow.contrib.{name}': tuple(sources.split()) for name, sources in _CONTRIB.items()},
}
_NAMES = {
    'autograph.convert': f'{_PYTHON}.autograph.impl.api.convert',
    'deprecated.audio_summary': f'{_V1}.summary.audio',
    'deprecated.histogram_summary': f'{_V1}.summary.histogram',
    'deprecated.image_summary': f'{_V1}.summary.image',
    'deprecated.merge_all_summaries': f'{_V1}.summary.merge_all',
    'deprecated.merge_summary': f'{_V1}.summary.merge',
    'deprecated.scalar_summary': f'{_V1}.summary.scalar',
    'eager.defun': 'tensorflow.function',
    'eager.run_all_tests_in_graph_and_eager_modes': f'{_PYTHON}.framework.test_util.run_all_in_graph_and_eager_modes',
    'eager.run_test_in_graph_and_eager_modes': f'{_PYTHON}.framework.test_util.run_in_graph_and_eager_modes',
    'eager.Iterator': 'builtins.iter',
    'eager.in_eager_mode': f'{_V1}.executing_eagerly',
    'eager.implicit_gradients': f'{_PYTHON}.eager.backprop.implicit_grad',
    'eager.implicit_value_and_gradients': f'{_PYTHON}.eager.backprop.implicit_val_and_grad',
    'estimator.build_supervised_input_receiver_fn_from_input_fn': f'{_ESTIMATOR}.export.export.'
    'build_supervised_input_receiver_fn_from_input_fn',
    'factorization.KMeansClustering': f'{_V1}.estimator.experimental.KMeans',
    'linalg.LinearOperatorTriL': f'{_V1}.linalg.LinearOperatorLowerTriangular',
    'lookup.MutableDenseHashTable': f'{_PYTHON}.ops.lookup_ops.DenseHashTable',
    'losses.metric_learning': f'{_SLIM}.losses.metric_learning',
    'metrics.confusion_matrix': f'{_V1}.confusion_matrix',
    **{f'metrics.set_{name}': f'{_V1}.sets.{name}' for name in ('difference', 'intersection', 'size', 'union')},
    'nn.nth_element': f'{_PYTHON}.ops.nn_ops.nth_element',
    'predictor.core_estimator_predictor.CoreEstimatorPredictor': f'{_OWN}.predictor.from_estimator',
    'predictor.saved_model_predictor.SavedModelPredictor': f'{_OWN}.predictor.from_saved_model',
    'rnn.python.ops.core_rnn_cell._Linear': f'{_OWN}.rnn.Linear',
    'rnn.python.ops.core_rnn_cell._linear': f'{_OWN}.rnn.linear',
    'rnn.transpose_batch_time': f'{_OWN}.decoding.transposed',
    'seq2seq.python.ops.decoder._transpose_batch_time': f'{_OWN}.decoding.transposed',
    'stateless.stateless_random_normal': f'{_V1}.random.stateless_normal',
    'stateless.stateless_random_uniform': f'{_V1}.random.stateless_uniform',
    'stateless.stateless_truncated_normal': f'{_V1}.random.stateless_truncated_normal',
    'tpu.AsyncCheckpointSaverHook': f'{_V1}.train.CheckpointSaverHook',
    'summary.all_summary_ops': f'{_PYTHON}.ops.summary_ops_v2.all_v2_summary_ops',
}
# {path: where a name is today that is called otherwise}
NAMES = {f'tensorflow.contrib.{old}': new for old, new in _NAMES.items()}
# Files below tensorflow/contrib/PACKAGE/python: `from tensorflow.contrib.seq2seq.python.ops import helper`.
FILES = frozenset(
    """
    arg_scope async_checkpoint attention_wrapper base basic_decoder beam_search_decoder beam_search_ops
    bernoulli bfloat16 categorical checkpoint_ops checkpoint_utils constants core_rnn core_rnn_cell core_rnn_cell_impl crf data
    datasets decoder error_handling estimator estimators evaluation experiment extenders external_optimizer feature_column
    framework fused_rnn_cell head helper hparam image_ops layers lazy_adam_optimizer learning lookup_ops loss lstm_ops
    metric_spec mnist model_analyzer model_fn moving_average_optimizer nets ops prediction_key preprocessing projector rnn
    rnn_cell run_config seq2seq set_ops slim tensor_tracer text tfe tpu tpu_config tpu_context tpu_estimator tpu_feed
    tpu_function tpu_ops tpu_optimizer training training_loop util utils variables weight_decay_optimizers
    """.split()
)

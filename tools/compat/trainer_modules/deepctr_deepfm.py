from deepctr.estimator import DeepFMEstimator, inputs
import tensorflow as tf

columns = {f'C{i}': tf.feature_column.categorical_column_with_identity(f'C{i}', 1000) for i in range(1, 27)}
spec = {name: tf.io.FixedLenFeature(1, tf.int64) for name in columns} | {'label': tf.io.FixedLenFeature(1, tf.float32)}


def estimator(config, params):
    dense = [tf.feature_column.embedding_column(column, 4) for column in columns.values()]
    return DeepFMEstimator(columns.values(), dense, task='binary', config=config)


def input_fn(split, params):
    path, epochs, factor = ('tr', None, 10) if split == 'train' else ('te', 1, 0)
    return inputs.input_fn_tfrecord(f'criteo_sample.{path}.tfrecords', spec, 'label', 16, epochs, 8, factor)()

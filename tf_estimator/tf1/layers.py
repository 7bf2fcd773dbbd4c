"""tf.contrib.layers: embeddings, and the feature columns of before tf.feature_column."""

from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow.python.feature_column import feature_column_v2

_columns = tf.feature_column
bucketized_column = _columns.bucketized_column
one_hot_column = _columns.indicator_column
create_feature_spec_for_parsing = _columns.make_parse_example_spec
safe_embedding_lookup_sparse = tf.nn.safe_embedding_lookup_sparse


def embed_sequence(
    ids,
    vocab_size=None,
    embed_dim=None,
    unique=False,
    initializer=None,
    regularizer=None,
    trainable=True,
    scope=None,
    reuse=None,
):
    """Returns the embeddings of ids, int [batch, length], as float [batch, length, embed_dim].

    They are the variable SCOPE/embeddings, [vocab_size, embed_dim]; SCOPE is by default EmbedSequence.
    """
    if not (reuse or vocab_size and embed_dim):
        raise ValueError(f'Must specify vocab size and embedding dimension when not reusing. Got {vocab_size}, {embed_dim}')
    with tf.variable_scope(scope, 'EmbedSequence', [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        return tf.nn.embedding_lookup(_embeddings(shape, initializer, regularizer, trainable), ids)


def bow_encoder(
    ids,
    vocab_size,
    embed_dim,
    sparse_lookup=True,
    initializer=None,
    regularizer=None,
    trainable=True,
    scope=None,
    reuse=None,
):
    """Returns the mean embeddings of ids, int [batch, length], without 0 if sparse_lookup, as float [batch, embed_dim].

    They are the variable SCOPE/embeddings, [vocab_size, embed_dim]; SCOPE is by default bow_encoder.
    """
    with tf.variable_scope(scope, 'bow_encoder', [ids], reuse=reuse):
        table = _embeddings([vocab_size, embed_dim], initializer, regularizer, trainable)
        if not sparse_lookup:
            return tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1)
        sparse = ids if isinstance(ids, tf.SparseTensor) else tf.sparse.from_dense(ids)
        return tf.nn.safe_embedding_lookup_sparse([table], sparse, combiner='mean', default_id=0)


def _embeddings(shape, initializer, regularizer, trainable):
    collections = [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES]
    return tf.get_variable('embeddings', shape, None, initializer, regularizer, trainable, collections)


def real_valued_column(column_name, dimension=1, default_value=None, dtype=tf.float32, normalizer=None):
    return _columns.numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


def _warn_unless_sum(combiner):
    if combiner != 'sum':
        text = (
            'combiner=%r of a column is ignored: linear Estimators take sparse_combiner, combined ones linear_sparse_combiner.'
        )
        warn(f'tf.contrib.layers: {text}', combiner)


def sparse_column_with_hash_bucket(column_name, hash_bucket_size, combiner='sum', dtype=tf.string, hash_keys=None):
    if hash_keys is not None:
        raise ValueError(f'sparse_column_with_hash_bucket({column_name!r}): TensorFlow 2 has no hash_keys: omit them')
    _warn_unless_sum(combiner)
    return _columns.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


class _Integerized(feature_column_v2.IdentityCategoricalColumn):
    """Takes integers modulo the number of buckets."""

    def _transform_input_tensor(self, input_tensor):
        found = super()._transform_input_tensor(input_tensor)
        return tf.SparseTensor(found.indices, tf.floormod(found.values, self.number_buckets), found.dense_shape)


def sparse_column_with_integerized_feature(column_name, bucket_size, combiner='sum', dtype=tf.int64):
    _warn_unless_sum(combiner)
    return _Integerized(*_columns.categorical_column_with_identity(column_name, bucket_size))


def sparse_column_with_keys(column_name, keys, default_value=-1, combiner='sum', dtype=tf.string):
    _warn_unless_sum(combiner)
    return _columns.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value)


def sparse_column_with_vocabulary_file(
    column_name, vocabulary_file, num_oov_buckets=0, vocab_size=None, default_value=-1, combiner='sum', dtype=tf.string
):
    _warn_unless_sum(combiner)
    return _columns.categorical_column_with_vocabulary_file(
        column_name, vocabulary_file, vocab_size, num_oov_buckets, None if num_oov_buckets else default_value, dtype
    )


def weighted_sparse_column(sparse_id_column, weight_column_name, dtype=tf.float32):
    return _columns.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def embedding_column(sparse_id_column, dimension, combiner='mean', initializer=None, *args, **options):
    """Like tf.feature_column's, but embeddings start with a deviation of 1 / sqrt(ids), not of 1 / sqrt(dimension)."""
    initializer = initializer or tf.truncated_normal_initializer(0.0, sparse_id_column.num_buckets**-0.5)
    return _columns.embedding_column(sparse_id_column, dimension, combiner, initializer, *args, **options)


def crossed_column(columns, hash_bucket_size, combiner='sum', ckpt_to_load_from=None, tensor_name_in_ckpt=None, hash_key=None):
    """Crosses columns; hashed ones by their features, as tf.feature_column requires."""
    if ckpt_to_load_from is not None or tensor_name_in_ckpt is not None:
        raise ValueError(
            'crossed_column: ckpt_to_load_from is not supported: omit it and tensor_name_in_ckpt; '
            'tf.train.init_from_checkpoint in a model_fn reads such weights'
        )
    _warn_unless_sum(combiner)
    keys = [column.key if hasattr(column, 'hash_bucket_size') and hasattr(column, 'key') else column for column in columns]
    return _columns.crossed_column(keys, hash_bucket_size, hash_key)


def input_from_feature_columns(columns_to_tensors, feature_columns, weight_collections=None, trainable=True, scope=None):
    """Returns the inputs of a network, float [batch, size]."""
    with tf.variable_scope(scope, 'input_from_feature_columns'):
        return _columns.input_layer(columns_to_tensors, list(feature_columns), weight_collections, trainable)

"""tf.contrib.lookup: tables of TensorFlow 1."""

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import lookup_ops


class HashTable(lookup_ops.HashTable):
    """A table that an initializer fills by its op `init`; name and shared_name as in TensorFlow 1."""

    def __init__(self, initializer, default_value, shared_name=None, name=None):
        super().__init__(initializer, default_value, name)


class MutableHashTable(lookup_ops.MutableHashTable):
    def __init__(self, key_dtype, value_dtype, default_value, shared_name=None, name='MutableHashTable', checkpoint=True):
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)


def string_to_index_table_from_file(
    vocabulary_file=None,
    num_oov_buckets=0,
    vocab_size=None,
    default_value=-1,
    hasher_spec=lookup_ops.FastHashSpec,
    name=None,
):
    return lookup_ops.index_table_from_file(vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, name=name)


def string_to_index_table_from_tensor(
    mapping, num_oov_buckets=0, default_value=-1, hasher_spec=lookup_ops.FastHashSpec, name=None
):
    return lookup_ops.index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, name=name)


def index_table_from_tensor(
    mapping=None,
    num_oov_buckets=0,
    default_value=-1,
    hasher_spec=lookup_ops.FastHashSpec,
    dtype=tf.string,
    name=None,
    vocabulary_list=None,
):
    """Like tf's, with `mapping` for `vocabulary_list`."""
    values = mapping if vocabulary_list is None else vocabulary_list
    return lookup_ops.index_table_from_tensor(values, num_oov_buckets, default_value, hasher_spec, dtype, name)


def index_to_string_table_from_tensor(mapping=None, default_value='UNK', name=None, **kwargs):
    """Like tf's, with `mapping` for `vocabulary_list`."""
    return lookup_ops.index_to_string_table_from_tensor(kwargs.pop('vocabulary_list', mapping), default_value, name)


def string_to_index(tensor, mapping, default_value=-1, name=None):
    return lookup_ops.index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(tensor, mapping, default_value='UNK', name=None):
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)

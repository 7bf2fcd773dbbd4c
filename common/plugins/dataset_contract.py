"""What the functions of a dataset module take and return: what README.md asks of them is checked here."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.plugins.contract import COMPOSITE, DENSE, check_dict, check_pair, not_a_tensor_error, unknown_shape_error

PREDICT = tf.estimator.ModeKeys.PREDICT


@tf.autograph.experimental.do_not_convert
def check_parsed(function, parsed, mode, params):
    """Returns the features and labels that a dataset module has made of records, as tensors; labels are None in PREDICT.

    Args:
      function: 'parse' or 'parse_batch'.
      parsed: what it returned.
      mode: tf.estimator.ModeKeys.
      params: HParams.

    Raises:
      UsageError: it is no pair of dicts of tensors.
    """
    source = f'--dataset={params.dataset}: {function}()'
    features, labels = check_pair(source, '(features, labels)', parsed)
    min_rank = int(function == 'parse_batch')
    features = _tensors(source, 'feature', features, mode, min_rank)
    if mode == PREDICT:
        return features, None
    if labels is None:
        raise UsageError(f'{source} must return labels in training and evaluation, not None: an empty dict if there are none')
    labels = _tensors(source, 'label', labels, mode, min_rank)
    return _of_one_batch(source, features, labels) if function == 'parse_batch' else (features, labels)


def _of_one_batch(source, features, labels):
    """Returns the features and labels, which are checked to be of as many examples, if need be when they are computed."""
    dense = [value for value in [*features.values(), *labels.values()] if isinstance(value, DENSE) and value.shape.rank]
    sizes = [value.shape[0] for value in dense]
    if None not in sizes and len(set(sizes)) > 1:
        raise UsageError(f'{source} must return features and labels of one batch, not of {", ".join(map(str, sizes))} examples')
    if None not in sizes or len(sizes) < 2:
        return features, labels
    counts = tf.stack([tf.shape(value)[0] for value in dense])
    text = f'{source} must return features and labels of one batch'
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.equal(counts, counts[0])), [text])]):
        return tf.nest.map_structure(tf.identity, (features, labels), expand_composites=True)


def _tensors(source, kind, values, mode, min_rank):
    """Returns a dict of what can be made tensors as tensors."""
    check_dict(source, f'{kind}s', values)
    tensors = {}
    for name, value in values.items():
        if isinstance(value, COMPOSITE) and mode != PREDICT:
            tensors[name] = value  # A model may take them, but who asks it gives arrays.
            continue
        try:
            tensors[name] = tf.convert_to_tensor(value)
        except (TypeError, ValueError, AttributeError):
            raise not_a_tensor_error(source, kind, name, value) from None
        rank = tensors[name].shape.rank
        if rank is None and mode == PREDICT:
            raise unknown_shape_error(source, kind, name)
        if rank is not None and rank < min_rank:
            raise UsageError(f'{source}: the {kind} {name} must be of shape [batch, ...], not {tensors[name].shape}')
    return tensors


def check_divisible(features, labels, params):
    """Raises UsageError if towers cannot each have a share of the features and labels."""
    source = f'--dataset={params.dataset} with towers'
    for kind, values in (('feature', features), ('label', labels)):
        for name, value in values.items():
            if not isinstance(value, DENSE):
                raise not_a_tensor_error(source, kind, name, value)
            if value.shape.rank is None:
                raise unknown_shape_error(source, kind, name)

"""Precision, recall and F1 of the spans that tags mark, as conlleval and seqeval count them."""

from collections.abc import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import tags
from estimator_trainer.common.ops.metrics import make_counts


def span_metrics(labels: tf.Tensor, predictions: tf.Tensor, lengths: tf.Tensor, names: Sequence[str]) -> dict[str, tuple]:
    """Measures how many spans of tokens are right, in type and both ends: metrics for `eval_metrics`.

    A span begins at each tag that does not continue one, see `tags.continues`: in the schemes IOB1, IOB2 (BIO), BIOES, BILOU
    and BMES, and where tags break their rules. Over all sentences and types (the micro-average):

    - span_precision: right spans / predicted spans, 0 without predicted ones;
    - span_recall: right spans / spans of the labels, 0 without any;
    - span_f1: 2 · right / (predicted + labeled), 0 without any.

    Args:
      labels: int [batch, length], numbers of tags.
      predictions: likewise.
      lengths: int [batch], the numbers of tokens; what follows is padding.
      names: the tags, each O or a part of a span.

    Returns:
      {name: (value, update_op)} as in tf.metrics, float32 scalars; the counts are exact over batches.
    """
    with tf.variable_scope(None, 'spans'):
        counts = make_counts([3])
        of_labels, of_predictions = (_spans(ids, lengths, names) for ids in (labels, predictions))
        right = tf.equal(of_labels, of_predictions) & (of_labels > 0)
        new = [tf.math.count_nonzero(found) for found in (right, of_predictions, of_labels)]
        update = tf.assign_add(counts, tf.stack(new))
        right, predicted, labeled = tf.unstack(tf.cast(counts.read_value(), tf.float64))
        parts = {'precision': (right, predicted), 'recall': (right, labeled), 'f1': (2 * right, predicted + labeled)}
        return {
            f'span_{name}': (tf.cast(tf.math.divide_no_nan(part, whole), tf.float32), update.op)
            for name, (part, whole) in parts.items()
        }


def _spans(ids, lengths, names):
    """Returns, where a span begins, a number of its end and type, int64 [batch * length]; 0 elsewhere."""
    begins, types = _rules(names)
    batch, length = tf.unstack(tf.shape(ids))
    outside = len(names)
    within = tf.where_v2(tf.sequence_mask(lengths, length), tf.cast(ids, tf.int32), outside)
    padded = tf.pad(within, [[0, 0], [1, 1]], constant_values=outside)
    pairs = tf.gather_nd(tf.constant(begins), tf.stack([padded[:, :-1], padded[:, 1:]], 2))
    flat = tf.reshape(within, [-1])
    # Spans do not overlap: the first beginning has the first end, and so on.
    starts = tf.where(tf.reshape(pairs[:, :-1, 0], [-1]))[:, 0]
    ends = tf.where(tf.reshape(pairs[:, 1:, 1], [-1]))[:, 0]
    numbers = 1 + ends * (len(names) + 1) + tf.gather(tf.constant(types), tf.gather(flat, starts))
    return tf.scatter_nd(starts[:, None], numbers, tf.cast([batch * length], tf.int64))


def _rules(names):
    """Returns whether a span begins with the second of two tags, and whether one ends with the first, bool [n + 1, n + 1, 2].

    And the number of each tag's type, int64 [n + 1]. The last tag is the outside of sentences.
    """
    parsed = [*(tags.parse(name) or tags.Tag() for name in names), tags.Tag()]
    types = {tag.type: number for number, tag in enumerate(parsed)}
    pairs = [[not tags.continues(tag, following) for following in parsed] for tag in parsed]
    is_span = np.array([bool(tag.place) for tag in parsed])
    begins = np.stack([pairs & is_span[None], pairs & is_span[:, None]], 2)
    return begins, np.array([types[tag.type] for tag in parsed])

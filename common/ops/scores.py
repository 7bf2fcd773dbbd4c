"""Scores of classes, numbers and labels over an evaluation, exact over its batches, as in scikit-learn.

The trainer adds them to the metrics of each evaluation, see `scores`. They accumulate counts and sums: memory does not grow
with the split. Those that rank examples compare scores as float16, as `estimator_trainer.common.ops.metrics.auc` does.
"""

from collections.abc import Mapping
import functools
from typing import Any
import warnings

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.metrics import RANKS, make_counts, rank, scores_of
from estimator_trainer.common.targets import BASELINES

_MAX_COUNTED = 1000  # Classes with counts of each pair: 8 MB.
_MAX_RANKED = 20  # Classes with counts of each score: a megabyte each.
_MAX_LABELS = 100  # Labels with such counts.
_TOP = 5
_CUT = 12  # Bits of the 32 of an error that do not count for its median: the resolution is 1/2048.
_RANGES = 15  # Of the probability of the predicted class.
_ROUNDING = 1e-12  # Of a mean: a smaller spread is that of equal labels.
_EPSILON = np.finfo(np.float32).eps  # The least probability in the logarithmic loss, as in scikit-learn.


def scores(labels: Mapping[str, tf.Tensor], predictions: Mapping[str, tf.Tensor]) -> dict[str, tuple]:
    """Returns the scores of predictions in the form of the included models; an empty dict if they have another form.

    Args:
      labels: 'label', int [batch] for classes, float [batch] for numbers, int [batch, labels] for those that are 0 or 1; and
        perhaps 'weight', float [batch]. Several targets have a label label_KEY each.
      predictions: 'class' and 'probabilities', float [batch, num_classes], or 'value', float [batch], or 'predicted' and
        'probabilities', float [batch, labels]; of several targets, with the same _KEY.

    Returns:
      {name: (value, update_op)} as in tf.metrics, see `class_scores`, `number_scores`, `label_scores` and, if there is a label
      'baselines', `forecast_scores`; with the same _KEY.
    """
    found: dict[str, tuple] = {}
    for name in labels:
        if name == 'label' or name.startswith('label_'):
            end = name.removeprefix('label')
            found |= {f'{score}{end}': pair for score, pair in _of_target(end, labels, predictions).items()}
    return found


def _of_target(end, labels, predictions):
    """Returns the scores of the target whose label and predictions have names with this end."""
    label, weights = labels[f'label{end}'], labels.get('weight')
    probabilities, value = predictions.get(f'probabilities{end}'), predictions.get(f'value{end}')
    if not isinstance(label, tf.Tensor):
        return {}
    if f'baselines{end}' in labels and value is not None:
        return forecast_scores(label, value, labels[f'baselines{end}'])
    has_matrix = probabilities is not None and probabilities.shape.rank == 2
    if label.dtype.is_integer and label.shape.rank == 2 and has_matrix and f'predicted{end}' in predictions:
        return label_scores(label, probabilities, weights)
    if label.dtype.is_integer and label.shape.rank == 1 and has_matrix and f'class{end}' in predictions:
        return class_scores(label, probabilities, weights) if (probabilities.shape[1] or 0) > 1 else {}
    is_number = label.dtype.is_floating and label.shape.rank == 1 and value is not None and value.shape.rank == 1
    return number_scores(label, value, weights) if is_number else {}


def class_scores(labels: tf.Tensor, probabilities: tf.Tensor, weights: tf.Tensor | None = None) -> dict[str, tuple]:
    """Returns scores of a classifier.

    With p of a class for its probability, and the predicted class c, the most probable one:

    - accuracy: the share of examples whose label is c; also the micro-average of precision, recall and F1.
    - log_loss: the mean of -log(p of the label).
    - calibration_error: the mean over the examples of |share of correct predictions - mean p of c| in their range of p of c,
      one of 15 of equal width. (C. Guo et al.: On Calibration of Modern Neural Networks, 2017.)
    - top_5_accuracy: the share of examples whose label is among the five most probable classes, if there are more.
    - balanced_accuracy: the mean over the classes that occur of their recall, right / labels.
    - f1_macro: the mean over the classes that occur or are predicted of 2 · right / (labels + predictions).
    - For two classes, of class 1: precision, recall, f1, at a p of 0.5; and best_f1, the highest F1 over all thresholds of p,
      with best_f1_threshold, best_f1_precision and best_f1_recall.
    - For up to 20 classes: auc, how often an example of a class has a higher p of it than another example, and
      average_precision, the sum over all thresholds of (recall - recall at the threshold above) · precision; of class 1 of
      two, else the mean over the classes that occur.

    Args:
      labels: int [batch], in [0, num_classes).
      probabilities: float [batch, num_classes], at least two classes.
      weights: float [batch]; None for 1.

    Returns:
      {name: (value, update_op)}, the values float scalars, NaN where they are undefined.
    """
    num_classes, probabilities = probabilities.shape[1], tf.cast(probabilities, tf.float32)
    labels, predicted = tf.cast(labels, tf.int64), tf.argmax(probabilities, 1)
    weights = tf.ones_like(labels, tf.float64) if weights is None else tf.cast(weights, tf.float64)
    with tf.variable_scope(None, 'scores'):
        kept = [_tally(labels, probabilities, predicted, weights)]
        if num_classes <= _MAX_COUNTED:
            kept.append(_accumulate('confusion', [num_classes] * 2, tf.stack([labels, predicted], 1), weights))
        if num_classes <= _MAX_RANKED:
            kept.append(_ranks(labels, probabilities, weights))
    return _pairs(kept, functools.partial(_class_values, num_classes))


def _tally(labels, probabilities, predicted, weights):
    """Sums, by range of the confidence: 1, right, confidence, -log(p of the label), label among the top."""
    confidence = tf.reduce_max(probabilities, 1)
    ranges = tf.clip_by_value(tf.cast(tf.ceil(confidence * _RANGES), tf.int32) - 1, 0, _RANGES - 1)
    of_label = tf.gather_nd(probabilities, tf.stack([tf.range(tf.size(labels, out_type=tf.int64)), labels], 1))
    columns = [
        tf.ones_like(confidence),
        tf.equal(labels, predicted),
        confidence,
        -tf.log(tf.maximum(of_label, _EPSILON)),
        _is_in_top(probabilities, labels, of_label),
    ]
    new = tf.stack([tf.cast(column, tf.float64) for column in columns], 1) * weights[:, None]
    return _accumulate('tally', [_RANGES, len(columns)], ranges[:, None], new)


def _is_in_top(probabilities, labels, of_label):
    """Returns whether the label is among the most probable classes; of equal ones, as by argmax, the first come first."""
    classes = tf.range(probabilities.shape[1], dtype=tf.int64)
    is_above = probabilities > of_label[:, None]
    is_above |= tf.equal(probabilities, of_label[:, None]) & (classes < labels[:, None])
    return (tf.reduce_sum(tf.cast(is_above, tf.int32), 1) < _TOP) & tf.math.is_finite(of_label)


def _ranks(labels, probabilities, weights):
    """Counts the examples by class, whether it is theirs, and the rank of its probability; of class 1 alone, of two."""
    num_classes = probabilities.shape[1]
    classes = [1] if num_classes == 2 else [*range(num_classes)]
    # Not 1 - p, which is 0 for many an example that others surpass.
    others = tf.matmul(tf.cast(probabilities, tf.float64), tf.constant(1 - np.eye(num_classes)[:, classes]))
    odds = tf.log(tf.cast(probabilities[:, classes[0] :], tf.float64)) - tf.log(others)
    is_class = tf.cast(tf.equal(labels[:, None], tf.constant(classes, tf.int64)), tf.int32)
    cells = tf.stack([_column(is_class), is_class, rank(odds)], 2)
    return _accumulate('ranks', [len(classes), 2, RANKS], cells, weights[:, None] * tf.ones_like(odds))


def _class_values(num_classes, tally, confusion=None, ranks=None):
    """Returns {name: score} for the sums of `class_scores`."""
    total, right, confidence, loss, top = tally.sum(0)
    found = {
        'accuracy': right / total,
        'log_loss': loss / total,
        'calibration_error': np.abs(tally[:, 1] - tally[:, 2]).sum() / total,
    }
    if num_classes > _TOP:
        found[f'top_{_TOP}_accuracy'] = top / total
    if confusion is not None:
        right, labels, predicted = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
        recall, f1 = right / labels, 2 * right / (labels + predicted)
        found |= {'balanced_accuracy': _mean(recall), 'f1_macro': _mean(f1)}
        if num_classes == 2:
            precision = right[1] / predicted[1] if predicted[1] else 0.0
            found |= {'precision': precision, 'recall': recall[1], 'f1': f1[1]}
    if ranks is not None:
        found |= _ranked(ranks, num_classes)
    return found


def _ranked(ranks, num_classes):
    found = _means_over_ranks(ranks)
    if num_classes == 2:
        true_positives, false_positives = _from_each_rank(ranks[0, 1]), _from_each_rank(ranks[0, 0])
        num_positives = ranks[0, 1].sum()
        f1 = 2 * true_positives / (num_positives + true_positives + false_positives)
        best = RANKS - 1 - f1[::-1].argmax()  # The highest of equal ones: that of an example.
        found |= {'best_f1': f1.max(), 'best_f1_threshold': 1 / (1 + np.exp(-np.mean(scores_of(best - 1, best))))}
        found['best_f1_precision'] = true_positives[best] / (true_positives[best] + false_positives[best])
        found['best_f1_recall'] = true_positives[best] / num_positives
    return found


def _means_over_ranks(ranks):
    """Returns the means of AUC and average precision over the classes or labels of counts [n, is it, rank]."""
    negatives, positives = ranks[:, 0], ranks[:, 1]
    num_negatives, num_positives = negatives.sum(1), positives.sum(1)
    pairs = (positives * (negatives.cumsum(1) - negatives / 2)).sum(1)
    true_positives, false_positives = _from_each_rank(positives), _from_each_rank(negatives)
    precision = true_positives / np.maximum(true_positives + false_positives, np.finfo(float).tiny)
    return {
        'auc': _mean(pairs / (num_positives * num_negatives)),
        'average_precision': _mean((positives * precision).sum(1) / num_positives),
    }


def _from_each_rank(counts):
    """Returns the numbers of examples from each rank on."""
    return counts[..., ::-1].cumsum(-1)[..., ::-1]


def label_scores(labels: tf.Tensor, probabilities: tf.Tensor, weights: tf.Tensor | None = None) -> dict[str, tuple]:
    """Returns scores of labels that apply to an example or not; those from a probability of 0.5 on are predicted.

    - accuracy: the share of right ones among all labels of all examples.
    - exact_match: the share of examples whose labels are all right.
    - log_loss: the mean over examples and labels of -log(p of what is true).
    - f1_micro: 2 · right / (those that apply + predicted), counted over all labels.
    - f1_macro: the mean of the F1 of each label, 2 · right / (those that apply + predicted), where either occurs.
    - For up to 100 labels: auc, the mean over the labels of how often an example with it has a higher p than one without;
      average_precision, the mean over the labels of the sum over all thresholds of (recall - recall at the threshold above) ·
      precision; both over the labels for which they are defined.

    Args:
      labels: int [batch, labels], 0 or 1.
      probabilities: float [batch, labels], each in [0, 1].
      weights: float [batch], of the examples; None for 1.

    Returns:
      {name: (value, update_op)}, the values float scalars, NaN where they are undefined.
    """
    num_labels, probabilities = probabilities.shape[1], tf.cast(probabilities, tf.float32)
    is_true, is_predicted = tf.not_equal(labels, 0), probabilities >= 0.5
    is_right = tf.equal(is_true, is_predicted)
    weights = tf.ones_like(is_right[:, 0], tf.float64) if weights is None else tf.cast(weights, tf.float64)
    p = tf.where(is_true, probabilities, 1 - probabilities)
    each = [tf.ones_like(weights), tf.reduce_all(is_right, 1), tf.reduce_mean(-tf.log(tf.maximum(p, _EPSILON)), 1)]
    counted = tf.stack([is_true & is_predicted, is_true, is_predicted, is_right])
    with tf.variable_scope(None, 'scores'):
        kept = [
            _accumulate('tally', [3], tf.range(3)[:, None], tf.stack([_total(values, weights) for values in each])),
            _accumulate('counts', [4, num_labels], tf.range(4)[:, None], _total(tf.transpose(counted, [1, 0, 2]), weights)),
        ]
        if num_labels <= _MAX_LABELS:
            exact = tf.cast(probabilities, tf.float64)
            cells = tf.stack([_column(is_true), tf.cast(is_true, tf.int32), rank(tf.log(exact) - tf.log(1 - exact))], 2)
            new = weights[:, None] * tf.ones_like(exact)
            kept.append(_accumulate('ranks', [num_labels, 2, RANKS], cells, new))
    return _pairs(kept, _label_values)


def _total(values, weights):
    """Returns the weighted sum over the examples of values [batch, ...]."""
    return tf.tensordot(weights, tf.cast(values, tf.float64), 1)


def _column(values):
    """Returns the number of its column for each value, int32 [batch, columns]."""
    return tf.zeros_like(values, tf.int32) + tf.range(values.shape[1])


def _label_values(tally, counts, ranks=None):
    """Returns {name: score} for the sums of `label_scores`."""
    total, exact, loss = tally
    right, true, predicted, agreed = counts
    found = {
        'accuracy': agreed.sum() / (total * len(agreed)),
        'exact_match': exact / total,
        'log_loss': loss / total,
        'f1_micro': 2 * right.sum() / (true + predicted).sum(),
        'f1_macro': _mean(2 * right / (true + predicted)),
    }
    return found | (_means_over_ranks(ranks) if ranks is not None else {})


def number_scores(labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor | None = None) -> dict[str, tuple]:
    """Returns scores of a regression.

    - mean_absolute_error, rmse: the mean of |error|, and the square root of that of error².
    - r2: 1 - the sum of error² / that of (label - mean label)².
    - median_absolute_error: of |error|, with a resolution of 1/2048, without weights.
    - mape: the mean absolute percentage error, that of |error / label|, as a share; NaN if a label is 0.

    Args:
      labels, predictions: float [batch].
      weights: float [batch]; None for 1.

    Returns:
      {name: (value, update_op)}, the values float scalars, NaN where they are undefined.
    """
    labels = tf.cast(labels, tf.float64)
    errors = tf.abs(tf.cast(predictions, tf.float64) - labels)
    weights = tf.ones_like(errors) if weights is None else tf.cast(weights, tf.float64)
    terms = tf.stack([tf.ones_like(errors), errors, errors**2, errors / tf.abs(labels)], 1) * weights[:, None]
    bits = tf.bitcast(tf.cast(errors, tf.float32), tf.int32)  # Those of positive floats sort like their values.
    with tf.variable_scope(None, 'scores'):
        kept = [
            _accumulate('sums', [4], tf.range(4)[:, None], tf.reduce_sum(terms, 0)),
            _moments(labels, weights),
            _accumulate('ranks', [2 ** (31 - _CUT)], (bits // 2**_CUT)[:, None], tf.ones_like(errors)),
        ]
    return _pairs(kept, _number_values)


def forecast_scores(labels: tf.Tensor, predictions: tf.Tensor, baselines: tf.Tensor) -> dict[str, tuple]:
    """Returns scores of forecasts, and of what costs nothing: the last value, and that of the same time last season.

    - mean_absolute_error, rmse: the mean of |error|, and the square root of that of error², over all steps.
    - the same with _last_value and _last_season at the end: those of the baselines.

    Args:
      labels, predictions: float [batch, horizon].
      baselines: float [batch, 2, horizon].

    Returns:
      {name: (value, update_op)}, the values float scalars, NaN without examples.
    """
    labels, predictions, baselines = (tf.cast(tensor, tf.float64) for tensor in (labels, predictions, baselines))
    errors = tf.abs(tf.concat([predictions[:, None], baselines], 1) - labels[:, None])
    terms = tf.reduce_sum(tf.stack([tf.ones_like(errors), errors, errors**2]), [1, 3])
    with tf.variable_scope(None, 'scores'):
        return _pairs([_accumulate('sums', [3, 1 + len(BASELINES)], tf.range(3)[:, None], terms)], _forecast_values)


def _forecast_values(sums):
    """Returns {name: score} for the sums of `forecast_scores`."""
    counts, absolute, squares = sums
    found: dict[str, Any] = {}
    for i, end in enumerate(('', *(f'_{baseline}' for baseline in BASELINES))):
        found |= {f'mean_absolute_error{end}': absolute[i] / counts[i], f'rmse{end}': np.sqrt(squares[i] / counts[i])}
    return found


def _moments(values, weights):
    """Keeps total weight, mean, and sum of squared deviations, merged as in `own_data.moments`."""
    kept = make_counts([3], tf.float64, 'moments')
    total, mean, squares = tf.unstack(kept.read_value())
    added = tf.reduce_sum(weights)
    delta = tf.math.divide_no_nan(tf.reduce_sum(weights * (values - mean)), added)
    deviations = tf.reduce_sum(weights * (values - mean - delta) ** 2)
    share = tf.math.divide_no_nan(added, total + added)
    new = [total + added, mean + delta * share, squares + deviations + delta**2 * total * share]
    return kept, tf.assign(kept, tf.stack(new)).op


def _number_values(sums, moments, ranks):
    """Returns {name: score} for the sums of `number_scores`."""
    total, absolute, squares, relative = sums
    _, mean, deviations = moments
    below = ranks.cumsum()
    middle = np.searchsorted(below, [(below[-1] + 1) // 2, below[-1] // 2 + 1])  # Equal if the number of examples is odd.
    errors = (np.int32(middle) * 2**_CUT + 2 ** (_CUT - 1)).astype(np.int32).view(np.float32)  # Between those of a rank.
    return {
        'mean_absolute_error': absolute / total,
        'rmse': np.sqrt(squares / total),
        'r2': 1 - squares / deviations if deviations > total * (_ROUNDING * mean) ** 2 else np.nan,
        'median_absolute_error': errors.mean() if below[-1] else np.nan,
        'mape': relative / total if np.isfinite(relative) else np.nan,
    }


def _mean(values):
    """Returns the mean of those that are not NaN, as where a class does not occur."""
    return np.mean(values[~np.isnan(values)])


def _accumulate(name, shape, cells, new):
    """Returns sums, a float64 variable of this shape, and the op that adds `new` to their `cells`."""
    sums = make_counts(shape, tf.float64, name)
    return sums, tf.scatter_nd_add(sums, cells, new).op


def _pairs(kept, compute):
    """Returns {name: (value, update_op)} for the function that computes {name: value} from the sums."""
    sums, updates = zip(*kept)

    def values(*arrays):
        with np.errstate(all='ignore'), warnings.catch_warnings():
            warnings.simplefilter('ignore', RuntimeWarning)  # Of a mean of none.
            return compute(*arrays)

    names = [*values(*(np.zeros(variable.shape) for variable in sums))]
    computed = tf.numpy_function(lambda *arrays: np.array([*values(*arrays).values()], np.float64), sums, tf.float64)
    computed.set_shape([len(names)])
    update = tf.group(*updates)
    return {name: (value, update) for name, value in zip(names, tf.unstack(computed))}

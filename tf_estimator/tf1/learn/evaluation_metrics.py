"""Metrics of an evaluation."""

import inspect

_NAMES = {
    'labels': ('labels', 'label', 'targets', 'target'),
    'predictions': ('predictions', 'prediction', 'logits', 'logit'),
    'weights': ('weights', 'weight'),
}


class MetricSpec:
    """A metric of one of the predictions and labels.

    Args:
      metric_fn: function of predictions, and perhaps of labels and weights, to a metric, such as those of tf.metrics; see
        _NAMES for what its arguments are called. Other names are of predictions, the first argument, but for labels.
      prediction_key: None if there is only one; likewise label_key and weight_key, the latter of a feature.
    """

    def __init__(self, metric_fn, prediction_key=None, label_key=None, weight_key=None):
        required = [name for name, key in (('labels', label_key), ('weights', weight_key)) if key is not None]
        self.metric_fn = _by_name(metric_fn, required)
        self.prediction_key, self.label_key, self.weight_key = prediction_key, label_key, weight_key

    def create_metric_ops(self, inputs, labels, predictions):
        """Returns the metric's value and update op."""
        return self.metric_fn(
            labels=_one(labels, self.label_key, 'label'),
            predictions=_one(predictions, self.prediction_key, 'prediction'),
            weights=None if self.weight_key is None else inputs[self.weight_key],
        )


def _by_name(function, required):
    """Returns a function of labels, predictions and weights, all by name, that passes another one those that it has."""
    names = [name for name in inspect.signature(function).parameters if name not in getattr(function, 'keywords', {})]
    found = {kind: [name for name in names if name in known] for kind, known in _NAMES.items()}
    for kind, known in _NAMES.items():
        if len(found[kind]) > 1:
            raise ValueError(f'{function} has ambiguous arguments {found[kind]}: leave one of them')
        if kind in required and not found[kind]:
            raise ValueError(f'{function} has a key of {kind}, but none of the arguments {known}')

    def call(labels=None, predictions=None, weights=None):
        given = {'labels': labels, 'predictions': predictions, **({} if weights is None else {'weights': weights})}
        named = {name: given[kind] for kind in given for name in found[kind]}
        if found['predictions']:
            return function(**named)
        first = [named.pop(name) for name in found['labels'] if name == names[0]]
        return function(*first, predictions, **named)

    return call


def _one(tensors, key, what):
    """Returns one of nested tensors, by its key, or the only one."""
    if key is not None and not isinstance(tensors, dict):
        raise ValueError(f'there is a {what}_key {key!r}, but only one {what}: omit the key')
    if not isinstance(tensors, dict):
        return tensors
    if key is None and len(tensors) != 1:
        raise ValueError(f'there are the {what}s {", ".join(sorted(tensors))}: a metric needs a {what}_key')
    if key is not None and key not in tensors:
        raise KeyError(f'there is no {what} {key!r}, but {", ".join(sorted(tensors))}')
    return next(iter(tensors.values())) if key is None else tensors[key]


def metric_fn(metrics):
    """Returns the function of tf.estimator.add_metrics; names may be pairs with the key of the predictions, and labels."""

    def measure(features, labels, predictions):
        found = {}
        for name, metric in metrics.items():
            title, key = name if isinstance(name, tuple) else (name, None)
            if isinstance(metric, MetricSpec):
                found[title] = metric.create_metric_ops(features, labels, predictions)
                continue
            is_nested = isinstance(labels, dict) and (len(labels) == 1 or key in labels)
            label = _one(labels, key if key in labels else None, 'label') if is_nested else labels
            found[title] = metric(_one(predictions, key, 'prediction'), label)
        return found

    return measure

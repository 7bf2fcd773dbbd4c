"""Metrics of an evaluation."""


class MetricSpec:
    """A metric of one of the predictions and labels.

    Args:
      metric_fn: function of `labels`, `predictions` and perhaps `weights` to a metric, such as those of tf.metrics.
      prediction_key: None if there is only one; likewise label_key and weight_key, the latter of a feature.
    """

    def __init__(self, metric_fn, prediction_key=None, label_key=None, weight_key=None):
        self._metric_fn, self._keys = metric_fn, (prediction_key, label_key, weight_key)

    def create_metric_ops(self, inputs, labels, predictions):
        """Returns the metric's value and update op."""
        prediction_key, label_key, weight_key = self._keys
        arguments = {'predictions': _one(predictions, prediction_key), 'labels': _one(labels, label_key)}
        if weight_key is not None:
            arguments['weights'] = inputs[weight_key]
        return self._metric_fn(**arguments)


def _one(tensors, key):
    if not isinstance(tensors, dict):
        return tensors
    return tensors[key] if key is not None else next(iter(tensors.values()))


def metric_fn(metrics):
    """Returns the function of tf.estimator.add_metrics; names may be pairs with the key of the predictions."""

    def measure(features, labels, predictions):
        found = {}
        for name, metric in metrics.items():
            title, key = name if isinstance(name, tuple) else (name, None)
            is_spec = isinstance(metric, MetricSpec)
            arguments = (features, labels, predictions) if is_spec else (_one(predictions, key), labels)
            found[title] = (metric.create_metric_ops if is_spec else metric)(*arguments)
        return found

    return measure

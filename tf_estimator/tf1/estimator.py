"""tf.contrib.estimator: heads, and wrappers of Estimators and optimizers."""

import copy
import inspect

from tf_estimator.mending import around
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import head as heads
from tensorflow_estimator.python.estimator.extenders import add_metrics  # noqa: F401 - a name of this package

_REDUCTIONS = {'weighted_sum': 'sum', 'weighted_sum_over_batch_size': 'sum_over_batch_size'}


class _TakesOptimizer:
    """A head of TensorFlow 2 that takes reductions and optimizers of TensorFlow 1, and runs tf.GraphKeys.UPDATE_OPS.

    Its loss is in tf.GraphKeys.LOSSES, without that of regularization; of several heads, the loss of each one.
    """

    def __init__(self, *args, **options):
        bound = inspect.signature(super().__init__).bind(*args, **options)
        if (reduction := bound.arguments.get('loss_reduction')) in _REDUCTIONS:
            bound.arguments['loss_reduction'] = _REDUCTIONS[reduction]
        super().__init__(*bound.args, **bound.kwargs)

    def create_estimator_spec(self, features, mode, logits, labels=None, optimizer=None, train_op_fn=None, **options):
        if isinstance(optimizer, tf.train.Optimizer):
            old = optimizer
            optimizer, train_op_fn = None, lambda loss: old.minimize(loss, tf.train.get_or_create_global_step())
        options['update_ops'] = options.get('update_ops') or tf.get_collection(tf.GraphKeys.UPDATE_OPS) or None
        spec = super().create_estimator_spec(  # type: ignore[misc]
            features, mode, logits, labels, optimizer=optimizer, train_op_fn=train_op_fn, **options
        )
        if spec.loss is not None:
            del tf.get_collection_ref(tf.GraphKeys.LOSSES)[self._num_losses :]  # Metrics compute some once more.
        return spec

    def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
        losses = tf.get_collection_ref(tf.GraphKeys.LOSSES)
        self._num_losses = len(losses)  # The specs of several heads, which precede their common one, have added theirs.
        found = super().loss(labels, logits, features, mode)  # type: ignore[misc]
        if not isinstance(self, heads.multi_head.MultiHead):
            losses.append(found)
            self._num_losses = len(losses)
        return found if regularization_losses is None else found + tf.add_n(regularization_losses)


(
    binary_classification_head,
    multi_class_head,
    multi_label_head,
    multi_head,
    logistic_regression_head,
    _regression_head,
    _poisson_regression_head,
) = (
    type(head.__name__, (_TakesOptimizer, head), {'__module__': __name__})
    for head in (
        heads.binary_class_head.BinaryClassHead,
        heads.multi_class_head.MultiClassHead,
        heads.multi_label_head.MultiLabelHead,
        heads.multi_head.MultiHead,
        heads.regression_head.LogisticRegressionHead,
        heads.regression_head.RegressionHead,
        heads.regression_head.PoissonRegressionHead,
    )
)


def regression_head(weight_column=None, label_dimension=1, *args, **options):
    return _regression_head(label_dimension, weight_column, *args, **options)


def poisson_regression_head(weight_column=None, label_dimension=1, *args, **options):
    return _poisson_regression_head(label_dimension, weight_column, *args, **options)


def forward_features(estimator, keys=None, sparse_default_values=None):
    """Returns an Estimator like another, whose predictions also have features.

    Args:
      keys: a name or names of features; None for all.
      sparse_default_values: {feature: what is missing in its dense form}.
    """
    names = [keys] if isinstance(keys, str) else keys
    defaults = sparse_default_values or {}

    def dense(name, value):
        if not isinstance(value, tf.SparseTensor):
            return value
        if name not in defaults:
            raise ValueError(f'Feature ({name}) is expected to be a `Tensor`: give its sparse_default_values')
        return tf.sparse.to_dense(value, defaults[name])

    def model_fn(features, labels, mode, config):
        spec = estimator.model_fn(features, labels, mode, config)
        if spec.predictions is None:
            return spec
        if not isinstance(spec.predictions, dict):
            raise ValueError('forward_features needs predictions that are a dict')
        wanted = list(features) if names is None else names
        if unknown := set(wanted) - features.keys():
            raise ValueError(f'keys {sorted(unknown)} are no features')
        forwarded = {name: tf.identity(dense(name, features[name])) for name in wanted}
        if taken := forwarded.keys() & spec.predictions.keys():
            raise ValueError(f'Cannot forward feature key ({", ".join(sorted(taken))}): predictions have it')
        outputs = {
            key: tf.estimator.export.PredictOutput({**output.outputs, **forwarded})
            if isinstance(output, tf.estimator.export.PredictOutput)
            else output
            for key, output in (spec.export_outputs or {}).items()
        }
        return spec._replace(predictions={**spec.predictions, **forwarded}, export_outputs=outputs or None)

    return tf.estimator.Estimator(model_fn, estimator.model_dir, estimator.config)


def clip_gradients_by_norm(optimizer, clip_norm):
    """Returns an optimizer that clips the gradients to a global norm."""
    clipping = copy.copy(optimizer)

    @around(clipping, 'apply_gradients')
    def clip(apply_gradients, grads_and_vars, *args, **kwargs):
        gradients, variables = zip(*grads_and_vars)
        clipped, _ = tf.clip_by_global_norm(gradients, clip_norm)
        return apply_gradients(zip(clipped, variables), *args, **kwargs)

    return clipping


def replicate_model_fn(model_fn, *unused_args, **unused_options):
    """Returns the model_fn: the model runs on one device, which is said."""
    warn(
        'tf.contrib.estimator.replicate_model_fn: the model runs on one device; for several, use '
        'RunConfig(train_distribute=tf.distribute.MirroredStrategy()).'
    )
    return model_fn


def TowerOptimizer(optimizer_or_optimizer_fn):
    """Returns the optimizer: see replicate_model_fn."""
    is_optimizer = isinstance(optimizer_or_optimizer_fn, tf.train.Optimizer)
    return optimizer_or_optimizer_fn if is_optimizer else optimizer_or_optimizer_fn()

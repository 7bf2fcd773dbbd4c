"""A model module, towers and an optimizer make the model_fn of an Estimator."""

import tensorflow.compat.v1 as tf

from common import hooks, learning_rate, moving_average, optimizer
from common.errors import UsageError
from common.parallel import make_parallel

ModeKeys = tf.estimator.ModeKeys


def make_model_fn(model, devices, total_steps, checkpoint_periods):
    """Makes the model_fn that gives an Estimator a model module's network in all three modes.

    Args:
      model: module with `model(features, labels, mode, params)` and, if it likes, `eval_metrics`; see README.md.
      devices: list of str, a tower each; empty for none. Predictions are made without towers, so that an exported model
        loads anywhere.
      total_steps: int, when the training ends; learning-rate schedules need it.
      checkpoint_periods: list of int, at whose multiples the training saves checkpoints.

    Returns:
      Function (features, labels, mode, params, config) that returns a tf.estimator.EstimatorSpec.
    """

    def model_fn(features, labels, mode, params, config):
        if mode == ModeKeys.PREDICT:
            with tf.name_scope('model'):
                predictions, _ = model.model(features, None, mode, params)
            outputs = {'predict': tf.estimator.export.PredictOutput(predictions)}
            return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs,
                                              scaffold=moving_average.restoring_scaffold(params))

        def tower(features, labels):
            predictions, example_loss = model.model(features, labels, mode, params)
            if example_loss is None or example_loss.shape.rank != 1:
                shape = example_loss if example_loss is None else example_loss.shape
                raise UsageError(f'--model={params.model}: model() must return a loss of shape [batch], one for each '
                                 f'example, not {shape}')
            return predictions, example_loss

        # The scope keeps the model's ops from taking the names of the summaries below, which TensorBoard shows.
        with tf.name_scope('model'):
            predictions, example_loss = make_parallel(tower, devices, features=features, labels=labels)
        with tf.name_scope('metrics'):
            metrics = (model.eval_metrics(features, labels, predictions, params)
                       if hasattr(model, 'eval_metrics') else {})
        if mode == ModeKeys.EVAL:
            return _eval_spec(predictions, example_loss, metrics, params)
        return _train_spec(predictions, example_loss, metrics, total_steps, checkpoint_periods, params, config)

    return model_fn


def _eval_spec(predictions, example_loss, metrics, params):
    # The Estimator averages the loss over batches, which weighs a smaller last batch like a full one. It averages over
    # examples if it is given the losses of all of them; only a tensor of unknown rank passes its check for a scalar.
    loss = tf.placeholder_with_default(example_loss + tf.losses.get_regularization_loss(), shape=None)
    return tf.estimator.EstimatorSpec(ModeKeys.EVAL, predictions, loss, eval_metric_ops=metrics,
                                      scaffold=moving_average.restoring_scaffold(params))


def _train_spec(predictions, example_loss, metrics, total_steps, checkpoint_periods, params, config):
    loss = tf.reduce_mean(example_loss) + tf.losses.get_regularization_loss()
    step = tf.train.get_or_create_global_step()
    with tf.name_scope('schedule'):
        rate = learning_rate.learning_rate(step, total_steps, params)
    tf.summary.scalar('learning_rate', rate)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, rate, step, params)
    chief_hooks = [
        hooks.TrainingMetrics(metrics, config.save_summary_steps, params.batch_size, config.model_dir),
        hooks.CheckpointSaver(config.model_dir, checkpoint_periods),
    ]
    return tf.estimator.EstimatorSpec(ModeKeys.TRAIN, predictions, loss, train_op, training_chief_hooks=chief_hooks)

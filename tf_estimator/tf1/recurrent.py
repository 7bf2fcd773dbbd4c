"""Recurrent Estimators of tf.contrib.estimator, with cells of TensorFlow 1."""

import functools

from tf_estimator.tf1.estimator import clip_gradients_by_norm
from tf_estimator.tf1.feature_column import sequence_input_layer
from tf_estimator.tf1.learn.recurrent import select_last_activations

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.canned import head as heads
from tensorflow_estimator.python.estimator.canned import optimizers

_CELLS = {'basic_rnn': tf.nn.rnn_cell.BasicRNNCell, 'lstm': tf.nn.rnn_cell.BasicLSTMCell, 'gru': tf.nn.rnn_cell.GRUCell}


class RNNEstimator(tf.estimator.Estimator):
    """Predicts from the last output of a recurrent network, or from all.

    Args:
      context_feature_columns: what each step sees beside the columns of sequences.
      num_units: of each layer.
      cell_type: 'basic_rnn', which is the default, 'lstm', 'gru', or a class of cells.
      rnn_cell_fn: returns the cell for a mode, in place of num_units and cell_type.
      optimizer: a tf.train.Optimizer; of a name, the learning rate is 0.05, and gradients are clipped to a norm of 5.
    """

    def __init__(
        self,
        head,
        sequence_feature_columns,
        context_feature_columns=None,
        num_units=None,
        cell_type=None,
        rnn_cell_fn=None,
        return_sequences=False,
        model_dir=None,
        optimizer='Adagrad',
        input_layer_partitioner=None,
        config=None,
    ):
        if rnn_cell_fn and (num_units or cell_type):
            raise ValueError('num_units and cell_type must not be specified when using rnn_cell_fn')
        if return_sequences and not hasattr(head, 'input_sequence_mask_key'):
            raise ValueError('Provided head must be a `_SequentialHead` object when `return_sequences` is set to True.')
        columns, context_columns = tuple(sequence_feature_columns), tuple(context_feature_columns or ())
        make_cell = rnn_cell_fn or functools.partial(_cell, tuple(num_units or ()), cell_type or 'basic_rnn')

        def model_fn(features, labels, mode, config):
            def partitioner(**options):
                return tf.min_max_variable_partitioner(config.num_ps_replicas, **options)

            with tf.variable_scope('rnn', partitioner=partitioner()):
                scope_partitioner = input_layer_partitioner or partitioner(min_slice_size=64 << 20)
                with tf.variable_scope('sequence_input_layer', partitioner=scope_partitioner):
                    inputs, lengths = sequence_input_layer(features, columns)
                    tf.summary.histogram('sequence_length', lengths)
                    if context_columns:
                        context = tf.feature_column.input_layer(features, context_columns)
                        inputs = tf.concat([inputs, tf.tile(context[:, None], [1, tf.shape(inputs)[1], 1])], 2)
                outputs, _ = tf.nn.dynamic_rnn(make_cell(mode), inputs, lengths, dtype=tf.float32)
                if return_sequences:
                    features.setdefault(head.input_sequence_mask_key, tf.sequence_mask(lengths, tf.shape(inputs)[1]))
                else:
                    outputs = select_last_activations(outputs, lengths)
                with tf.variable_scope('logits'):
                    logits = tf.layers.dense(outputs, head.logits_dimension, kernel_initializer=tf.glorot_uniform_initializer())
                return head.create_estimator_spec(
                    features=features,
                    mode=mode,
                    labels=labels,
                    logits=logits,
                    train_op_fn=lambda loss: _optimizer(optimizer).minimize(loss, tf.train.get_global_step()),
                )

        super().__init__(model_fn, model_dir, config)


class RNNClassifier(RNNEstimator):
    """An RNNEstimator with a head of classes."""

    def __init__(
        self,
        sequence_feature_columns,
        context_feature_columns=None,
        num_units=None,
        cell_type=None,
        rnn_cell_fn=None,
        model_dir=None,
        n_classes=2,
        weight_column=None,
        label_vocabulary=None,
        optimizer='Adagrad',
        loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
        input_layer_partitioner=None,
        config=None,
    ):
        super().__init__(
            heads._binary_logistic_or_multi_class_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            sequence_feature_columns,
            context_feature_columns,
            num_units,
            cell_type,
            rnn_cell_fn,
            model_dir=model_dir,
            optimizer=optimizer,
            input_layer_partitioner=input_layer_partitioner,
            config=config,
        )


def _cell(num_units, cell_type, mode):
    del mode
    if isinstance(cell_type, str) and cell_type not in _CELLS:
        raise ValueError(f'Supported cell types are {[*_CELLS]}, but given {cell_type}')
    cells = [_CELLS.get(cell_type, cell_type)(num_units=units) for units in num_units]
    return cells[0] if len(cells) == 1 else tf.nn.rnn_cell.MultiRNNCell(cells)


def _optimizer(optimizer):
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    return clip_gradients_by_norm(optimizers.get_optimizer_instance(optimizer, 0.05), 5.0)

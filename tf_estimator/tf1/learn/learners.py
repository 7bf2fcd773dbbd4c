"""Estimators of a model_fn, and canned ones, with the arguments and methods that they had in tf.contrib.learn."""

import functools
import inspect
import itertools
import math
import threading
from typing import Any

from tf_estimator.mending import around
from tf_estimator.tf1.estimator import clip_gradients_by_norm
from tf_estimator.tf1.learn.evaluation_metrics import metric_fn
from tf_estimator.tf1.learn.exports import exporting, receiver_fn_of, served, with_default
from tf_estimator.tf1.learn.monitors import replace_monitors_with_hooks

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.canned import optimizers


class ModeKeys:
    TRAIN, EVAL, INFER = 'train', 'eval', 'infer'


def ModelFnOps(mode, predictions=None, loss=None, train_op=None, eval_metric_ops=None, output_alternatives=None, **options):
    """Returns the EstimatorSpec of a model, with its options; output_alternatives become export_outputs of the predictions."""
    outputs = {name: tf.estimator.export.PredictOutput(tensors) for name, (_, tensors) in (output_alternatives or {}).items()}
    served_outputs = with_default(outputs) or None
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op, eval_metric_ops, served_outputs, **options)


_LATER_SETTINGS = (
    'tf_random_seed save_summary_steps save_checkpoints_secs save_checkpoints_steps keep_checkpoint_max '
    'keep_checkpoint_every_n_hours log_step_count_steps protocol evaluation_master model_dir session_config '
    'session_creation_timeout_secs'
).split()


def _by_name(function, names, values, options):
    """Returns {name: value} of the arguments of a function, of which the first ones are given by position."""
    given = dict(zip(names, values))
    if len(given) < len(values) or given.keys() & options.keys():
        raise TypeError(f'{function} got too many values, or one by its position and its name')
    return given | options


class RunConfig(tf.estimator.RunConfig):
    """The settings of tf.contrib.learn, by name or by their position, and those of tf.estimator.

    The cluster is that of TF_CONFIG.
    """

    def __init__(self, master=None, num_cores=0, log_device_placement=False, gpu_memory_fraction=1, *later, **options):
        options = _by_name('RunConfig', _LATER_SETTINGS, later, options)
        evaluation_master = options.pop('evaluation_master', '')
        if options.get('session_config') is None and (num_cores or log_device_placement or gpu_memory_fraction != 1):
            options['session_config'] = tf.ConfigProto(
                inter_op_parallelism_threads=num_cores,
                intra_op_parallelism_threads=num_cores,
                log_device_placement=log_device_placement,
                gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
            )
        super().__init__(**options)
        if master is not None:
            self._master = master
        if evaluation_master:
            self._evaluation_master = evaluation_master

    @property
    def tf_config(self):
        """The session_config, which programs change in place."""
        if self.session_config is None:
            self._session_config = tf.ConfigProto(allow_soft_placement=True)
        return self.session_config


class _Learner(tf.estimator.Estimator):
    """The methods of Estimators, for which x and y may be arrays in place of an input_fn."""

    def fit(self, x=None, y=None, input_fn=None, steps=None, batch_size=None, monitors=None, max_steps=None):
        hooks = replace_monitors_with_hooks(monitors, self)
        return self.train(_input_fn(x, y, input_fn, batch_size, None, True), hooks, steps, max_steps)

    partial_fit = fit

    def _call_model_fn(self, features, labels, mode, config):
        spec = super()._call_model_fn(features, labels, mode, config)
        return spec._replace(export_outputs=served(spec.export_outputs)) if spec.export_outputs else spec

    def export_savedmodel(
        self,
        export_dir_base,
        serving_input_fn,
        default_output_alternative_key=None,
        assets_extra=None,
        as_text=False,
        checkpoint_path=None,
        graph_rewrite_specs=None,
        strip_default_attrs=False,
    ):
        """Returns the folder of a SavedModel of the latest checkpoint; serving_input_fn may return InputFnOps.

        Args:
          default_output_alternative_key: of the output_alternatives that are served by default, if there are several.
          graph_rewrite_specs: is ignored.
        """
        options = dict(assets_extra=assets_extra, as_text=as_text, checkpoint_path=checkpoint_path)
        with exporting(default_output_alternative_key):
            return self.export_saved_model(export_dir_base, receiver_fn_of(serving_input_fn), **options)

    def evaluate(
        self,
        x=None,
        y=None,
        input_fn=None,
        feed_fn=None,
        batch_size=None,
        steps=None,
        metrics=None,
        name=None,
        checkpoint_path=None,
        hooks=None,
        log_progress=True,
    ):
        """Returns the metrics: those of the model, and of {name: MetricSpec, or function of predictions and labels}."""
        if feed_fn is not None:
            raise ValueError('feed_fn is not supported: feed in a hook')
        evaluate = tf.estimator.add_metrics(self, metric_fn(metrics)).evaluate if metrics else super().evaluate
        return evaluate(_input_fn(x, y, input_fn, batch_size), steps, hooks, checkpoint_path, name)

    def predict(self, x=None, input_fn=None, batch_size=None, outputs=None, as_iterable=True, iterate_batches=False):
        """Yields the predictions; returns them as arrays unless as_iterable.

        Args:
          outputs: keys of predictions that are a dict; by default all.
        """
        found = super().predict(
            _input_fn(x, None, input_fn, batch_size), outputs, yield_single_examples=not (as_iterable and iterate_batches)
        )
        return found if as_iterable else _stack([*found])


def _input_fn(x, y, input_fn, batch_size, epochs=1, shuffle=False):
    if input_fn is not None:
        return input_fn
    if x is None:
        raise ValueError('give an input_fn, or x')
    arrays = {key: _as_floats(values) for key, values in x.items()} if isinstance(x, dict) else _as_floats(x)
    count = len(next(iter(arrays.values())) if isinstance(x, dict) else arrays)
    size = batch_size or count
    labels = y if y is None or isinstance(y, dict) else _as_floats(y)
    return tf.estimator.inputs.numpy_input_fn(arrays, labels, size, epochs, shuffle and size < count, max(1000, 2 * size))


def _as_floats(values):
    array = np.asarray(values)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _stack(rows):
    if rows and isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return np.asarray(rows)


class Estimator(_Learner):
    """An Estimator of a model_fn.

    Args:
      model_fn: function of features and labels, by position, and perhaps of `mode`, `params`, `config` and `model_dir`, to
        ModelFnOps, or to predictions, loss and train_op.
      feature_engineering_fn: function of features and labels to those of model_fn.
    """

    def __init__(self, model_fn, model_dir=None, config=None, params=None, feature_engineering_fn=None):
        taken = inspect.signature(model_fn).parameters.keys() - getattr(model_fn, 'keywords', {}).keys()
        if params is not None and 'params' not in taken:
            raise ValueError(f'model_fn ({model_fn}) does not have a params argument, but params are given')

        specs: Any = None  # Of the labels, for which predictions have placeholders.

        def spec_fn(features, labels, mode, params, config):
            nonlocal specs
            if labels is not None:
                specs = tf.nest.map_structure(_spec, labels)
            elif specs is not None:
                labels = tf.nest.map_structure(lambda spec: tf.placeholder(spec.dtype, spec.shape), specs)
            if feature_engineering_fn is not None:
                features, labels = feature_engineering_fn(features, labels)
            options = {'mode': mode, 'params': params, 'config': config, 'model_dir': config.model_dir}
            found = model_fn(features, labels, **{name: value for name, value in options.items() if name in taken})
            if isinstance(found, tf.estimator.EstimatorSpec):
                return found
            if not isinstance(found, (tuple, list)) or len(found) != 3:
                raise ValueError(
                    'Unrecognized value returned by model_fn: return ModelFnOps, or predictions, loss and train_op'
                )
            return ModelFnOps(mode, *found)

        super().__init__(spec_fn, model_dir, config, params or {})


def _spec(tensor):
    """Returns the TensorSpec of a tensor for batches of any size."""
    return tf.TensorSpec(tf.TensorShape([None]).concatenate(tensor.shape[1:]), tensor.dtype)


class SKCompat:
    """The interface of scikit-learn for an Estimator of tf.contrib.learn."""

    def __init__(self, estimator):
        self._estimator = estimator

    def fit(self, x, y, batch_size=128, steps=None, max_steps=None, monitors=None):
        self._estimator.fit(x, y, steps=steps, batch_size=batch_size, monitors=monitors, max_steps=max_steps)
        return self

    def score(self, x, y, batch_size=128, steps=None, metrics=None, name=None):
        return self._estimator.evaluate(x, y, batch_size=batch_size, steps=steps, metrics=metrics, name=name)

    def predict(self, x, batch_size=128, outputs=None):
        """Returns the predictions as arrays: those of canned Estimators by the keys of old, such as classes and scores."""
        return _Learner.predict(self._estimator, x, batch_size=batch_size, outputs=outputs, as_iterable=False)


def _distinct(columns):
    """Returns each column once; those of one name, which tf.feature_column refuses, with numbers."""
    columns = [columns] if hasattr(columns, 'name') else [*columns]
    taken, found = {column.name for column in columns}, {}
    for column in dict.fromkeys(columns):
        kind, name = type(column), column.name
        if name in found:
            name = next(other for i in itertools.count(1) if (other := f'{name}_{i}') not in taken)
            taken.add(name)
            column = type(kind.__name__, (kind,), {'name': name})(*column)
        found[name] = column
    return [*found.values()]


_named_optimizer = optimizers.get_optimizer_instance
_clipping = threading.local()  # Its norm: that of the Estimator whose model_fn this thread calls, if it clips.


@around(optimizers, 'get_optimizer_instance')
def _get_optimizer(former, *args, **options):
    """Lets the optimizers of canned Estimators, which may be names or the default, clip gradients."""
    norm = getattr(_clipping, 'norm', None)
    return clip_gradients_by_norm(former(*args, **options), norm) if norm else former(*args, **options)


_GONE = {  # Unless they are off.
    *('enable_centered_bias', 'embedding_lr_multipliers'),
    *('_joint_weight', '_joint_weights', '_joint_linear_weights'),
}
_WITHOUT_EFFECT = {'fix_global_step_increment_bug', 'input_layer_min_slice_size'}


class _Canned(_Learner):
    """An Estimator of tf.estimator with arguments and predictions of old; its features may be one tensor, of the column ''."""

    _positions: list[str]  # The names of its arguments.
    _key: str  # Of the predictions.
    _weight_name = None  # Of the feature with the weights of a batch's mean.

    def __init__(self, *args, **options):
        options = _by_name(type(self).__name__, self._positions, args, options)
        self._clip_norm, self._engineer = (options.pop(name, None) for name in ('gradient_clip_norm', 'feature_engineering_fn'))
        for name in _GONE & options.keys():
            if options.pop(name):
                raise ValueError(f'{type(self).__name__}: TensorFlow 2 has no {name}: omit it')
        options = {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT}
        renamed = {'weight_column_name': 'weight_column', 'label_keys': 'label_vocabulary'}
        options = {renamed.get(name, name): value for name, value in options.items()}
        arguments = inspect.signature(super().__init__).bind(**options).arguments
        if 'loss_reduction' not in arguments:  # Of old, a batch's loss is its mean.
            arguments['loss_reduction'] = tf.losses.Reduction.SUM_OVER_BATCH_SIZE
            self._weight_name = arguments.get('weight_column')
        columns = {name: _distinct(value) for name, value in arguments.items() if value and name.endswith('feature_columns')}
        super().__init__(**self._with_defaults(arguments | columns))
        self._has_names = bool(arguments.get('label_vocabulary'))

    def _with_defaults(self, arguments):
        """Returns the arguments with the optimizers of old for those that are absent or None."""
        return {name: value for name, value in arguments.items() if value is not None or not name.endswith('optimizer')}

    def _call_model_fn(self, features, labels, mode, config):
        if self._engineer:
            features, labels = self._engineer(features, labels)
        inputs = features if isinstance(features, dict) else {'': features}
        _clipping.norm = self._clip_norm
        try:
            spec = super()._call_model_fn(inputs, labels, mode, config)
        finally:
            _clipping.norm = None
        if mode == ModeKeys.EVAL and isinstance(self._weight_name, str):  # The sum of weighted losses by that of the weights.
            spec = spec._replace(loss=spec.loss / tf.reduce_mean(tf.cast(inputs[self._weight_name], tf.float32)))
        if not spec.predictions:
            return spec
        predictions, outputs = self.predictions_of_old(spec.predictions), spec.export_outputs
        return spec._replace(predictions=predictions, export_outputs=outputs and served(outputs, predictions))

    def predict(self, x=None, input_fn=None, batch_size=None, outputs=None, as_iterable=True, iterate_batches=False):
        """Like predict_classes or predict_scores unless there are `outputs`."""
        if outputs or iterate_batches:
            return super().predict(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)
        return self._predict_one(self._key, x, input_fn, batch_size, as_iterable)

    def _predict_one(self, key, x, input_fn, batch_size, as_iterable):
        found = (row[key] for row in super().predict(x, input_fn, batch_size, [key]))
        return found if as_iterable else np.asarray([*found])


class _Classifier(_Canned):
    _key = 'classes'

    def predictions_of_old(self, predictions):
        classes = predictions['classes' if self._has_names else 'class_ids']  # Without names, the former are texts of numbers.
        kept = {key: value for key, value in predictions.items() if 'class' not in key}
        return {**kept, 'classes': tf.squeeze(classes, 1)}

    def predict_classes(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        return self._predict_one(self._key, x, input_fn, batch_size, as_iterable)

    def predict_proba(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        return self._predict_one('probabilities', x, input_fn, batch_size, as_iterable)


class _Regressor(_Canned):
    _key = 'scores'

    def predictions_of_old(self, predictions):
        scores = predictions['predictions']
        return {'scores': tf.squeeze(scores, 1) if scores.shape[1] == 1 else scores}

    def predict_scores(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        return self._predict_one(self._key, x, input_fn, batch_size, as_iterable)


class _Linear:
    def _with_defaults(self, arguments):
        return {'optimizer': None, **arguments}  # Ftrl, with a rate by the number of columns.


class _Combined:
    def _with_defaults(self, arguments):
        columns = arguments.get('linear_feature_columns') or ['']
        parts = (('dnn', 'Adagrad', 0.05), ('linear', 'Ftrl', min(0.2, 1 / math.sqrt(len(columns)))))
        for part, default, rate in parts:
            optimizer = arguments.get(f'{part}_optimizer') or default
            if isinstance(optimizer, str):
                optimizer = functools.partial(_named_optimizer, optimizer, rate)
            arguments[f'{part}_optimizer'] = optimizer
        return {**arguments, 'dnn_activation_fn': arguments.get('dnn_activation_fn') or tf.nn.relu}


# The arguments of old in their order, of classifiers and of regressors.
_DNN = (
    'hidden_units feature_columns model_dir n_classes weight_column_name optimizer activation_fn dropout gradient_clip_norm '
    'enable_centered_bias config feature_engineering_fn label_dimension embedding_lr_multipliers input_layer_min_slice_size '
    'label_keys'
)
_LINEAR = (
    'feature_columns model_dir n_classes weight_column_name optimizer gradient_clip_norm enable_centered_bias label_dimension '
    '_joint_weights config feature_engineering_fn label_keys'
)
_COMBINED = (
    'model_dir n_classes weight_column_name linear_feature_columns linear_optimizer _joint_linear_weights dnn_feature_columns '
    'dnn_optimizer dnn_hidden_units dnn_activation_fn dnn_dropout gradient_clip_norm enable_centered_bias label_dimension '
    'config feature_engineering_fn embedding_lr_multipliers input_layer_min_slice_size label_keys fix_global_step_increment_bug'
)

for _kind, _names, *_defaults in (('DNN', _DNN), ('Linear', _LINEAR, _Linear), ('DNNLinearCombined', _COMBINED, _Combined)):
    for _suffix, _base, _lacks in (
        ('Classifier', _Classifier, {'label_dimension'}),
        ('Regressor', _Regressor, {'n_classes', 'label_keys'}),
    ):
        _name, _positions = _kind + _suffix, [name for name in _names.split() if name not in _lacks]
        _bases = (*_defaults, _base, getattr(tf.estimator, _name))
        globals()[_name] = type(_name, _bases, {'_positions': _positions})

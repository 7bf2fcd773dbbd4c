"""tf.contrib.learn on tf.estimator: Estimators of a model_fn, Experiment, and helpers of its data."""

import collections
import csv
import inspect
import json
import re
import types

from tf_estimator.tf1 import data, mnist

import numpy as np
import tensorflow.compat.v1 as tf

_WORD = re.compile(r'[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+')


class ModeKeys:
    TRAIN, EVAL, INFER = 'train', 'eval', 'infer'


InputFnOps = collections.namedtuple('InputFnOps', ['features', 'labels', 'default_inputs'])


def ModelFnOps(
    mode,
    predictions=None,
    loss=None,
    train_op=None,
    eval_metric_ops=None,
    output_alternatives=None,
    training_chief_hooks=None,
    training_hooks=None,
    scaffold=None,
):
    """Returns the EstimatorSpec of a model; output_alternatives become export_outputs of the predictions."""
    outputs = {name: tf.estimator.export.PredictOutput(tensors) for name, (_, tensors) in (output_alternatives or {}).items()}
    return tf.estimator.EstimatorSpec(
        mode, predictions, loss, train_op, eval_metric_ops, outputs or None, training_chief_hooks, training_hooks, scaffold
    )


class RunConfig(tf.estimator.RunConfig):
    """The settings of tf.contrib.learn; the cluster is that of TF_CONFIG."""

    def __init__(
        self,
        master=None,
        num_cores=0,
        log_device_placement=False,
        gpu_memory_fraction=1,
        tf_random_seed=None,
        save_summary_steps=100,
        save_checkpoints_secs=600,
        save_checkpoints_steps=None,
        keep_checkpoint_max=5,
        keep_checkpoint_every_n_hours=10000,
        log_step_count_steps=100,
        protocol=None,
        evaluation_master='',
        model_dir=None,
        session_config=None,
    ):
        if session_config is None and (num_cores or log_device_placement or gpu_memory_fraction != 1):
            session_config = tf.ConfigProto(
                inter_op_parallelism_threads=num_cores,
                intra_op_parallelism_threads=num_cores,
                log_device_placement=log_device_placement,
                gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
            )
        super().__init__(
            model_dir,
            tf_random_seed,
            save_summary_steps,
            save_checkpoints_steps,
            save_checkpoints_secs if save_checkpoints_steps is None else None,
            session_config,
            keep_checkpoint_max,
            keep_checkpoint_every_n_hours,
            log_step_count_steps,
            protocol=protocol,
        )
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
        return self.train(_input_fn(x, y, input_fn, batch_size, None, True), monitors, steps, max_steps)

    partial_fit = fit

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
        evaluate = tf.estimator.add_metrics(self, _metric_fn(metrics)).evaluate if metrics else super().evaluate
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
    size = batch_size or len(next(iter(arrays.values())) if isinstance(x, dict) else arrays)
    labels = y if y is None or isinstance(y, dict) else _as_floats(y)
    return tf.estimator.inputs.numpy_input_fn(arrays, labels, size, epochs, shuffle, max(1000, 2 * size))


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

    def __init__(self, model_fn=None, model_dir=None, config=None, params=None, feature_engineering_fn=None):
        taken = inspect.signature(model_fn).parameters
        if params is not None and 'params' not in taken:
            raise ValueError(f'model_fn ({model_fn}) does not have a params argument, but params are given')

        def spec_fn(features, labels, mode, params, config):
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


class _Canned(_Learner):
    """An Estimator of tf.estimator with arguments of old, whose features may be one tensor, of the column ''."""

    _key: str  # Of the predictions.

    def __init__(self, *args, **options):
        renamed = {'weight_column_name': 'weight_column', 'label_keys': 'label_vocabulary'}
        options = {'loss_reduction': tf.losses.Reduction.SUM_OVER_BATCH_SIZE, **options}  # Of old, a batch's loss is its mean.
        super().__init__(*args, **{renamed.get(name, name): value for name, value in options.items()})
        if options.get('label_keys'):
            self._key = 'classes'

    def _call_model_fn(self, features, labels, mode, config):
        return super()._call_model_fn(features if isinstance(features, dict) else {'': features}, labels, mode, config)

    def predict(self, x=None, input_fn=None, batch_size=None, outputs=None, as_iterable=True, iterate_batches=False):
        """Like predict_classes or predict_scores unless there are `outputs`."""
        if outputs or iterate_batches:
            return super().predict(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)
        return self._predict_one(self._key, x, input_fn, batch_size, as_iterable)

    def _predict_one(self, key, x, input_fn, batch_size, as_iterable):
        rows = _Learner.predict(self, x, input_fn, batch_size, [key])
        found = (row[key][0] if row[key].shape == (1,) else row[key] for row in rows)
        return found if as_iterable else np.asarray([*found])


class _Classifier(_Canned):
    _key = 'class_ids'

    def predict_classes(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        return self._predict_one(self._key, x, input_fn, batch_size, as_iterable)

    def predict_proba(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        return self._predict_one('probabilities', x, input_fn, batch_size, as_iterable)


class _Regressor(_Canned):
    _key = 'predictions'

    def predict_scores(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        return self._predict_one(self._key, x, input_fn, batch_size, as_iterable)


class DNNClassifier(_Classifier, tf.estimator.DNNClassifier):
    pass


class DNNRegressor(_Regressor, tf.estimator.DNNRegressor):
    pass


class LinearClassifier(_Classifier, tf.estimator.LinearClassifier):
    pass


class LinearRegressor(_Regressor, tf.estimator.LinearRegressor):
    pass


class DNNLinearCombinedClassifier(_Classifier, tf.estimator.DNNLinearCombinedClassifier):
    pass


class DNNLinearCombinedRegressor(_Regressor, tf.estimator.DNNLinearCombinedRegressor):
    pass


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


def _metric_fn(metrics):
    """Returns the function of tf.estimator.add_metrics; names may be pairs with the key of the predictions."""

    def metric_fn(features, labels, predictions):
        found = {}
        for name, metric in metrics.items():
            title, key = name if isinstance(name, tuple) else (name, None)
            is_spec = isinstance(metric, MetricSpec)
            arguments = (features, labels, predictions) if is_spec else (_one(predictions, key), labels)
            found[title] = (metric.create_metric_ops if is_spec else metric)(*arguments)
        return found

    return metric_fn


class Experiment:
    """An Estimator with what it is trained and evaluated on: after each checkpoint, whatever the options about times are.

    Args:
      export_strategies: exporters, as of make_export_strategy.
    """

    def __init__(
        self,
        estimator,
        train_input_fn,
        eval_input_fn,
        eval_metrics=None,
        train_steps=None,
        eval_steps=100,
        train_monitors=None,
        eval_hooks=None,
        local_eval_frequency=None,
        eval_delay_secs=120,
        continuous_eval_throttle_secs=60,
        min_eval_frequency=None,
        delay_workers_by_global_step=False,
        export_strategies=None,
        train_steps_per_iteration=None,
        checkpoint_and_export=False,
        saving_listeners=None,
        check_interval_secs=5,
    ):
        self.estimator = estimator
        self._measured = tf.estimator.add_metrics(estimator, _metric_fn(eval_metrics)) if eval_metrics else estimator
        self._train_spec = tf.estimator.TrainSpec(train_input_fn, train_steps, train_monitors, saving_listeners)
        self._eval_spec = tf.estimator.EvalSpec(
            eval_input_fn, eval_steps, hooks=eval_hooks, exporters=export_strategies, start_delay_secs=0, throttle_secs=0
        )

    def train(self, delay_secs=None):
        spec = self._train_spec
        return self.estimator.train(spec.input_fn, spec.hooks, max_steps=spec.max_steps, saving_listeners=spec.saving_listeners)

    def evaluate(self, delay_secs=None, name=None):
        spec = self._eval_spec
        return self._measured.evaluate(input_fn=spec.input_fn, steps=spec.steps, hooks=spec.hooks, name=name)

    def train_and_evaluate(self):
        return tf.estimator.train_and_evaluate(self._measured, self._train_spec, self._eval_spec)

    local_run = continuous_train_and_eval = train_and_evaluate


def run(experiment_fn, output_dir=None, schedule=None, run_config=None, hparams=None):
    """Makes an Experiment and calls one of its methods, by default train_and_evaluate.

    Args:
      experiment_fn: function of output_dir, or of run_config and hparams.
    """
    experiment = experiment_fn(output_dir) if run_config is None else experiment_fn(run_config, hparams)
    tasks = [name for name in dir(experiment) if not name.startswith('_') and callable(getattr(experiment, name))]
    if (schedule or 'train_and_evaluate') not in tasks:
        raise ValueError(f'Schedule references non-existent task {schedule}: there are {", ".join(tasks)}')
    return getattr(experiment, schedule or 'train_and_evaluate')()


def make_export_strategy(serving_input_fn, default_output_alternative_key=None, assets_extra=None, as_text=False, **options):
    """Returns an exporter of the latest models; serving_input_fn may return InputFnOps."""

    def receiver_fn():
        found = serving_input_fn()
        if isinstance(found, InputFnOps):
            return tf.estimator.export.ServingInputReceiver(found.features, found.default_inputs)
        return found

    return tf.estimator.LatestExporter('Servo', receiver_fn, assets_extra, as_text, options.get('exports_to_keep', 5))


def build_parsing_serving_input_fn(feature_spec, default_batch_size=None):
    """Returns a function to InputFnOps of serialized tf.train.Examples."""

    def input_fn():
        examples = tf.placeholder(tf.string, [default_batch_size], 'input_example_tensor')
        return InputFnOps(tf.io.parse_example(examples, feature_spec), None, {'examples': examples})

    return input_fn


Dataset = collections.namedtuple('Dataset', ['data', 'target'])


def load_csv_with_header(filename, target_dtype, features_dtype, target_column=-1):
    """Returns the Dataset of a CSV file, whose first line has the number of rows and of features."""
    with tf.io.gfile.GFile(filename) as file:
        rows = list(csv.reader(file))
    count, width = int(rows[0][0]), int(rows[0][1])
    found = _split_columns(rows[1:], target_dtype, features_dtype, target_column)
    if found.data.shape != (count, width):
        raise ValueError(f'{filename}: its first line says {count} rows of {width} features, but it has {found.data.shape}')
    return found


def load_csv_without_header(filename, target_dtype, features_dtype, target_column=-1):
    with tf.io.gfile.GFile(filename) as file:
        return _split_columns(list(csv.reader(file)), target_dtype, features_dtype, target_column)


def _split_columns(rows, target_dtype, features_dtype, target_column):
    target = np.asarray([row.pop(target_column) for row in rows], target_dtype)
    return Dataset(np.asarray(rows, features_dtype), target)


def infer_real_valued_columns_from_input(x):
    """Returns the column of an array of numbers, [rows, size]."""
    return [tf.feature_column.numeric_column('', x.shape[1:])]


def tokenizer(texts):
    """Yields the words of each text."""
    for text in texts:
        yield _WORD.findall(text)


class VocabularyProcessor:
    """Texts to ids of their words: 0 for padding and for unknown words.

    Args:
      max_document_length: words beyond are left out.
      min_frequency: words that are rarer or as rare are unknown.
      vocabulary: a CategoricalVocabulary.
      tokenizer_fn: function of texts to an iterator of their words.
    """

    def __init__(self, max_document_length, min_frequency=0, vocabulary=None, tokenizer_fn=None):
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents, unused_y=None):
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents, unused_y=None):
        documents = list(raw_documents)
        return self.fit(documents).transform(documents)

    def transform(self, raw_documents):
        """Yields int64 [max_document_length] for each text."""
        for tokens in self._tokenizer(raw_documents):
            ids = np.zeros(self.max_document_length, np.int64)
            for i, token in zip(range(self.max_document_length), tokens):
                ids[i] = self.vocabulary_.get(token)
            yield ids

    def reverse(self, documents):
        for ids in documents:
            yield ' '.join(self.vocabulary_.reverse(i) for i in ids)

    def save(self, filename):
        """Writes JSON, in place of the pickle of TensorFlow 1; a tokenizer_fn is not saved."""
        content = {
            'max_document_length': self.max_document_length,
            'min_frequency': self.min_frequency,
            'has_tokenizer_fn': self._tokenizer is not tokenizer,
            'vocabulary': vars(self.vocabulary_),
        }
        with tf.io.gfile.GFile(filename, 'w') as file:
            file.write(json.dumps(content))

    @classmethod
    def restore(cls, filename):
        """Returns the VocabularyProcessor in a file; raises ValueError if it was not saved as JSON, or had a tokenizer_fn."""
        with tf.io.gfile.GFile(filename, 'rb') as file:
            content = file.read()
        advice = 'fit the VocabularyProcessor again'
        try:
            found = json.loads(content)
        except ValueError:
            raise ValueError(f'{filename}: is no JSON, as a pickle of TensorFlow 1, which is not read: {advice}') from None
        if found['has_tokenizer_fn']:
            raise ValueError(f'{filename}: its tokenizer_fn is not saved: {advice}')
        vocabulary = CategoricalVocabulary()
        vars(vocabulary).update(found['vocabulary'])
        return cls(found['max_document_length'], found['min_frequency'], vocabulary)


class CategoricalVocabulary:
    """Ids of categories, such as words; 0 is the unknown one. `reverse` always works."""

    def __init__(self, unknown_token='<UNK>', support_reverse=True):
        self._mapping, self._reverse_mapping = {unknown_token: 0}, [unknown_token]
        self._freq, self._freeze = {}, False

    def __len__(self):
        return len(self._mapping)

    def freeze(self, freeze=True):
        self._freeze = freeze

    def get(self, category):
        if category not in self._mapping and not self._freeze:
            self._mapping[category] = len(self._mapping)
            self._reverse_mapping.append(category)
        return self._mapping.get(category, 0)

    def add(self, category, count=1):
        if self.get(category):
            self._freq[category] = self._freq.get(category, 0) + count

    def trim(self, min_frequency, max_frequency=-1):
        """Drops the categories with a count up to the minimum or from the maximum; orders the others by count and name."""
        ordered = sorted(self._freq.items(), key=lambda item: (-item[1], item[0]))
        self._freq = {word: count for word, count in ordered if count > min_frequency and not 0 < max_frequency <= count}
        self._reverse_mapping = [self._reverse_mapping[0], *self._freq]
        self._mapping = {word: i for i, word in enumerate(self._reverse_mapping)}

    def reverse(self, class_id):
        return self._reverse_mapping[class_id]


learn_runner = types.SimpleNamespace(run=run)
preprocessing = types.SimpleNamespace(
    VocabularyProcessor=VocabularyProcessor, CategoricalVocabulary=CategoricalVocabulary, tokenizer=tokenizer
)
datasets = types.SimpleNamespace(
    mnist=mnist,
    load_dataset=mnist.load_dataset,
    base=types.SimpleNamespace(
        maybe_download=mnist.maybe_download,
        load_csv_with_header=load_csv_with_header,
        load_csv_without_header=load_csv_without_header,
        Dataset=Dataset,
        Datasets=mnist.Datasets,
    ),
)
monitors = types.SimpleNamespace(replace_monitors_with_hooks=lambda monitors, estimator: list(monitors or ()))
io = types.SimpleNamespace(read_batch_features=data.read_batch_features)
utils = saved_model_export_utils = types.SimpleNamespace(make_export_strategy=make_export_strategy)
utils.saved_model_export_utils = saved_model_export_utils
input_fn_utils = utils.input_fn_utils = types.SimpleNamespace(
    InputFnOps=InputFnOps, build_parsing_serving_input_fn=build_parsing_serving_input_fn
)

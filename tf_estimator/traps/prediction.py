"""predict() keeps its graph and session while it is called again with the same model and checkpoint, and with inputs alike."""

from tf_estimator.mending import around
from tf_estimator.traps import kept, memory

import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context
from tensorflow_estimator.python.estimator import estimator as estimators

_PREDICT = tf.estimator.ModeKeys.PREDICT


class _Model:
    """A graph of predictions, which is fed, with its session."""

    def __init__(self, graph, inputs, predictions, scaffold, checkpoint, config):
        self.signature, self.predictions = kept.signature(inputs), predictions
        self._inputs = kept.flatten(inputs)
        creator = tf.train.ChiefSessionCreator(scaffold, config=config, checkpoint_filename_with_path=checkpoint)
        with graph.as_default():
            self._session = creator.create_session()

    def run(self, values):
        return self._session.run(self.predictions, dict(zip(self._inputs, values)))


@around(estimators.Estimator, 'train')
def _train(train, self, *args, **kwargs):
    vars(self).pop('_kept_prediction', None)  # Its weights need memory, and will not be the latest.
    return train(self, *args, **kwargs)


@around(estimators.Estimator, 'predict')
def _predict(predict, self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None, yield_single_examples=True):
    checkpoint = checkpoint_path or self.latest_checkpoint()
    situation = None if hooks or self._config.master else _situation(self, checkpoint, predict_keys)
    keep = vars(self).setdefault('_kept_prediction', kept.Kept()).again(situation)
    if keep is None:
        yield from predict(self, input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples)
    else:
        for batch in _batches(self, keep, input_fn, predict_keys, checkpoint):
            yield from _examples(self, batch) if yield_single_examples else [batch]


def _situation(estimator, checkpoint, predict_keys):
    """Returns what predictions depend on but for the input, to compare it; None without a checkpoint, or if it is unknown."""
    try:
        with tf.io.gfile.GFile(f'{checkpoint}.index', 'rb') as file:
            index = file.read()  # It has the checksums of all values.
    except tf.errors.OpError:
        return None
    return kept.situation(estimator, checkpoint, index, list(predict_keys or ()))


def _examples(estimator, batch):
    if not isinstance(batch, dict):
        return batch
    return [{key: value[i] for key, value in batch.items()} for i in range(estimator._extract_batch_length(batch))]


def _batches(estimator, keep, input_fn, predict_keys, checkpoint):
    """Yields the predictions of batches, by the kept model if it takes the input; otherwise makes another one."""
    with context.graph_mode(), tf.Graph().as_default() as graph:
        tf.set_random_seed(estimator._config.tf_random_seed)
        estimator._create_and_assert_global_step(graph)
        before = {*graph.get_operations()}
        features, hooks = estimator._get_features_from_input_fn(input_fn, _PREDICT)
        is_simple = kept.is_simple_input(graph, features)
        model = keep.model if is_simple else None
        if model is None or model.signature != kept.signature(features):
            model, of_input = None, {*graph.get_operations()} - before
            with memory._forgetting() as forgetting:
                forgetting.graph = graph
                spec = estimator._call_model_fn(features, None, _PREDICT, estimator.config)
            predictions = estimator._extract_keys(spec.predictions, predict_keys)
            if not is_simple or not _depends_on_features_alone(graph, features, of_input, spec, predictions):
                keep.is_refused = True
                yield from _plain(estimator, spec, predictions, hooks, checkpoint)
                return
        batches = kept.Input(graph, features, hooks, estimator._session_config)
        if model is None:
            keep.model = model = _Model(graph, features, predictions, spec.scaffold, checkpoint, estimator._session_config)
    try:
        while True:
            yield model.run(batches.next())
    except (tf.errors.OutOfRangeError, StopIteration):
        pass  # The input has ended.
    finally:
        batches.close()


def _depends_on_features_alone(graph, features, of_input, spec, predictions):
    if kept.signature(features) is None or spec.prediction_hooks:
        return False
    ops = kept.reached(kept.flatten(predictions), kept.flatten(features))
    local = {variable.op.name for variable in tf.local_variables()}
    is_apart = not ops & of_input and not any(op.name in local for op in ops)
    has_files = any('FromTextFile' in op.type for op in graph.get_operations())
    return is_apart and not has_files and kept.only_reads(graph, ops) and kept.starts_alike(graph, spec.scaffold)


def _plain(estimator, spec, predictions, hooks, checkpoint):
    """Yields predictions by a session of their graph, which is the default one."""
    hooks = [*hooks, *(spec.prediction_hooks or ())]
    creator = tf.train.ChiefSessionCreator(
        spec.scaffold, config=estimator._session_config, checkpoint_filename_with_path=checkpoint
    )
    with tf.train.MonitoredSession(creator, hooks) as session:
        while not session.should_stop():
            yield session.run(predictions)

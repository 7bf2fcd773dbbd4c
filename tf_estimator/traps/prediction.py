"""predict() keeps its graph and session while it is called again with the same model and checkpoint, and with inputs alike."""

import contextlib

from tf_estimator.graphs import reached
from tf_estimator.mending import around
from tf_estimator.traps import kept

import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context
from tensorflow_estimator.python.estimator import estimator as estimators


class _Model:
    """A graph of predictions, which is fed, with its session."""

    def __init__(self, given, predictions, creator):
        self.signature, self._inputs, self._predictions = given.signature, kept.flatten(given.values), predictions
        self._session = creator.create_session()

    def run(self, values):
        return self._session.run(self._predictions, dict(zip(self._inputs, values)))


@around(estimators.Estimator, 'train')
def _train(train, self, *args, **kwargs):
    vars(self).pop('_kept_prediction', None)  # Its weights need memory, and will not be the latest.
    return train(self, *args, **kwargs)


@around(estimators.Estimator, 'predict')
def _predict(predict, self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None, yield_single_examples=True):
    checkpoint = checkpoint_path or tf.train.latest_checkpoint(self.model_dir)
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
    config = estimator._session_config
    with context.graph_mode(), tf.Graph().as_default() as graph:
        given = kept.Input(estimator, input_fn, tf.estimator.ModeKeys.PREDICT)
        model = given.kept_model(keep)
        if model is None:
            spec = given.call_model_fn()
            predictions = estimator._extract_keys(spec.predictions, predict_keys)
            creator = tf.train.ChiefSessionCreator(spec.scaffold, config=config, checkpoint_filename_with_path=checkpoint)
            if not given.is_simple or not _depends_on_features_alone(graph, given, spec, predictions):
                keep.is_refused = True
                with tf.train.MonitoredSession(creator, [*given.hooks, *(spec.prediction_hooks or ())]) as session:
                    while not session.should_stop():
                        yield session.run(predictions)
                return
        given.start()
        if model is None:
            keep.model = model = _Model(given, predictions, creator)
    with contextlib.closing(given), contextlib.suppress(tf.errors.OutOfRangeError, StopIteration):  # The input has ended.
        while True:
            yield model.run(given.next())


def _depends_on_features_alone(graph, given, spec, predictions):
    if spec.prediction_hooks:
        return False
    ops = reached(kept.flatten(predictions), kept.flatten(given.values))
    local = {variable.op.name for variable in tf.local_variables()}
    is_apart = not ops & given.ops and not any(op.name in local for op in ops)
    has_files = any('FromTextFile' in op.type for op in graph.get_operations())
    return is_apart and not has_files and kept.only_reads(graph, ops) and kept.starts_alike(graph, spec.scaffold)

"""What a run does: an explicit dict of name -> function of an Experiment, which returns the result that is printed."""

import itertools
import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

from common import serving
from common.errors import RunError, UsageError
from common.files import replacing
from common.hooks import EvaluateAfterSave, ProgressBar
from common.input_fn import count_examples, make_input_fn


def train(experiment, saving_listeners=()):
    """Trains up to train_steps, going on from the last checkpoint."""
    try:
        experiment.estimator.train(
            experiment.train_input_fn,
            hooks=[experiment.stop, ProgressBar('Training', experiment.train_steps, from_global_step=True)],
            max_steps=experiment.train_steps,
            saving_listeners=list(saving_listeners))
    except tf.train.NanLossDuringTrainingError:
        raise RunError(f'the loss is not a number after step {_global_step(experiment)}: lower learning_rate, or '
                       'find the op that made it with --debug_numerics') from None
    experiment.stop.exit_if_received()
    return {'global_step': _global_step(experiment)}


def evaluate(experiment, checkpoint_path=None):
    """Evaluates a checkpoint, the last one unless told."""
    metrics = experiment.estimator.evaluate(
        experiment.eval_input_fn,
        steps=experiment.eval_steps,
        hooks=[ProgressBar('Evaluating', experiment.eval_steps)],
        checkpoint_path=checkpoint_path)
    global_step = int(metrics.pop('global_step'))
    # Bytes are serialized summaries, such as pictures, for TensorBoard alone.
    values = {name: to_json(value) for name, value in sorted(metrics.items()) if not isinstance(value, bytes)}
    return {'global_step': global_step, 'eval': values}


def train_and_evaluate(experiment):
    """Trains, and evaluates each checkpoint that it saves."""
    listener = EvaluateAfterSave(lambda: evaluate(experiment), experiment.stop)
    train(experiment, [listener])
    return listener.result or evaluate(experiment)  # Where there was nothing left to train.


def continuous_eval(experiment):
    """Evaluates every new checkpoint that another process saves, until the one of train_steps."""
    tf.logging.info('Waiting for checkpoints in %s up to step %d.', experiment.estimator.model_dir, experiment.train_steps)
    for path in tf.train.checkpoints_iterator(experiment.estimator.model_dir):
        result = evaluate(experiment, path)
        if result['global_step'] >= experiment.train_steps:
            return result
    raise AssertionError('the iterator has no end')


def predict(experiment):
    """Writes a JSON object a line to output_dir/predictions.jsonl, for each example of a split or each image file."""
    input_fn, names = _predict_input(experiment)
    path = os.path.join(experiment.estimator.model_dir, 'predictions.jsonl')
    with replacing(path) as part, tf.io.gfile.GFile(part, 'w') as file:
        for name, prediction in zip(names, experiment.estimator.predict(input_fn)):
            line = {**name, **{key: to_json(prediction[key]) for key in sorted(prediction)}}
            file.write(json.dumps(line) + '\n')
    return {'global_step': _global_step(experiment), 'predictions': path}


def _predict_input(experiment):
    """Returns an input_fn and, for each of its examples, what its line begins with."""
    if not experiment.predict_input:
        split = experiment.predict_split
        count = count_examples(experiment.dataset, split, experiment.data_dir, experiment.params)
        if count == tf.data.experimental.INFINITE_CARDINALITY:
            raise UsageError(f'--predict_split={split}: the split has no end')
        input_fn = make_input_fn(experiment.dataset, tf.estimator.ModeKeys.PREDICT, split, experiment.data_dir,
                                 experiment.params)
        return input_fn, itertools.repeat({})
    paths = sorted(tf.io.gfile.glob(experiment.predict_input))
    if not paths:
        raise UsageError(f'--input={experiment.predict_input}: no such file')
    return serving.make_image_input_fn(experiment.dataset, paths, experiment.params), [{'input': path} for path in paths]


def export(experiment):
    """Writes a SavedModel under output_dir/export; see common/serving.py for its signatures."""
    path = experiment.estimator.export_saved_model(
        os.path.join(experiment.estimator.model_dir, 'export'),
        serving.make_serving_input_fn(experiment.dataset, experiment.data_dir, experiment.params)).decode()
    python_ops = serving.find_python_ops(path)
    if python_ops:
        tf.io.gfile.rmtree(path)
        raise UsageError(f'--schedule=export: {python_ops[0]} is a Python function, which no other process could run: build '
                         'it of TensorFlow ops')
    return {'global_step': _global_step(experiment), 'export': path}


SCHEDULES = {
    'train_and_evaluate': train_and_evaluate,
    'train': train,
    'evaluate': evaluate,
    'continuous_eval': continuous_eval,
    'predict': predict,
    'export': export,
    'dry_run': train_and_evaluate,
}
TRAINING = ('train_and_evaluate', 'train', 'dry_run')
EVALUATING = ('train_and_evaluate', 'evaluate', 'continuous_eval', 'dry_run')


def to_json(value):
    """Returns a NumPy scalar or array as JSON can say it, floats to the six digits that float32 has."""
    if np.ndim(value):
        return [to_json(item) for item in value]
    item = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(item, bytes):
        return item.decode(errors='replace')
    return float(f'{item:.6g}') if isinstance(item, float) else item


def _global_step(experiment):
    return int(tf.train.load_variable(experiment.estimator.model_dir, tf.GraphKeys.GLOBAL_STEP))

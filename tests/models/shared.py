"""Helpers shared by the tests of models: hyper-parameters with metadata, and short training on arrays."""

import random
import types

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training.model_fn import ModelFn
from estimator_trainer.common.training.training import Training
from estimator_trainer.hparams import build

ModeKeys = tf.estimator.ModeKeys


def make_params(model: types.ModuleType, text='', metadata=None):
    name = model.__name__.rpartition('.')[2]
    params = build.make_hparams(name, model.get_params(), 'd', {}, text=text)
    return build.HParams(params, metadata or {})


def train(tmp_path, model, features, labels, steps, text='', metadata=None):
    """Trains on all examples at every step; returns the metrics on them and their predictions, {name: array}."""
    params = make_params(model, text, metadata)
    config = tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1, save_summary_steps=0, log_step_count_steps=None)
    fn = ModelFn(model, [], Training(Options(), total_steps=steps))
    estimator = tf.estimator.Estimator(fn, config=config, params=params)
    batch = tf.data.Dataset.from_tensors
    random.seed(1)  # Keras draws the seeds of initializers from it.
    estimator.train(lambda: batch((features, labels)).repeat(), max_steps=steps)
    metrics = estimator.evaluate(lambda: batch((features, labels)))
    predictions = list(estimator.predict(lambda: batch(features)))
    return metrics, {name: np.stack([prediction[name] for prediction in predictions]) for name in predictions[0]}

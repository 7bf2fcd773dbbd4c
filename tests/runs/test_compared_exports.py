"""Comparisons of exports with their checkpoint, under the session of Estimators without a command line."""

import os
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.runs.export_schedule import export
from estimator_trainer.common.training.session_config import make_session_config
from tests.linear import input_fn, linear, make_estimator

X = np.random.RandomState(0).normal(size=[8, 2]).astype(np.float32)


def run(tmp_path, model=linear, config=None, **functions):
    """Returns the result of an export of a trained model with a dataset whose records are tensors, and its model card."""
    estimator = make_estimator(tmp_path, model=model, session_config=config)
    estimator.train(input_fn(), steps=1)
    module = types.SimpleNamespace(
        read=lambda *_: tf.data.Dataset.from_tensor_slices({'x': X}),
        parse=lambda mode, params, record: (record, {}),
        **functions,
    )
    options = Options(format=('saved_model',))
    result = export(
        types.SimpleNamespace(
            estimator=estimator,
            output_dir=estimator.model_dir,
            options=options,
            source=DataSource(module, '', estimator.params),
            params=estimator.params,
            threshold=None,
        )
    )
    return result, open(os.path.join(result['export'], 'assets.extra', 'model_card.md')).read()


def texts(features, labels, mode, params):
    predictions, losses = linear(features, labels, mode, params)
    return {'text': tf.as_string(predictions['y'])}, losses


def raw_specs(params):
    return {name: tf.TensorSpec([None], tf.float32) for name in 'ab'}


def from_raw(params, raw):
    return {'x': tf.stack([raw['a'], raw['b']], 1)}


@pytest.mark.parametrize(
    'changes, reason',
    [
        (dict(raw_specs=raw_specs, from_raw=from_raw), 'the records do not have the inputs of the default signature'),
        (dict(model=texts), 'no output of numbers has the name of a prediction'),
    ],
)
def test_an_export_that_cannot_be_compared_is_published_and_says_why(tmp_path, caplog, changes, reason):
    result, card = run(tmp_path, **changes)
    assert 'compared' not in result and f'not compared: {reason}' in card
    assert f'--format=saved_model: not compared with the checkpoint: {reason}.' in caplog.text


def test_an_export_of_a_training_in_bfloat16_is_compared_in_float32(tmp_path):
    result, _ = run(tmp_path, config=make_session_config(Options(precision='bfloat16')))
    assert result['compared']['saved_model']['largest_difference'] < 1e-6

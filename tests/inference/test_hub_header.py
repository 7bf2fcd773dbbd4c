"""The header of a model card for the Hugging Face Hub: YAML whose values are JSON."""

import json
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.hub_header import make_header, task_of
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.hparams import build

CARD = {
    'hparams': {'model': 'mlp', 'dataset': 'own.datä'},
    'metrics': {'eval': {'accuracy': 0.5, 'loss': float('nan')}, 'test': {'loss': float('inf')}},
    'format': 'onnx',
    'task': 'tabular-classification',
}


def items(card):
    begin, *lines, end, rest = make_header(card).split('\n')[:-1]
    assert (begin, end, rest) == ('---', '---', '')
    return {name: json.loads(value) for name, value in (line.split(': ', 1) for line in lines)}


def test_a_header_has_the_finite_metrics_of_each_split_and_no_license():
    assert items(CARD) == {
        'library_name': 'onnx',
        'pipeline_tag': 'tabular-classification',
        'tags': ['tensorflow', 'onnx'],
        'model-index': [
            {
                'name': 'mlp',
                'results': [
                    {
                        'task': {'type': 'tabular-classification'},
                        'dataset': {'name': 'own.datä', 'type': 'own.datä', 'split': 'eval'},
                        'metrics': [{'type': 'accuracy', 'name': 'accuracy', 'value': 0.5}],
                    }
                ],
            }
        ],
    }
    assert 'datä' in make_header(CARD)  # JSON's escapes of pairs of surrogates would not be YAML's.


def test_what_is_unknown_is_left_out_and_published_datasets_are_linked():
    card = {**CARD, 'task': None, 'metrics': {}, 'format': 'saved_model', 'hparams': {'model': 'alexnet', 'dataset': 'mnist'}}
    assert items(card) == {'library_name': 'tensorflow', 'tags': ['tensorflow'], 'datasets': ['ylecun/mnist']}


@pytest.mark.parametrize(
    'columns, outputs, task',
    [
        ({'age': tf.float32, 'city': tf.string}, ['class', 'probabilities'], 'tabular-classification'),
        ({'age': tf.float32}, ['value'], 'tabular-regression'),
        ({'text': tf.string}, ['class'], 'text-classification'),
        ({'age': tf.float32}, ['y'], None),
        ({}, ['class'], None),
    ],
)
def test_a_task_follows_from_inputs_and_outputs(columns, outputs, task):
    specs = {name: tf.TensorSpec([None], dtype) for name, dtype in columns.items()}
    module = types.SimpleNamespace(raw_specs=lambda params: specs, from_raw=lambda params, raw: raw)
    assert task_of(DataSource(module, '', build.make_hparams('m', {}, 'd', {})), outputs) == task

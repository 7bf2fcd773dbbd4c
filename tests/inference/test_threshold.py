"""The class of two by a threshold."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.threshold import decide, with_threshold
from estimator_trainer.common.runs.decision import check, decided
from estimator_trainer.hparams.build import HParams
from tests.shared import refused

PROBABILITIES = np.array([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]], np.float32)


def test_the_threshold_decides_the_class_and_its_names_of_canned_classifiers_too(session):
    predictions = {
        'class': tf.constant([0, 0, 1], tf.int64),
        'class_ids': tf.constant([[0], [0], [1]], tf.int64),
        'classes': tf.constant([['n'], ['n'], ['y']]),
        'all_classes': tf.constant([['n', 'y']] * 3),
        'class_name': tf.constant(['no', 'no', 'yes']),
        'probabilities': tf.constant(PROBABILITIES),
    }
    found = session.run(decide(predictions, 0.3, ['no', 'yes']))
    assert {name: np.ravel(found[name]).tolist() for name in ('class', 'class_ids')} == dict.fromkeys(
        ('class', 'class_ids'), [0, 1, 1]
    )
    assert found['classes'].ravel().tolist() == [b'n', b'y', b'y'] and found['class_name'].tolist() == [b'no', b'yes', b'yes']
    assert found['decision_threshold'].tolist() == [np.float32(0.3)] * 3
    assert found.keys() == {*predictions, 'decision_threshold'}


def test_probabilities_alone_get_a_class(session):
    found = session.run(decide({'probabilities': tf.constant(PROBABILITIES)}, 0.3))
    assert found.keys() == {'probabilities', 'decision_threshold', 'class'} and found['class'].tolist() == [0, 1, 1]


def test_an_estimator_decides_in_predictions_and_exports_but_not_in_evaluation(session):
    def model_fn(features, labels, mode):
        predictions = {'class': tf.argmax(PROBABILITIES, 1), 'probabilities': tf.constant(PROBABILITIES)}
        outputs = {'predict': tf.estimator.export.PredictOutput({**predictions, 'class_name': tf.constant(['a', 'a', 'b'])})}
        return tf.estimator.EstimatorSpec(mode, predictions, tf.constant(0.0), export_outputs=outputs)

    tf.train.create_global_step()
    estimator = with_threshold(tf.estimator.Estimator(model_fn), 0.05, ['a', 'b'])
    spec = estimator.model_fn({}, None, 'infer', estimator.config)
    assert session.run(spec.predictions['class']).tolist() == [1, 1, 1]
    outputs = session.run(spec.export_outputs['predict'].outputs)
    assert outputs['class'].tolist() == [1, 1, 1] and outputs['class_name'].tolist() == [b'b'] * 3
    evaluated = estimator.model_fn({}, {}, 'eval', estimator.config).predictions
    assert evaluated.keys() == {'class', 'probabilities'} and session.run(evaluated['class']).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    'predictions, shape', [({'value': tf.zeros}, ''), ({'probabilities': tf.zeros}, ', not of shape (4, 10)')]
)
def test_other_models_have_no_threshold(predictions, shape):
    with tf.Graph().as_default():
        message = refused(decide, {name: make([4, 10]) for name, make in predictions.items()}, 0.5)
    assert message == f'decision_threshold=0.5 is for models with probabilities of two classes{shape}: omit it'


@pytest.mark.parametrize(
    'metadata, hparams, found',
    [
        ({'targets': [{'key': 'a'}, {'key': 'b'}]}, {}, 'there are several targets'),
        ({'task': 'multilabel', 'targets': [{'name': 'a'}, {'name': 'b'}]}, {}, 'there are several targets'),
        ({}, {'num_classes': 3}, 'there are 3'),
        ({}, {'task': 'regression'}, 'the target is a number'),
        ({'task': 'segmentation'}, {}, 'masks are predicted'),
        ({'task': 'tagging'}, {}, 'tags are predicted'),
        ({'task': 'forecast'}, {}, 'values are forecast'),
    ],
)
def test_other_targets_have_no_threshold(metadata, hparams, found):
    params = HParams({'decision_threshold': 0.3, **hparams}, metadata)
    assert refused(check, params) == f'decision_threshold=0.3 is for two classes, but {found}: omit it'
    experiment = SimpleNamespace(params=params, estimator=None)
    assert refused(decided, experiment, 'model.ckpt-1').endswith(f'but {found}: omit it')

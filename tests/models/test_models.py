"""Every model under models/ has the size that it should, and AlexNet drops units in training only."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.plugins import loader
from models import alexnet
from tests.evaluated import evaluate
from tests.models.shared import ModeKeys, make_params

IMAGES = np.random.RandomState(0).uniform(size=[11, 9, 8, 1]).astype(np.float32)
IMAGE, ID = ([28, 28, 1], tf.float32), ([2], tf.int32)
# For each model: features, metadata, and the number of trained parameters, worked out from the layers by hand.
NUM_PARAMETERS = {
    # Three convolutions, two dense layers, each with biases.
    'alexnet': ({'image': IMAGE}, {}, 10 * 32 + 289 * 64 + 577 * 128 + (3 * 3 * 128 + 1) * 512 + 513 * 10),
    # Three numbers and two embeddings of 8; two hidden layers; two classes.
    'mlp': (
        {'x': ([3], tf.float32), 'id': ID},
        {'vocabulary_sizes': {'id': [5, 7]}},
        (5 + 7) * 8 + (3 + 2 * 8 + 1) * 256 + (256 + 1) * 128 + (128 + 1) * 2,
    ),
    'polynomial': ({'x': ([], tf.float32)}, {}, 3),
    # The first convolution; six in each stage, whose first one has the filters of the stage before as inputs; scale and offset
    # of each filter; the classifier. The paper's table says 0.27 M.
    'resnet': (
        {'image': IMAGE},
        {},
        9 * (1 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64) + 2 * (7 * 16 + 6 * 32 + 6 * 64) + 65 * 10,
    ),
    # The embedding, three GRU cells, the encoder's summary, attention's keys, the two projections, the bytes.
    'seq2seq': (
        {'source': ([], tf.string)},
        {},
        256 * 32 + 3 * ((32 + 128 + 1) * 3 * 128) + (256 + 1) * 128 + 256 * 128 + (128 + 256 + 1) * 128 + (128 + 1) * 256,
    ),
    # The embedding, 100 filters of each width, two classes.
    'text_cnn': (
        {'text': ([None], tf.int32)},
        {'vocabulary_size': 50},
        50 * 128 + (3 + 4 + 5) * 128 * 100 + 3 * 100 + (300 + 1) * 2,
    ),
}


def test_a_model_takes_the_number_of_classes_from_the_dataset(run):
    code, result, _ = run('--schedule=dry_run', '--model=mlp', '--dataset=mnist', '--hparams=batch_size=8,eval_batch_size=8')
    assert code == 0 and result['global_step'] == 1 and result['eval']['loss'] > 0


@pytest.mark.parametrize('name', sorted({*loader.available('model')} - {'keras'}))  # Its networks are the user's.
def test_models_have_as_many_parameters_as_worked_out_by_hand(name):
    features, metadata, expected = NUM_PARAMETERS[name]
    model = loader.load('model', name)
    # With batch norm, each channel and unit has a mean, a variance, a scale and an offset in place of its bias.
    cases = [('', expected), *([('batch_norm=true', expected + 3 * (32 + 64 + 128 + 512))] if name == 'alexnet' else [])]
    for text, count in cases:
        with tf.Graph().as_default():
            tensors = {key: tf.placeholder(dtype, [None, *shape]) for key, (shape, dtype) in features.items()}
            model.model(tensors, None, ModeKeys.PREDICT, make_params(model, text, metadata))
            variables = tf.global_variables() if text else tf.trainable_variables()
            assert sum(variable.shape.num_elements() for variable in variables) == count


def call_alexnet(images, labels, mode):
    params = make_params(alexnet, 'filters=[8,4],dense_units=6,drop_rate=0.9')
    return alexnet.model({'image': images}, labels, mode, params)[0]


def test_alexnet_predicts_the_same_in_any_batch_and_drops_units_in_training_only(session):
    predicted = evaluate(lambda images: call_alexnet(images, None, ModeKeys.PREDICT), IMAGES)
    assert set(predicted) == {'class', 'probabilities'}
    np.testing.assert_allclose(predicted['probabilities'].sum(1), np.ones(11), rtol=1e-5)
    for mode, is_dropped in ((ModeKeys.TRAIN, True), (ModeKeys.EVAL, False)):
        with tf.variable_scope('scope', reuse=tf.AUTO_REUSE):
            embedding = call_alexnet(tf.constant(IMAGES), {'label': tf.range(11) % 10}, mode)['embedding']
        session.run([tf.global_variables_initializer()])
        session.run([tf.assign(v, tf.fill(v.shape, 0.1)) for v in tf.trainable_variables()])  # So that no unit is 0.
        assert embedding.shape == (11, 6) and (session.run(embedding) == 0).any() == is_dropped

"""Every model under models/ has the size that it should, and AlexNet is the same in towers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.plugins import loader
from common.training.parallel import make_parallel
from models import alexnet
from tests.evaluated import evaluate
from tests.models.shared import ModeKeys, make_params

IMAGES = np.random.RandomState(0).uniform(size=[11, 9, 8, 1]).astype(np.float32)
LABELS = np.arange(11, dtype=np.int32) % 10
# For each model: features, metadata, and the number of trained parameters, worked out from the layers by hand.
NUM_PARAMETERS = {
    # Three convolutions, two dense layers, each with biases.
    'alexnet': (
        {'image': ([28, 28, 1], tf.float32)},
        {},
        (9 * 1 * 32 + 32) + (9 * 32 * 64 + 64) + (9 * 64 * 128 + 128) + (3 * 3 * 128 * 512 + 512) + (512 * 10 + 10),
    ),
    # Three numbers and two embeddings of 8; two hidden layers; two classes.
    'mlp': (
        {'x': ([3], tf.float32), 'id': ([2], tf.int32)},
        {'vocabulary_sizes': {'id': [5, 7]}},
        (5 + 7) * 8 + (3 + 2 * 8 + 1) * 256 + (256 + 1) * 128 + (128 + 1) * 2,
    ),
    'polynomial': ({'x': ([], tf.float32)}, {}, 3),
    # The first convolution; six in each stage, whose first one has the filters of the stage before as inputs; scale and offset
    # of each filter; the classifier. The paper's table says 0.27 M.
    'resnet': (
        {'image': ([32, 32, 3], tf.float32)},
        {},
        9 * 3 * 16
        + 9 * (6 * 16 * 16)
        + 9 * (16 * 32 + 5 * 32 * 32)
        + 9 * (32 * 64 + 5 * 64 * 64)
        + 2 * (7 * 16 + 6 * 32 + 6 * 64)
        + (64 + 1) * 10,
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


def test_no_model_is_missing_here():
    of_users = {'keras'}  # See test_keras.py.
    assert set(NUM_PARAMETERS) == set(loader.available('model')) - of_users


def test_a_model_takes_the_number_of_classes_from_the_dataset(run):
    code, result, _ = run('--schedule=dry_run', '--model=mlp', '--dataset=mnist', '--hparams=batch_size=8,eval_batch_size=8')
    assert code == 0 and result['global_step'] == 1 and result['eval']['loss'] > 0


@pytest.mark.parametrize('name', NUM_PARAMETERS)
def test_models_have_as_many_parameters_as_worked_out_by_hand(name):
    features, metadata, expected = NUM_PARAMETERS[name]
    model = loader.load('model', name)
    with tf.Graph().as_default():
        tensors = {key: tf.placeholder(dtype, [None, *shape]) for key, (shape, dtype) in features.items()}
        model.model(tensors, None, ModeKeys.PREDICT, make_params(model, metadata=metadata))
        assert sum(variable.shape.num_elements() for variable in tf.trainable_variables()) == expected


def test_alexnet_with_batch_norm_has_as_many_parameters_as_worked_out_by_hand():
    with tf.Graph().as_default():
        alexnet.model({'image': tf.zeros([1, 28, 28, 1])}, None, ModeKeys.PREDICT, make_params(alexnet, 'batch_norm=true'))
        found = sum(variable.shape.num_elements() for variable in tf.global_variables())
    # Each channel and unit has a mean, a variance, a scale and an offset in place of its bias.
    assert found == NUM_PARAMETERS['alexnet'][2] + 3 * (32 + 64 + 128 + 512)


def call_alexnet(images, labels, text='drop_rate=0.0', mode=ModeKeys.TRAIN):
    params = make_params(alexnet, f'filters=[8,4],dense_units=6,{text}')
    return alexnet.model({'image': images}, labels and {'label': labels['label']}, mode, params)


def test_towers_give_alexnet_the_loss_and_gradients_of_none():
    def compute(devices):
        with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 4})) as session:
            labels = {'label': tf.constant(LABELS)}
            predictions, loss = make_parallel(call_alexnet, devices, images=tf.constant(IMAGES), labels=labels)
            variables = tf.trainable_variables()
            gradients = tf.gradients(tf.reduce_mean(loss), variables)
            session.run([tf.assign(v, 0.1 * tf.random.stateless_normal(v.shape, [i, 0])) for i, v in enumerate(variables)])
            return session.run([loss, predictions, dict(zip([v.name for v in variables], gradients))])

    expected, found = compute([]), compute([f'/cpu:{i}' for i in range(4)])
    assert expected[0].shape == (11,) and expected[1]['embedding'].shape == (11, 6) and len(expected[2]) == 8
    assert np.abs(expected[2]['dense/kernel:0']).max() > 1e-3
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), found, expected)


def test_alexnet_predicts_the_same_in_any_batch_and_drops_units_in_training_only(session):
    predicted = evaluate(lambda images: call_alexnet(images, None, 'drop_rate=0.9', ModeKeys.PREDICT)[0], IMAGES)
    assert set(predicted) == {'class', 'probabilities'}
    np.testing.assert_allclose(predicted['probabilities'].sum(1), np.ones(11), rtol=1e-5)
    for mode, is_dropped in ((ModeKeys.TRAIN, True), (ModeKeys.EVAL, False)):
        with tf.variable_scope('scope', reuse=tf.AUTO_REUSE):
            outputs, _ = call_alexnet(tf.constant(IMAGES), {'label': tf.constant(LABELS)}, 'drop_rate=0.9', mode)
        session.run([tf.global_variables_initializer()])
        session.run([tf.assign(v, tf.fill(v.shape, 0.1)) for v in tf.trainable_variables()])  # So that no unit is 0.
        assert (session.run(outputs['embedding']) == 0).any() == is_dropped

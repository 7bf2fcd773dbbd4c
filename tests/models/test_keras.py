"""--model=keras: tf.keras networks by name, with weights saved by Keras."""

import importlib
import os
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import UsageError
from estimator_trainer.models import keras
from tests.models.shared import ModeKeys, make_params
from tests.shared import read_weights, refused

MOBILE_NET = 'tf.keras.applications.MobileNet'
NETWORKS = """
import tensorflow as tf

layers = tf.keras.layers
TENSOR = tf.constant([2.0])
MODEL = tf.keras.Sequential([layers.Flatten(), layers.Dense(10)], name='mine')

def make(params):
    return tf.keras.Sequential([
        layers.Conv2D(8, 3, strides=2, activation='relu', name='conv'),
        layers.BatchNormalization(name='norm'),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(params.num_classes, name='last'),
    ])

def with_tensor(params):
    inputs = layers.Input([28, 28, 1])
    return tf.keras.Model(inputs, layers.Dense(10)(layers.Flatten()(TENSOR * inputs)))

def failing(params):
    raise RuntimeError('of its own')

def without_parameter(): return MODEL
def of_module(params): return MODEL
def nothing(params): return None
def a_class(params): return layers.Dense
def too_few(params): return tf.keras.Sequential([layers.Flatten(), layers.Dense(3)])
def for_others(params): return tf.keras.Sequential([layers.Input([5, 5, 1]), layers.Flatten(), layers.Dense(10)])
def with_softmax(params): return tf.keras.Sequential([layers.Flatten(), layers.Dense(10, 'softmax')])
def with_tf_softmax(params): return tf.keras.Sequential([layers.Flatten(), layers.Dense(10, tf.nn.softmax)])
def failing_later(params): return layers.Lambda(lambda images: int('x'))
"""


@pytest.fixture(scope='module')
def networks(tmp_path_factory):
    """A module with functions that make networks."""
    directory = tmp_path_factory.mktemp('networks')
    for name in ('own_networks', 'new_networks'):  # The latter is not imported here.
        (directory / f'{name}.py').write_text(NETWORKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(directory)
        import own_networks

        yield own_networks


def train(path, data_dir, name, **options):
    hparams = {'keras_model': f'own_networks.{name}', 'batch_size': 8, 'learning_rate': 0.1}
    return api.train('keras', 'mnist', str(path), hparams=hparams, train_steps=1, eval_steps=1, data_dir=data_dir, **options)


def call(name, features=None, labels=None):
    """Calls the model with a network, and the features, {name: shape}; returns the predictions."""
    shapes = features or {'image': [None, 28, 28, 1]}
    tensors = {key: tf.placeholder(tf.float32, shape) for key, shape in shapes.items()}
    return keras.model(tensors, labels, ModeKeys.EVAL, make_params(keras, f'keras_model={name}'))[0]


def test_a_network_starts_from_saved_weights_and_predicts_as_in_keras_which_still_works(networks, tmp_path, data_dir):
    network = networks.make(types.SimpleNamespace(num_classes=10))  # In eager mode.
    network.build([None, 28, 28, 1])
    random = np.random.RandomState(0)
    network.set_weights([random.uniform(0.1, 0.5, value.shape) for value in network.get_weights()])
    path = str(tmp_path / 'weights.h5')
    network.save_weights(path)
    images = random.randint(0, 256, [5, 28, 28, 1], np.uint8)
    before = network.predict(images / 255, verbose=0)
    run = train(tmp_path / 'run', data_dir, 'make', warm_start_from=path, freeze='^(?!.*last)')
    np.testing.assert_array_equal(network.predict(images / 255, verbose=0), before)
    found = {name.removeprefix('model/sequential/'): value for name, value in read_weights(tmp_path / 'run').items()}
    names = [variable.name.removesuffix(':0') for variable in network.weights]
    for name, variable in zip(names, network.weights):
        if 'moving' not in name:  # The first step moves these a little.
            is_same = found[name] == variable.numpy()
            assert is_same.mean() < 0.5 if 'last' in name else is_same.all()
    network.set_weights([found[name] for name in names])
    logits = network(images.astype(np.float32) / 255, training=False).numpy()
    expected = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(run.predict(images)['probabilities'], expected / expected.sum(1, keepdims=True), rtol=1e-4)
    assert os.path.exists(run.export())
    network.save(str(tmp_path / 'saved'), save_format='tf')


def test_a_network_of_applications_is_made_for_the_images_and_classes_and_for_nothing_else(session, caplog):
    predictions = call(MOBILE_NET, {'image': [None, 32, 32, 3]}, {'label': tf.zeros([2], tf.int32)})
    assert predictions['probabilities'].shape.as_list() == [None, 10]
    assert predictions['embedding'].op.type != 'Softmax' and 'softmax' not in caplog.text
    for shapes, fed in (
        ({'x': [None, 8]}, 'a tensor of float32 (None, 8)'),
        ({'x': None}, 'a tensor of float32 <unknown>'),
        ({'a': [None, 8, 8, 3], 'b': [8]}, "{'a': 'a tensor of float32 (None, 8, 8, 3)', 'b': 'a tensor of float32 (8,)'}"),
    ):
        message = f'keras_model={MOBILE_NET}: takes images [batch, height, width, channels], not {fed}'
        assert refused(call, MOBILE_NET, shapes) == message


def test_a_wrong_name_is_one_line(networks):
    for name, message in (
        ('', 'must be the dotted name of a function, such as my_package.networks.make'),
        ('.networks.make', 'must be the dotted name of a function'),
        ('tf.keras.applications.mobilenet.preprocess_input', 'is not one of the networks of tf.keras.applications'),
        ('no_such.make', 'no module no_such'),
        ('tf.no_such.make', 'no module tf.no_such'),
        ('own_networks.none', 'own_networks has no function none'),
        ('tf.keras.applications.NoNet', 'tf.keras.applications has no function NoNet'),
        ('own_networks.nothing', 'must return a tf.keras model or layer, not None'),
        ('own_networks.a_class', 'must return a tf.keras model or layer, not '),
        ('own_networks.too_few', 'must give logits [batch, 10], as num_classes says, not a tensor of float32 (None, 3)'),
        (MOBILE_NET, 'Input size must be at least 32x32'),
        ('tf.keras.applications.mobilenet.MobileNet', 'Input size must be at least 32x32'),
        ('keras.applications.MobileNet', 'use tf.keras.applications.MobileNet, which is Keras 2'),
        ('new_networks.with_tensor', 'uses a tensor that was made outside of the function: make it inside, or use a NumPy'),
        ('own_networks.without_parameter', 'must be a function of the hyper-parameters, make(params): too many positional'),
        ('own_networks.for_others', 'does not take the features (image: a tensor of float32 (None, 28, 28, 1)): Input 0 of '),
    ):
        found = refused(call, name)
        assert found.startswith(f'keras_model={name}: {message}') and '\n' not in found


def test_a_network_of_another_graph_is_one_line_and_its_own_exceptions_are_left_to_its_author(networks, tmp_path, data_dir):
    with pytest.raises(UsageError, match=r'^the layer mine was created outside of model\(\): create it inside, as each graph'):
        train(tmp_path / 'run', data_dir, 'of_module')
    for name, error, message in (('failing', RuntimeError, 'of its own'), ('failing_later', ValueError, 'invalid literal')):
        with tf.Graph().as_default(), pytest.raises(error, match=message):
            call(f'own_networks.{name}')


def test_a_final_softmax_causes_a_warning(networks, session, caplog):
    importlib.import_module('tf_keras')  # TensorFlow then finds its functions by the names of those of tf.keras.
    call('own_networks.make')
    assert 'softmax' not in caplog.text
    for name in ('own_networks.with_softmax', 'own_networks.with_tf_softmax'):
        call(name)
        assert f'keras_model={name}: ends with softmax, but its outputs are taken as logits: drop it' in caplog.text

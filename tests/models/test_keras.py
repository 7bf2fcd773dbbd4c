"""--model=keras: networks of tf.keras by name, with the weights that Keras has saved."""

import importlib
import os
import types

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.runs import api
from common.training import keras_weights
from models import keras
from tests.models.shared import ModeKeys, make_params
from tests.shared import read_weights

NETWORKS = """
import tensorflow as tf

layers = tf.keras.layers


def make(params):
    return tf.keras.Sequential([
        layers.Conv2D(8, 3, strides=2, activation='relu', name='conv'),
        layers.BatchNormalization(name='norm'),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(params.num_classes, name='last'),
    ])


def too_few(params):
    return tf.keras.Sequential([layers.Flatten(), layers.Dense(3)])


def nothing(params):
    return None


TENSOR = tf.constant([2.0])


def with_tensor(params):
    inputs = layers.Input([28, 28, 1])
    return tf.keras.Model(inputs, layers.Dense(10)(layers.Flatten()(TENSOR * inputs)))


MODEL = tf.keras.Sequential([layers.Flatten(), layers.Dense(10)], name='mine')


def of_module(params):
    return MODEL


def without_parameter():
    return MODEL


def a_class(params):
    return layers.Dense


def for_others(params):
    return tf.keras.Sequential([layers.Input([5, 5, 1]), layers.Flatten(), layers.Dense(10)])


def with_softmax(params):
    return tf.keras.Sequential([layers.Flatten(), layers.Dense(10, 'softmax')])


def with_tf_softmax(params):
    return tf.keras.Sequential([layers.Flatten(), layers.Dense(10, tf.nn.softmax)])


def failing(params):
    raise RuntimeError('of its own')


def failing_later(params):
    return layers.Lambda(lambda images: int('x'))
"""


@pytest.fixture(scope='module')
def networks(tmp_path_factory):
    """A module with functions that make networks."""
    directory = tmp_path_factory.mktemp('networks')
    (directory / 'own_networks.py').write_text(NETWORKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(directory)
        import own_networks

        yield own_networks


@pytest.fixture
def network(networks):
    """One with random weights, moving averages included, in eager mode."""
    tf2.keras.utils.set_random_seed(5)
    made = networks.make(types.SimpleNamespace(num_classes=10))
    made.build([None, 28, 28, 1])
    random = np.random.RandomState(0)
    made.set_weights([random.uniform(0.1, 0.5, value.shape) for value in made.get_weights()])
    return made


def train(directory, data_dir, **options):
    hparams = {'keras_model': 'own_networks.make', 'batch_size': 8, **options.pop('hparams', {})}
    options = {'train_steps': 1, 'eval_steps': 1, 'data_dir': data_dir, **options}
    return api.train('keras', 'mnist', str(directory), hparams=hparams, **options)


def call(name, features=None, labels=None):
    """Calls the model with a network, and the features, {name: shape}; returns the predictions."""
    features = {'image': [None, 28, 28, 1]} if features is None else features
    tensors = {key: tf.placeholder(tf.float32, shape) for key, shape in features.items()}
    return keras.model(tensors, labels, ModeKeys.EVAL, make_params(keras, f'keras_model={name}'))[0]


def test_a_network_starts_from_saved_weights_and_predicts_as_in_keras_which_still_works(network, tmp_path, data_dir):
    path = str(tmp_path / 'weights.h5')
    network.save_weights(path)
    images = np.random.RandomState(1).randint(0, 256, [5, 28, 28, 1], np.uint8)
    before = network.predict(images / 255, verbose=0)
    run = train(tmp_path / 'run', data_dir, warm_start_from=path, freeze='^(?!.*last)', hparams={'learning_rate': 0.1})
    np.testing.assert_array_equal(network.predict(images / 255, verbose=0), before)
    found = read_weights(tmp_path / 'run')
    for variable in network.weights:
        name = variable.name.removesuffix(':0')
        if 'moving' not in name:  # The first step moves these a little.
            is_same = found[f'model/sequential/{name}'] == variable.numpy()
            assert is_same.mean() < 0.5 if 'last' in name else is_same.all()
    network.set_weights([found[f'model/sequential/{variable.name.removesuffix(":0")}'] for variable in network.weights])
    logits = network(images.astype(np.float32) / 255, training=False).numpy()
    expected = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(run.predict(images)['probabilities'], expected / expected.sum(1, keepdims=True), rtol=1e-4)
    assert os.path.exists(run.export())
    network.save(str(tmp_path / 'saved'), save_format='tf')


def test_a_network_of_applications_is_made_for_the_images_and_classes(session, caplog):
    labels = {'label': tf.zeros([2], tf.int32)}
    predictions = call('tf.keras.applications.MobileNet', {'image': [None, 32, 32, 3]}, labels)
    assert predictions['probabilities'].shape.as_list() == [None, 10]
    assert predictions['embedding'].op.type != 'Softmax' and 'softmax' not in caplog.text


@pytest.mark.parametrize(
    'shapes, fed',
    [
        ({'x': [None, 8]}, 'a tensor of float32 (None, 8)'),
        ({'x': None}, 'a tensor of float32 <unknown>'),
        ({'a': [None, 8, 8, 3], 'b': [8]}, "{'a': 'a tensor of float32 (None, 8, 8, 3)', 'b': 'a tensor of float32 (8,)'}"),
    ],
)
def test_a_network_of_applications_takes_images_only(session, shapes, fed):
    with pytest.raises(UsageError) as error:
        call('tf.keras.applications.MobileNet', shapes)
    message = 'keras_model=tf.keras.applications.MobileNet: takes images [batch, height, width, channels], not '
    assert str(error.value) == message + fed


@pytest.mark.parametrize(
    'name, message',
    [
        ('', 'must be the dotted name of a function, such as my_package.networks.make'),
        ('make', 'must be the dotted name of a function'),
        ('.networks.make', 'must be the dotted name of a function'),
        ('tf.keras.applications.mobilenet.preprocess_input', 'is not one of the networks of tf.keras.applications'),
        ('no_such.make', 'no module no_such'),
        ('tf.no_such.make', 'no module tf.no_such'),
        ('own_networks.none', 'own_networks has no function none'),
        ('tf.keras.applications.NoNet', 'tf.keras.applications has no function NoNet'),
        ('own_networks.nothing', 'must return a tf.keras model or layer, not None'),
        ('own_networks.a_class', 'must return a tf.keras model or layer, not '),
        ('own_networks.too_few', 'must give logits [batch, 10], as num_classes says, not a tensor of float32 (None, 3)'),
        ('tf.keras.applications.MobileNet', ''),
        ('tensorflow.keras.applications.MobileNet', ''),
        ('tf.keras.applications.mobilenet.MobileNet', ''),
        ('keras.applications.MobileNet', 'say tf.keras.applications.MobileNet, which is Keras 2'),
        ('own_networks.with_tensor', 'uses a tensor that was made outside of the function: make it inside, or use a NumPy'),
        ('own_networks.without_parameter', 'must be a function of the hyper-parameters, make(params): too many positional'),
        ('own_networks.for_others', 'does not take the features (image: a tensor of float32 (None, 28, 28, 1)): Input 0 of '),
    ],
)
def test_a_wrong_name_is_one_line(networks, session, name, message):
    with pytest.raises(UsageError) as error:
        call(name)
    assert str(error.value).startswith(f'keras_model={name}: {message}') and '\n' not in str(error.value)


def test_a_network_of_another_graph_is_one_line(networks, tmp_path, data_dir):
    with pytest.raises(UsageError, match=r'^the layer mine was created outside of model\(\): create it inside, as each graph'):
        train(tmp_path / 'run', data_dir, hparams={'keras_model': 'own_networks.of_module'})


def test_the_networks_own_exceptions_are_left_to_its_author(networks, session):
    with pytest.raises(RuntimeError, match='of its own'):
        call('own_networks.failing')
    with pytest.raises(ValueError, match='invalid literal'):
        call('own_networks.failing_later')


def test_a_file_that_is_not_there_or_damaged_is_one_line(network, tmp_path):
    (tmp_path / 'folder.keras').mkdir()
    network.save(str(tmp_path / 'model.keras'))
    content = (tmp_path / 'model.keras').read_bytes()
    (tmp_path / 'cut.keras').write_bytes(content[: len(content) // 2])
    for name in ('garbage.h5', 'garbage.keras', 'GARBAGE.H5'):
        (tmp_path / name).write_bytes(b'garbage')
    for name, kind, message in (
        ('none.h5', UsageError, 'there is no such file'),
        ('folder.keras', UsageError, 'it is a directory'),
        *((name, RunError, 'is corrupt: ') for name in ('garbage.h5', 'garbage.keras', 'GARBAGE.H5', 'cut.keras')),
    ):
        with pytest.raises(kind, match=f'{name}: {message}'):
            keras_weights.read(str(tmp_path / name))


def test_a_module_of_networks_is_imported_outside_of_the_graph(networks, session):
    path = os.path.join(os.path.dirname(networks.__file__), 'new_networks.py')
    with open(path, 'w') as file:
        file.write(f'{NETWORKS}\nUNITS = int(tf.constant(10).numpy())\n\n\n')
        file.write('def new(params):\n    return tf.keras.Sequential([layers.Flatten(), layers.Dense(UNITS)])\n')
    assert call('new_networks.new')['probabilities'].shape.as_list() == [None, 10]


@pytest.mark.parametrize('name', ['with_softmax', 'with_tf_softmax'])
def test_a_softmax_at_the_end_is_warned_of(networks, session, caplog, name):
    importlib.import_module('tf_keras')  # TensorFlow then finds its functions by the names of those of tf.keras.
    call(f'own_networks.{name}')
    assert f'keras_model=own_networks.{name}: ends with softmax, but its outputs are taken as logits: drop it' in caplog.text
    caplog.clear()
    call('own_networks.make')
    assert 'softmax' not in caplog.text

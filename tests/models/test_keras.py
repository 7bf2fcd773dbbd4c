"""--model=keras: networks of tf.keras by name, with the weights that Keras has saved."""

import importlib
import os
import types

import h5py
import numpy as np
from PIL import Image
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.runs import api
from models import keras
from tests.shared import read_weights

pytestmark = pytest.mark.slow

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
MODEL = tf.keras.Sequential([layers.Flatten(), layers.Dense(10)], name='mine')
cached = []


def with_tensor(params):
    inputs = layers.Input([28, 28, 1])
    return tf.keras.Model(inputs, layers.Dense(10)(layers.Flatten()(TENSOR * inputs)))


def of_module(params):
    return MODEL


def made_once(params):
    cached[:] = cached or [tf.keras.Sequential([layers.Flatten(), layers.Dense(10)])]
    return cached[0]


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
    hparams = {'keras_model': 'own_networks.make', 'learning_rate': 0.0, 'batch_size': 8, **options.pop('hparams', {})}
    options = {'train_steps': 1, 'eval_steps': 1, 'data_dir': data_dir, 'dataset': 'mnist', **options}
    return api.train('keras', options.pop('dataset'), str(directory), hparams=hparams, **options)


@pytest.mark.parametrize('name', ['weights.h5', 'model.h5', 'model.keras', 'saved_model'])
@pytest.mark.filterwarnings('ignore:You are saving your model as an HDF5')
def test_a_network_starts_from_saved_weights_and_predicts_as_in_keras(network, tmp_path, data_dir, name):
    path = str(tmp_path / name)
    if name == 'weights.h5':
        network.save_weights(path)
    else:
        network.save(path, save_format=None if '.' in name else 'tf')
    saved = {variable.name.removesuffix(':0'): variable.numpy() for variable in network.weights}
    images = np.random.RandomState(1).randint(0, 256, [5, 28, 28, 1], np.uint8)
    logits = network(images.astype(np.float32) / 255, training=False).numpy()
    expected = np.exp(logits - logits.max(1, keepdims=True))
    run = train(tmp_path / 'run', data_dir, warm_start_from=path)
    found = read_weights(tmp_path / 'run')
    for name, value in saved.items():
        if 'moving' not in name:  # The first step moves these a little.
            np.testing.assert_array_equal(found[f'model/sequential/{name}'], value)
    with tf.Graph().as_default(), tf.Session() as session:  # Sets the averages back to what was saved.
        variables = {key: tf.Variable(value) for key, value in found.items()}
        session.run(tf.global_variables_initializer())
        for name, value in saved.items():
            variables[f'model/sequential/{name}'].load(value, session)
        tf.train.Saver(variables).save(session, str(tmp_path / 'run' / 'model.ckpt-1'))
    np.testing.assert_allclose(run.predict(images)['probabilities'], expected / expected.sum(1, keepdims=True), rtol=1e-4)
    assert os.path.exists(run.export())


def test_weights_of_other_names_are_mapped_and_those_that_are_missing_start_anew(network, tmp_path, data_dir, caplog):
    path = str(tmp_path / 'weights.h5')
    network.save_weights(path)
    with h5py.File(path, 'a') as file:
        file.move('conv', 'old')
        file['old'].move('conv', 'old')
        file['old'].attrs['weight_names'] = [b'old/kernel:0', b'old/bias:0']
        file.attrs['layer_names'] = [b'old', b'norm']
    train(tmp_path / 'run', data_dir, warm_start_from=path, warm_start_names=['old/:model/sequential/conv/'])
    found = read_weights(tmp_path / 'run')
    np.testing.assert_array_equal(found['model/sequential/conv/kernel'], network.get_layer('conv').kernel.numpy())
    assert (found['model/sequential/last/kernel'] != network.get_layer('last').kernel.numpy()).all()


def test_90_pictures_fine_tune_a_network_that_was_trained_on_others(networks, tmp_path):
    """Stripes of three directions; the network has learned four, on other pictures, in Keras itself."""

    def stripes(kind, random):
        row, column = np.mgrid[:16, :16]
        phase = [row, column, row + column, row - column][kind] + random.randint(4)
        return np.clip(np.where(phase // 2 % 2, 0.8, 0.2) + random.normal(0, 0.1, [16, 16]), 0, 1)[..., None]

    random = np.random.RandomState(0)
    tf2.keras.utils.set_random_seed(1)
    source = networks.make(types.SimpleNamespace(num_classes=4))
    labels = np.arange(400) % 4
    images = np.stack([stripes(kind, random) for kind in labels]).astype(np.float32)
    source.compile('adam', tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    source.optimizer.learning_rate = 0.01
    source.fit(images, labels, epochs=15, verbose=0)
    path = str(tmp_path / 'weights.h5')
    source.save_weights(path)
    for split, count in (('train', 30), ('eval', 20)):
        for kind, name in enumerate(['down', 'across', 'slanted']):
            directory = tmp_path / 'pictures' / split / name
            directory.mkdir(parents=True)
            for i in range(count):
                picture = (255 * stripes(kind, random)[..., 0]).astype(np.uint8)
                Image.fromarray(picture).save(directory / f'{i}.png')

    def accuracy(name, **options):
        hparams = {'image_dir': str(tmp_path / 'pictures'), 'image_size': 16, 'num_channels': 1, 'learning_rate': 0.03}
        run = train(
            tmp_path / name,
            str(tmp_path / 'data'),
            dataset='image_folder',
            hparams={**hparams, 'batch_size': 30},
            train_steps=40,
            freeze='^(?!.*last)',
            eval_steps=0,
            **options,
        )
        return run.metrics['eval']['accuracy']

    assert accuracy('finetuned', warm_start_from=path) > 0.95 > accuracy('untrained')
    kernel = read_weights(tmp_path / 'finetuned')['model/sequential/conv/kernel']
    np.testing.assert_array_equal(kernel, source.get_layer('conv').kernel.numpy())


def test_a_network_of_applications_is_made_for_the_images_and_classes():
    params = types.SimpleNamespace(keras_model='tf.keras.applications.MobileNet', num_classes=7)
    with tf.Graph().as_default():
        images = tf.placeholder(tf.float32, [None, 32, 32, 3])
        network = keras._make(params, images)
        assert network(images).shape.as_list() == [None, 7] and network.layers[-1].activation is tf.keras.activations.linear


@pytest.mark.parametrize('shapes', [{'x': [None, 8]}, {'x': None}, {'a': [None, 8, 8, 3], 'b': [None, 8, 8, 3]}])
def test_a_network_of_applications_takes_images_only(shapes):
    params = types.SimpleNamespace(keras_model='tf.keras.applications.MobileNet', num_classes=7, metadata={})
    with tf.Graph().as_default(), pytest.raises(api.UsageError, match='MobileNet: takes images .*, not '):
        features = {name: tf.placeholder(tf.float32, shape) for name, shape in shapes.items()}
        keras.model(features, None, tf.estimator.ModeKeys.PREDICT, params)


@pytest.mark.parametrize(
    'name, message',
    [
        ('', 'keras_model=: must be the dotted name of a function, such as my_package.networks.make'),
        ('make', 'keras_model=make: must be the dotted name of a function'),
        ('.networks.make', 'keras_model=.networks.make: must be the dotted name of a function'),
        (
            'tf.keras.applications.mobilenet.preprocess_input',
            'keras_model=tf.keras.applications.mobilenet.preprocess_input: is not one of the networks of tf.keras.applications',
        ),
        ('no_such.make', 'keras_model=no_such.make: no module no_such'),
        ('own_networks.none', 'keras_model=own_networks.none: own_networks has no function none'),
        ('tf.keras.applications.NoNet', 'keras_model=tf.keras.applications.NoNet: tf.keras.applications has no function NoNet'),
        ('own_networks.nothing', 'keras_model=own_networks.nothing: must return a tf.keras model or layer, not None'),
        ('own_networks.too_few', 'keras_model=own_networks.too_few: must give logits [batch, 10], as num_classes says, not'),
        ('tf.keras.applications.MobileNet', 'keras_model=tf.keras.applications.MobileNet: '),
        ('tensorflow.keras.applications.MobileNet', 'keras_model=tensorflow.keras.applications.MobileNet: '),
        ('tf.keras.applications.mobilenet.MobileNet', 'keras_model=tf.keras.applications.mobilenet.MobileNet: '),
        (
            'keras.applications.MobileNet',
            'keras_model=keras.applications.MobileNet: say tf.keras.applications.MobileNet, ',
        ),
        (
            'own_networks.with_tensor',
            'keras_model=own_networks.with_tensor: uses a tensor that was made outside',
        ),
        ('own_networks.of_module', 'the layer mine was created outside of model(): create it inside, as each graph'),
        ('own_networks.made_once', 'was created outside of model(): create it inside, as each graph needs its own layers'),
        ('own_networks.without_parameter', 'keras_model=own_networks.without_parameter: must be a function of the hyper-param'),
        ('own_networks.a_class', 'keras_model=own_networks.a_class: must return a tf.keras model or layer, not '),
        (
            'own_networks.for_others',
            'keras_model=own_networks.for_others: does not take the features (image: a tensor of ',
        ),
    ],
)
def test_a_wrong_name_is_one_line(networks, tmp_path, data_dir, name, message):
    with pytest.raises(api.UsageError) as raised:
        train(tmp_path / 'run', data_dir, hparams={'keras_model': name})
    assert message in str(raised.value) and '\n' not in str(raised.value)


def test_a_file_that_is_not_there_or_damaged_is_one_line(network, tmp_path, data_dir):
    def start(name):
        train(tmp_path / 'run', data_dir, warm_start_from=str(tmp_path / name))

    with pytest.raises(api.UsageError, match='none.h5: there is no such file'):
        start('none.h5')
    (tmp_path / 'folder.keras').mkdir()
    with pytest.raises(api.UsageError, match='folder.keras: it is a directory'):
        start('folder.keras')
    for name in ('garbage.h5', 'garbage.keras', 'GARBAGE.H5'):
        (tmp_path / name).write_bytes(b'garbage')
        with pytest.raises(api.RunError, match=f'{name}: is corrupt: '):
            start(name)
    network.save(str(tmp_path / 'model.keras'))
    content = (tmp_path / 'model.keras').read_bytes()
    (tmp_path / 'cut.keras').write_bytes(content[: len(content) // 2])
    with pytest.raises(api.RunError, match='cut.keras: is corrupt: '):
        start('cut.keras')


def test_a_module_of_networks_is_imported_outside_of_the_graph(networks, tmp_path, data_dir):
    path = os.path.join(os.path.dirname(networks.__file__), 'new_networks.py')
    with open(path, 'w') as file:
        file.write(f'{NETWORKS}\nUNITS = int(tf.constant(10).numpy())\n\n\n')
        file.write('def new(params):\n    return tf.keras.Sequential([layers.Flatten(), layers.Dense(UNITS, name="last")])\n')
    train(tmp_path / 'run', data_dir, hparams={'keras_model': 'new_networks.new'})
    assert read_weights(tmp_path / 'run')['model/sequential/last/bias'].shape == (10,)


def test_a_program_s_own_keras_models_work_after_a_run(network, tmp_path, data_dir):
    images = np.random.RandomState(0).uniform(size=[2, 28, 28, 1])
    before = network.predict(images, verbose=0)
    train(tmp_path / 'run', data_dir)
    np.testing.assert_array_equal(network.predict(images, verbose=0), before)
    network.save(str(tmp_path / 'saved'), save_format='tf')


@pytest.mark.parametrize('name', ['with_softmax', 'with_tf_softmax'])
def test_a_softmax_at_the_end_is_warned_of(networks, tmp_path, data_dir, caplog, name):
    importlib.import_module('tf_keras')  # TensorFlow then finds its functions by the names of those of tf.keras.
    train(tmp_path / 'run', data_dir, hparams={'keras_model': f'own_networks.{name}'})
    assert f'keras_model=own_networks.{name}: ends with softmax, but its outputs are taken as logits' in caplog.text

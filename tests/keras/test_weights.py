"""Warm starts from tf.keras weights: models predict in a graph as in Keras itself."""

import re
import zipfile

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.keras import weights
from estimator_trainer.common.keras.layers import collect_keras_layers
from estimator_trainer.common.training.warm_start import start_from

X = np.random.RandomState(0).normal(size=[3, 4]).astype(np.float32)
layers = tf.keras.layers


def sequential():
    return tf.keras.Sequential([layers.Dense(4), layers.BatchNormalization(), layers.Dense(4, 'tanh'), layers.Dense(4)])


def branches():
    """Two models with layers of the same names."""
    inputs = layers.Input([4])
    made = [tf.keras.Sequential([layers.Input([4]), layers.Dense(4, name='same')], name=name)(inputs) for name in 'ab']
    return tf.keras.Model(inputs, layers.Subtract()(made))


def frozen():
    base = tf.keras.Sequential([layers.Dense(4), layers.BatchNormalization(), layers.Dense(4), layers.BatchNormalization()])
    base.trainable = False
    return tf.keras.Sequential([base, layers.Dense(2)])


class Network(tf.keras.Model):
    """Layers in attributes, in a list and in a dict, and layers within layers."""

    def __init__(self):
        super().__init__()
        self.blocks = [layers.Dense(4), layers.LayerNormalization(), layers.Dense(4)]
        self.heads = {'one': layers.Dense(3), 'two': layers.Dense(3)}
        self.both_ways = layers.Bidirectional(layers.LSTM(2))

    def call(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return tf2.concat([self.heads['one'](inputs) - self.heads['two'](inputs), self.both_ways(inputs[:, None])], 1)


def with_random_weights(network):
    network(X)
    random = np.random.RandomState(1)
    network.set_weights([random.uniform(0.1, 0.9, value.shape) for value in network.get_weights()])
    return network


def save(network, path):
    """Saves the weights or the whole model, according to the name."""
    (network.save_weights if path.name.startswith('w') else network.save)(str(path))


def started(make, path):
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.name_scope('model'), collect_keras_layers(is_training=False) as networks:
            outputs = make()(tf.constant(X))
        start_from(str(path), tf.global_variables(), networks=networks)
        session.run(tf.global_variables_initializer())
        return session.run(outputs)


@pytest.mark.parametrize(
    'make, name',
    [
        *((sequential, name) for name in ('w.hdf5', 'w.weights.h5', 'm.h5', 'm.keras')),
        *((make, name) for make in (branches, frozen, Network) for name in ('w.h5', 'w.weights.h5')),
    ],
)
@pytest.mark.filterwarnings('ignore:You are saving your model as an HDF5')
def test_a_model_predicts_as_in_keras_whatever_its_layers_are_called(make, name, tmp_path):
    layers.Dense(1)(X)  # So that the numbers in names that Keras gives are not those in the graph.
    network = with_random_weights(make())
    if make is sequential:  # What Keras saves of its own training is no weight of the model.
        network.compile('adam', 'mse', ['mae'])
        network.train_on_batch(X, X)
    save(network, tmp_path / name)
    np.testing.assert_allclose(started(make, tmp_path / name), network(X).numpy(), rtol=1e-5)


def test_checkpoints_and_saved_models_are_matched_by_names_and_are_not_loaded(tmp_path):
    def make():
        return tf.keras.Sequential([layers.Dense(4, name='first'), layers.Dense(2, name='second')])

    network = with_random_weights(make())
    network.save_weights(str(tmp_path / 'weights'))
    network.save(str(tmp_path / 'saved'), save_format='tf')
    (tmp_path / 'saved' / 'saved_model.pb').write_bytes(b'')
    for name in ('weights', 'weights.index', 'saved'):
        assert weights.is_of_keras(str(tmp_path / name))
        np.testing.assert_allclose(started(make, tmp_path / name), network(X).numpy(), rtol=1e-5)


def test_the_export_of_keras_3_which_stores_each_variable_twice_is_matched_by_names_and_one_without_is_refused(tmp_path):
    def make():
        return tf.keras.Sequential([layers.Dense(4, name='first'), layers.Dense(2, name='second')])

    network = with_random_weights(make())
    arrays = {variable.name.removesuffix(':0'): variable.numpy() for variable in network.variables}
    path = tmp_path / 'saved'

    def export(names):
        once, again = ([tf2.Variable(value, name=name) for name, value in zip(names, arrays.values())] for _ in range(2))
        tf2.train.Checkpoint(variables=once, _all_variables=again).write(str(path / 'variables' / 'variables'))

    export(arrays)
    assert weights.read(str(path)).names.keys() == arrays.keys() and len(weights.read(str(path)).arrays) == len(arrays)
    np.testing.assert_allclose(started(make, path), network(X).numpy(), rtol=1e-5)
    export([name.rpartition('/')[2] for name in arrays])
    with pytest.raises(UsageError, match='saved: has weights without names of layers: save the model as .keras or .h5$'):
        started(make, path)


@pytest.mark.parametrize('name', ['w.h5', 'm.keras'])
def test_weights_of_a_part_are_those_of_the_model_within(name, tmp_path):
    base = with_random_weights(sequential())
    save(base, tmp_path / name)

    def make():
        inputs = layers.Input([4])
        return tf.keras.Model(inputs, layers.Dense(1, kernel_initializer='ones')(sequential()(2 * inputs - 1)))

    expected = base(2 * X - 1).numpy().sum(1, keepdims=True)
    np.testing.assert_allclose(started(make, tmp_path / name), expected, rtol=1e-5)


def test_possibly_renamed_weights_cause_a_warning(tmp_path, caplog):
    def make(first, *others):
        return tf.keras.Sequential([layers.Dense(4, name=name) for name in (first, 'same', *others)])

    save(with_random_weights(make('old')), tmp_path / 'w.h5')
    started(lambda: make('new', 'last'), tmp_path / 'w.h5')
    log = caplog.text.replace('model/sequential/', '').replace('sequential/', '')
    assert 'has no weights for last/bias, last/kernel, new/bias, new/kernel; it has old/bias, old/kernel, which are not' in log


@pytest.mark.parametrize('name, share', [('w.h5', 0.5), ('m.keras', 0.5), ('w', 1)])
def test_a_damaged_file_is_read_or_called_corrupt_and_a_damaged_checkpoint_is_never_read(name, share, tmp_path):
    save(with_random_weights(sequential()), tmp_path / name)
    path = next(tmp_path.glob('w.data*'), tmp_path / name)
    content = path.read_bytes()
    structures = [place.start() for place in re.finditer(b'TREE|HEAP|SNOD|\x89HDF', content)]  # Of HDF5.
    places, corrupt = structures or range(0, len(content), len(content) // 9), 0
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            weights.read(str(tmp_path / name))
        except RunError as error:
            assert str(error).startswith(f'--warm_start_from={tmp_path / name}: is corrupt: ')
            corrupt += 1
    assert corrupt >= share * len(places) > 4


def test_a_file_without_names_has_to_fit_and_nothing_but_its_weights_is_read_so_that_no_code_in_it_is_run(tmp_path):
    network = with_random_weights(sequential())
    save(network, tmp_path / 'm.keras')
    with pytest.raises(UsageError, match='with other layers than --model, and no names for them: save them by'):
        started(frozen, tmp_path / 'm.keras')
    with zipfile.ZipFile(tmp_path / 'm.keras') as archive, zipfile.ZipFile(tmp_path / 'evil.keras', 'w') as evil:
        # Keras makes layers, and calls functions, by their names.
        evil.writestr('config.json', b'{"module": "os", "class_name": ')
        evil.writestr('model.weights.h5', archive.read('model.weights.h5'))
    np.testing.assert_allclose(started(sequential, tmp_path / 'evil.keras'), network(X).numpy(), rtol=1e-5)

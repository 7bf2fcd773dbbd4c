"""Data of TensorBoard's Projector tab."""

import types

from google.protobuf import text_format
import numpy as np
from PIL import Image
from tensorboard.plugins.projector import ProjectorConfig
import tensorflow.compat.v1 as tf

from estimator_trainer.common.monitoring import projector
from estimator_trainer.common.records.elements import elements


def show(directory, features, predictions, labels=None):
    """Returns the projector's data for a model whose predictions are a function of features, {name: array}."""

    def batches(select):
        given = tf.data.Dataset.from_tensor_slices((features, labels or {})).batch(4)
        return given.map(lambda features, labels: select(features, labels, predictions(features)))

    directory.mkdir(exist_ok=True)
    projector.show(types.SimpleNamespace(events_dir=str(directory), batches=lambda select: elements(lambda: batches(select))))
    (info,) = text_format.Parse((directory / 'projector_config.pbtxt').read_text(), ProjectorConfig()).embeddings
    return info


def first_pixels(features):
    return {'embedding': tf.cast(features['image'][:, :2, 0, 0], tf.float32)}


def test_the_projector_shows_the_first_thousand_examples(tmp_path):
    x = np.random.RandomState(0).randint(-99, 99, [1003, 3, 2])
    info = show(tmp_path, {'x': x}, lambda features: {'embedding': tf.cast(features['x'], tf.bfloat16)})
    np.testing.assert_array_equal(np.loadtxt(tmp_path / info.tensor_path, delimiter='\t'), x[:1000].reshape(1000, 6))
    assert not info.HasField('sprite')


def names_of(*tensors):
    """Returns the names that the projector selects from features, labels and predictions."""

    def batches(select):
        names.update(select(*tensors))
        yield from ()

    names = set()
    projector.show(types.SimpleNamespace(batches=batches))
    return names


def test_the_projector_takes_only_what_can_be_joined(session):
    def tensor(*shape):
        return tf.placeholder(tf.float32, [None, *shape])

    sparse, row, embedding = tf.sparse.from_dense(np.eye(2)), tensor(), {'embedding': tensor(2)}
    no_embeddings = [{'y': tensor(2)}, *({'embedding': value} for value in (sparse, tf.constant(1.0), tensor(None)))]
    others = {'vector': tensor(2), 'words': tensor(None), 'sparse': sparse}
    for *tensors, expected in (
        *(({'image': tensor(8, 8, 1)}, {}, none, set()) for none in no_embeddings),
        *(({'image': tensor(*shape)}, {}, embedding, {'embedding'}) for shape in ([2, 2, 4], [2, 1], [None, 2, 1])),
        (tensor(2), {}, embedding, {'embedding'}),
        ({'image': tensor(2, 2, 3)}, {}, embedding, {'embedding', 'image of each'}),
        ({}, {**others, 'label': row}, {**embedding, **others, 'class': row}, {'embedding', 'label', 'predicted class'}),
    ):
        assert names_of(*tensors) == expected


def test_labels_and_predictions_of_one_value_an_example_are_columns_of_the_projector(tmp_path):
    labels = {'name': np.array(['a', 'b\tc\nd', 'e', '', 'g\xe4']), 'vector': np.ones([5, 3])}
    x = np.ones([5, 2], np.int32)
    info = show(tmp_path, {'x': x}, lambda features: {'embedding': features['x'], 'class': features['x'][:, 0]}, labels)
    assert (info.tensor_name, info.tensor_path) == ('embedding', 'embedding.tsv')
    table = (tmp_path / info.metadata_path).read_text().splitlines()
    assert table == ['example\tname\tpredicted class', '0\ta\t1', '1\tb c d\t1', '2\te\t1', '3\t\t1', '4\tg\xe4\t1']


def test_images_of_the_projector_lie_side_by_side_and_large_ones_are_made_small(tmp_path):
    images = np.random.RandomState(0).randint(0, 256, [5, 2, 3, 3]).astype(np.uint8)
    info = show(tmp_path / 'small', {'image': images}, first_pixels)
    assert list(info.sprite.single_image_dim) == [3, 2]
    picture = np.asarray(Image.open(tmp_path / 'small' / info.sprite.image_path))
    assert picture.shape == (4, 9, 3)  # Three columns for five images.
    for i, image in enumerate(images):
        row, column = divmod(i, 3)
        np.testing.assert_array_equal(picture[2 * row : 2 * row + 2, 3 * column : 3 * column + 3], image)

    images = np.zeros([2, 640, 40, 1], np.uint8)
    images[1, ::10, ::10] = 255  # The pixels that are kept.
    info = show(tmp_path / 'large', {'image': images}, first_pixels)
    picture = np.asarray(Image.open(tmp_path / 'large' / info.sprite.image_path))
    assert list(info.sprite.single_image_dim) == [4, 64] and picture.shape == (64, 8, 3)
    assert not picture[:, :4].any() and (picture[:, 4:] == 255).all()
    assert list(show(tmp_path / 'fits', {'image': images[:, :64]}, first_pixels).sprite.single_image_dim) == [40, 64]

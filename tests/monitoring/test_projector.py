"""Data of TensorBoard's Projector tab."""

import contextlib
import types

from google.protobuf import text_format
import numpy as np
from PIL import Image
from tensorboard.plugins.projector import ProjectorConfig
import tensorflow.compat.v1 as tf

from estimator_trainer.common.monitoring import projector


def show(directory, features, predictions, labels=None):
    """Returns the projector's data for a model whose predictions are a function of features, {name: array}."""

    def batches(select):
        with tf.Graph().as_default(), tf.Session() as session:
            examples = tf.data.Dataset.from_tensor_slices((features, labels or {})).batch(4)
            given, of_them = tf.data.make_one_shot_iterator(examples).get_next()
            selected = select(given, of_them, predictions(given))
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    yield session.run(selected)

    directory.mkdir(exist_ok=True)
    projector.show(types.SimpleNamespace(events_dir=str(directory), batches=batches))
    return info_of(directory)


def info_of(directory):
    (info,) = text_format.Parse((directory / 'projector_config.pbtxt').read_text(), ProjectorConfig()).embeddings
    return info


def points(directory):
    return np.loadtxt(directory / info_of(directory).tensor_path, delimiter='\t')


def sprite(directory):
    return np.asarray(Image.open(directory / info_of(directory).sprite.image_path))


def first_pixels(features):
    return {'embedding': tf.cast(features['image'][:, :2, 0, 0], tf.float32)}


def test_the_projector_shows_the_first_thousand_examples(tmp_path):
    x = np.random.RandomState(0).randint(-99, 99, [1003, 3, 2])
    info = show(tmp_path, {'x': x}, lambda features: {'embedding': tf.cast(features['x'], tf.bfloat16)})
    np.testing.assert_array_equal(points(tmp_path), x[:1000].reshape(1000, 6))
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
    picture = sprite(tmp_path / 'small')
    assert picture.shape == (4, 9, 3)  # Three columns for five images.
    for i, image in enumerate(images):
        row, column = divmod(i, 3)
        np.testing.assert_array_equal(picture[2 * row : 2 * row + 2, 3 * column : 3 * column + 3], image)

    images = np.zeros([2, 640, 40, 1], np.uint8)
    images[1, ::10, ::10] = 255  # The pixels that are kept.
    info = show(tmp_path / 'large', {'image': images}, first_pixels)
    picture = sprite(tmp_path / 'large')
    assert list(info.sprite.single_image_dim) == [4, 64] and picture.shape == (64, 8, 3)
    assert not picture[:, :4].any() and (picture[:, 4:] == 255).all()
    assert list(show(tmp_path / 'fits', {'image': images[:, :64]}, first_pixels).sprite.single_image_dim) == [40, 64]

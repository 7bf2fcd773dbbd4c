"""What TensorBoard's tab Projector is given."""

import contextlib
import shutil
import types

from google.protobuf import text_format
import numpy as np
from PIL import Image
from tensorboard.plugins.projector import ProjectorConfig
import tensorflow.compat.v1 as tf

from common.inference.evaluator import Evaluator
from common.monitoring import projector
from tests.linear import X, Y, input_fn, make_estimator
from tests.shared import SMALL


def show(directory, features, predictions, labels=None):
    """Returns what the projector is told of a model whose predictions are a function of features, {name: array}.

    The features may also be a function that returns a tf.data.Dataset of batches.
    """

    def batches(select):
        with tf.Graph().as_default(), tf.Session() as session:
            arrays = (features, labels or {})
            examples = features() if callable(features) else tf.data.Dataset.from_tensor_slices(arrays).batch(4)
            given, of_them = tf.data.make_one_shot_iterator(examples).get_next()
            selected = select(given, of_them, predictions(given))
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while selected:
                    yield session.run(selected)

    directory.mkdir(exist_ok=True)
    projector.show(types.SimpleNamespace(events_dir=str(directory), batches=batches))
    return info_of(directory) if list(directory.iterdir()) else None


def info_of(directory):
    (info,) = text_format.Parse((directory / 'projector_config.pbtxt').read_text(), ProjectorConfig()).embeddings
    return info


def points(directory):
    return np.loadtxt(directory / info_of(directory).tensor_path, delimiter='\t')


def sprite(directory):
    return np.asarray(Image.open(directory / info_of(directory).sprite.image_path))


def first_pixels(features):
    return {'embedding': tf.cast(features['image'][:, :2, 0, 0], tf.float32)}


def embed_x(features):
    return {'embedding': features['x']}


def test_the_projector_shows_the_first_thousand_examples(tmp_path):
    x = np.random.RandomState(0).normal(size=[1003, 3, 2]).astype(np.float32)
    show(tmp_path, {'x': x}, embed_x)
    np.testing.assert_allclose(points(tmp_path), x[:1000].reshape(1000, 6), rtol=1e-5)


def test_labels_and_predictions_of_one_value_an_example_are_columns_of_the_projector(tmp_path):
    labels = {'name': np.array(['a', 'b\tc\nd', 'e', '', 'g\xe4']), 'vector': np.ones([5, 3])}
    x = np.ones([5, 2], np.int32)
    info = show(tmp_path, {'x': x}, lambda features: {**embed_x(features), 'class': features['x'][:, 0]}, labels)
    assert (info.tensor_name, info.tensor_path) == ('embedding', 'embedding.tsv')
    table = (tmp_path / info.metadata_path).read_text().splitlines()
    assert table == ['example\tname\tpredicted class', '0\ta\t1', '1\tb c d\t1', '2\te\t1', '3\t\t1', '4\tg\xe4\t1']


def test_the_projector_leaves_out_what_cannot_be_joined(tmp_path):
    def batches():
        for width in (2, 3):
            yield {'x': np.ones([4, 2]), 'words': np.ones([4, width]), 'image': np.ones([4, width, 2, 1])}, {}

    def features():
        types, shapes = tf.float64, {'x': [None, 2], 'words': [None, None], 'image': [None, None, 2, 1]}
        examples = tf.data.Dataset.from_generator(batches, (dict.fromkeys(shapes, types), {}), (shapes, {}))
        return examples.map(lambda given, labels: ({**given, 'sparse': tf.sparse.from_dense(given['words'])}, labels))

    def predictions(features):
        return {'embedding': tf.cast(features['x'], tf.bfloat16), 'words': features['words'], 'sparse': features['sparse']}

    info = show(tmp_path, features, predictions)
    assert not info.HasField('sprite')
    assert (tmp_path / info.metadata_path).read_text().splitlines() == ['example', *map(str, range(8))]
    assert (tmp_path / info.tensor_path).read_text().splitlines() == ['1\t1'] * 8


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


def test_the_projector_shows_neither_features_that_are_no_picture_nor_embeddings_of_unknown_size(tmp_path):
    for name, features in (('a', {'image': np.zeros([3, 2, 2, 4])}), ('b', {'image': np.zeros([3, 2, 1])}), ('c', {})):
        assert not show(tmp_path / name, {'x': np.zeros([3, 2]), **features}, embed_x).HasField('sprite')
    for predictions in (
        lambda features: {'y': features['x']},
        lambda features: {'embedding': tf.sparse.from_dense(features['x'])},
        lambda features: {'embedding': tf.reduce_sum(features['x'])},
        lambda features: {'embedding': tf.numpy_function(lambda x: x, [features['x']], tf.float32)},
    ):
        assert show(tmp_path / 'none', {'x': X}, predictions) is None


def test_towers_leave_the_points_of_the_batches_that_are_evaluated_in_their_order(tmp_path):
    def model(features, labels, mode, params):
        return embed_x(features), tf.fill(tf.shape(labels['y']), tf.get_variable('w', []))

    estimator = make_estimator(tmp_path, towers=2, model=types.SimpleNamespace(model=model))
    estimator.train(input_fn(), max_steps=1)
    evaluator = Evaluator(estimator, input_fn(repeat=False), 'eval', 2)
    evaluator.evaluate(estimator.latest_checkpoint())
    projector.show(evaluator)
    assert len(Y) > 8
    np.testing.assert_allclose(points(tmp_path / 'eval'), X[:8], rtol=1e-5)


def test_the_schedule_evaluate_shows_the_projector_what_it_evaluates(run, trained_run):
    output_dir = trained_run('alexnet')
    shutil.rmtree(output_dir / 'eval')
    flags = [SMALL[0].replace('dense_units=16', 'dense_units=16,eval_batch_size=20'), '--eval_steps=1', '--train_steps=20']
    assert run(*flags, '--schedule=evaluate')[0] == 0
    assert points(output_dir / 'eval').shape == (20, 16)

"""What TensorBoard's tab Projector is given."""

import types

from google.protobuf import text_format
import numpy as np
from PIL import Image
import pytest
from tensorboard.plugins.projector import ProjectorConfig
import tensorflow.compat.v1 as tf

from common.inference.evaluator import Evaluator
from common.monitoring import projector
from tests.linear import X, Y, input_fn, make_estimator


def evaluator_of(tmp_path, predictions, features, labels, steps=300, towers=0):
    """Returns an Evaluator that has evaluated a model whose predictions are a function of the features."""

    def model(features, labels, mode, params):
        batch = tf.shape(features.get('x', features.get('image')))[0]
        return predictions(features), tf.fill([batch], tf.get_variable('w', []))

    def batches():
        return features() if callable(features) else tf.data.Dataset.from_tensor_slices((features, labels)).batch(4)

    estimator = make_estimator(tmp_path, towers, types.SimpleNamespace(model=model))
    estimator.train(lambda: batches().take(1), max_steps=1)
    evaluator = Evaluator(estimator, batches, 'eval', steps)
    evaluator.evaluate(estimator.latest_checkpoint())
    return evaluator


def info_of(evaluator):
    text = tf.io.gfile.GFile(f'{evaluator.events_dir}/projector_config.pbtxt').read()
    (info,) = text_format.Parse(text, ProjectorConfig()).embeddings
    return info


def lines(evaluator, name):
    return tf.io.gfile.GFile(f'{evaluator.events_dir}/{name}').read().splitlines()


def test_the_projector_shows_the_first_thousand_examples(tmp_path):
    x = np.random.RandomState(0).normal(size=[1003, 3]).astype(np.float32)
    evaluator = evaluator_of(tmp_path, lambda features: {'embedding': 2 * features['x']}, {'x': x}, {'y': np.arange(1003)})
    projector.show(evaluator)
    values = np.loadtxt(f'{evaluator.events_dir}/{info_of(evaluator).tensor_path}', delimiter='\t')
    np.testing.assert_allclose(values, 2 * x[:1000], rtol=1e-5)


def test_labels_and_predictions_of_one_value_an_example_are_columns_of_the_projector(tmp_path):
    features = {'x': np.ones([5, 2], np.float32)}
    labels = {'name': np.array(['a', 'b\tc\nd', 'e', '', 'g\xe4']), 'vector': np.ones([5, 3])}
    evaluator = evaluator_of(
        tmp_path,
        lambda features: {'embedding': features['x'], 'class': tf.cast(features['x'][:, 0], tf.int64)},
        features,
        labels,
    )
    projector.show(evaluator)
    assert lines(evaluator, info_of(evaluator).metadata_path) == [
        'example\tname\tpredicted class',
        '0\ta\t1',
        '1\tb c d\t1',
        '2\te\t1',
        '3\t\t1',
        '4\tg\xe4\t1',
    ]


def test_the_projector_leaves_out_what_cannot_be_joined(tmp_path):
    def batches():
        for width in (2, 3):
            yield {'x': np.ones([4, 2], np.float32), 'words': np.ones([4, width]), 'image': np.ones([4, width, 2, 1])}, {}

    def input_fn():
        return tf.data.Dataset.from_generator(
            batches,
            ({'x': tf.float32, 'words': tf.float64, 'image': tf.float64}, {}),
            ({'x': [None, 2], 'words': [None, None], 'image': [None, None, 2, 1]}, {}),
        ).map(lambda features, labels: ({**features, 'sparse': tf.sparse.from_dense(features['words'])}, labels))

    def predictions(features):
        return {'embedding': tf.cast(features['x'], tf.bfloat16), 'words': features['words']}

    evaluator = evaluator_of(tmp_path, predictions, input_fn, None)
    projector.show(evaluator)
    info = info_of(evaluator)
    assert not info.HasField('sprite')
    assert lines(evaluator, info.metadata_path) == ['example', *map(str, range(8))]
    assert lines(evaluator, info.tensor_path) == ['1\t1'] * 8


def test_the_projector_asks_for_no_more_batches_than_are_evaluated(tmp_path):
    evaluator = evaluator_of(tmp_path, lambda features: {'embedding': features['x']}, {'x': X}, {'y': Y}, steps=2)
    projector.show(evaluator)
    assert len(lines(evaluator, info_of(evaluator).tensor_path)) == 8


def test_images_of_the_projector_lie_side_by_side(tmp_path):
    images = np.random.RandomState(0).randint(0, 256, [5, 2, 3, 3]).astype(np.uint8)
    evaluator = evaluator_of(
        tmp_path,
        lambda features: {'embedding': tf.cast(features['image'][:, 0, :, 0], tf.float32)},
        {'image': images},
        {'label': np.arange(5)},
    )
    projector.show(evaluator)
    info = info_of(evaluator)
    assert list(info.sprite.single_image_dim) == [3, 2]
    sprite = np.asarray(Image.open(f'{evaluator.events_dir}/{info.sprite.image_path}'))
    assert sprite.shape == (4, 9, 3)  # Three columns for five images.
    for i, image in enumerate(images):
        row, column = divmod(i, 3)
        np.testing.assert_array_equal(sprite[2 * row : 2 * row + 2, 3 * column : 3 * column + 3], image)


def test_large_images_of_the_projector_are_made_small(tmp_path):
    images = np.zeros([2, 640, 40, 1], np.uint8)
    images[1, ::10, ::10] = 255  # The pixels that are kept.
    evaluator = evaluator_of(
        tmp_path,
        lambda features: {'embedding': tf.cast(features['image'][:, :2, 0, 0], tf.float32)},
        {'image': images},
        {'label': np.arange(2)},
    )
    projector.show(evaluator)
    info = info_of(evaluator)
    sprite = np.asarray(Image.open(f'{evaluator.events_dir}/{info.sprite.image_path}'))
    assert list(info.sprite.single_image_dim) == [4, 64] and sprite.shape == (64, 8, 3)
    assert not sprite[:, :4].any() and (sprite[:, 4:] == 255).all()


def test_features_that_are_no_picture_have_none_in_the_projector(tmp_path):
    evaluator = evaluator_of(
        tmp_path,
        lambda features: {'embedding': features['image'][:, 0, 0]},
        {'image': np.zeros([3, 2, 2, 4], np.float32)},
        {'label': np.arange(3)},
    )
    projector.show(evaluator)
    assert not info_of(evaluator).HasField('sprite')


def test_towers_leave_the_points_of_the_projector_and_their_order_alone(tmp_path):
    evaluator = evaluator_of(tmp_path, lambda features: {'embedding': features['x']}, {'x': X[:8]}, {'y': Y[:8]}, towers=2)
    projector.show(evaluator)
    values = np.loadtxt(f'{evaluator.events_dir}/{info_of(evaluator).tensor_path}', delimiter='\t')
    np.testing.assert_allclose(values, X[:8], rtol=1e-5)


def test_the_projector_shows_nothing_of_a_model_without_embedding(trained):
    evaluator = Evaluator(trained, input_fn(), 'eval', 1)
    evaluator.evaluate(trained.latest_checkpoint())
    projector.show(evaluator)
    assert tf.io.gfile.glob(f'{evaluator.events_dir}/*') == tf.io.gfile.glob(f'{evaluator.events_dir}/events*')


@pytest.mark.parametrize('schedule', ['evaluate', 'train_and_evaluate'])
def test_the_projector_shows_the_last_evaluation_of_a_run(run, tmp_path, schedule):
    flags = ['--hparams=filters=[4],dense_units=6,batch_size=32,eval_batch_size=20', '--eval_steps=1', '--train_steps=2']
    assert run(*flags, '--schedule=train')[0] == 0
    assert not tf.io.gfile.exists(f'{tmp_path}/output/eval')
    assert run(*flags[:2], '--train_steps=4', f'--schedule={schedule}')[0] == 0
    assert np.loadtxt(f'{tmp_path}/output/eval/embedding.tsv', delimiter='\t').shape == (20, 6)

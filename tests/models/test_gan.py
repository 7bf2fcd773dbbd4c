"""The networks, losses and metrics of gan; its training with towers and resumed; its recognizer."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.training.parallel import make_parallel
from estimator_trainer.models import alexnet, gan
from tests.evaluated import CPUS
from tests.linear import scalars
from tests.models.shared import ModeKeys, make_params, train
from tests.shared import SMALL, assert_equal, copy_without, read_weights, refused

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.uniform(size=[9, 8, 12, 1]).astype(np.float32)
SIZE = 'noise_units=3,filters=2'


def call(images, mode=ModeKeys.EVAL, text=SIZE):
    """Returns the result of `model` for small networks."""
    labels = None if mode == ModeKeys.PREDICT else {}
    return gan.model({'image': images}, labels, mode, make_params(gan, text))


def test_images_are_the_same_in_any_batch_and_both_losses_are_the_papers(session):
    predictions, losses = call(tf.constant(IMAGES))
    in_towers, _ = make_parallel(call, CPUS, images=tf.constant(IMAGES))
    alone, _ = call(tf.constant(IMAGES[4:5]), ModeKeys.PREDICT)
    real, generated = (
        gan._discriminator(images, make_params(gan, SIZE)) for images in (tf.constant(IMAGES), predictions['image'])
    )
    session.run(tf.global_variables_initializer())
    predicted, found, in_towers, alone, real, generated = session.run(
        [predictions, losses, in_towers['image'], alone['image'], real, generated]
    )
    image = predicted['image']
    assert image.shape == IMAGES.shape and 0 < image.min() and image.max() < 1 and np.ptp(image[:, 3, 3]) > 1e-3
    np.testing.assert_allclose(in_towers, image, rtol=1e-5)
    np.testing.assert_allclose(alone[0], image[4], rtol=1e-5)
    share, generated_share = 1 / (1 + np.exp(-real)), 1 / (1 + np.exp(-generated))
    np.testing.assert_allclose(found['discriminator'], -np.log(share) - np.log(1 - generated_share), rtol=1e-5)
    np.testing.assert_allclose(found['generator'], -np.log(generated_share), rtol=1e-5)
    np.testing.assert_allclose(predicted['real_probability'], generated_share, rtol=1e-5)


def test_the_noise_of_images_is_normal_and_of_each_alone(session):
    images = np.zeros([1000, 4, 4, 1], np.float32)
    images[np.arange(1, 1000), np.arange(1, 1000) % 4, 0, 0] = np.arange(1, 1000) // 4 / 255  # Very much alike.
    noise = session.run(gan._own_noise(tf.constant(images), 50))
    np.testing.assert_array_equal(noise[:9], session.run(gan._own_noise(tf.constant(images[:9]), 50)))
    assert np.isfinite(noise).all() and len(np.unique(noise[:, 0])) > 990
    assert abs(noise.mean()) < 0.02 and abs(noise.std() - 1) < 0.02
    correlations = np.corrcoef(noise.T) - np.eye(50)
    assert np.abs(correlations).max() < 0.2


def test_two_towers_train_both_networks_as_one_does(session, monkeypatch):
    """But for batch norm, whose moments are those of a tower's share, and for noise, which is drawn in each tower."""
    monkeypatch.setattr(gan, '_training_noise', gan._own_noise)
    monkeypatch.setattr(gan, 'batch_normalization', lambda net, is_training, momentum: net)
    found = []
    for devices in ([], CPUS[:2]):
        with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 3})) as own:
            _, losses = make_parallel(lambda images: call(images, ModeKeys.TRAIN), devices, images=tf.constant(IMAGES))
            variables = tf.trainable_variables()
            gradients = [
                tf.gradients(tf.reduce_mean(loss), variables, colocate_gradients_with_ops=True) for loss in losses.values()
            ]
            tf.set_random_seed(1)
            own.run(tf.global_variables_initializer())
            for i, variable in enumerate(variables):
                variable.load(np.random.RandomState(i).normal(size=variable.shape, scale=0.3), own)
            found.append(own.run([gradient for of_loss in gradients for gradient in of_loss if gradient is not None]))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-6)
    assert all(np.abs(gradient).max() > 0 for gradient in found[0])


def test_metrics_are_those_worked_out_by_hand(session):
    probabilities = [[0.95, 0.05, 0], [0.5, 0.25, 0.25], [0.01, 0.09, 0.9], [0.05, 0.05, 0.9]]
    embeddings = {'real_embedding': tf.constant([[1.0], [3.0]]), 'generated_embedding': tf.constant([[4.0], [10.0]])}
    metrics = gan.eval_metrics({}, {}, {'probabilities': tf.constant(probabilities), **embeddings}, make_params(gan))
    session.run(tf.local_variables_initializer())
    session.run([update for _, update in metrics.values()])
    expected = {'recognized_share': 0.75, 'class_entropy': np.log(2), 'frechet_distance': 25 + 8}
    assert session.run({name: value for name, (value, _) in metrics.items()}) == pytest.approx(expected)


def test_it_learns_which_of_two_images_there_are(tmp_path):
    pattern = np.tile(np.float32([[0, 1], [1, 1]]), [4, 4])[:, :, None]
    text = 'noise_units=2,filters=8,learning_rate=0.01'
    images = np.stack([pattern, 1 - pattern] * 16)
    metrics, predictions = train(tmp_path, gan, {'image': images}, {}, 150, text)
    distances = np.abs(predictions['image'][:, None] - images[:2]).mean((2, 3, 4))
    assert distances.min(1).max() < 0.2 and metrics.keys() >= {'loss/discriminator', 'loss/generator'}


@pytest.mark.parametrize('devices', [[], CPUS])
def test_the_recognizer_has_the_weights_of_its_run_and_no_checkpoint_has_them(trained_run, session, devices):
    directory = trained_run('alexnet')
    images = RANDOM.uniform(size=[5, 28, 28, 1]).astype(np.float32)
    text = f'{SIZE},recognizer_dir={directory}'
    predictions, _ = make_parallel(lambda images: call(images, text=text), devices, images=tf.constant(images))
    assert not any('recognizer' in variable.name for variable in (*tf.global_variables(), *tf.trainable_variables()))
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    found = session.run(predictions)
    with tf.Graph().as_default(), tf.Session() as own:
        params = make_params(alexnet, SMALL[0].removeprefix('--hparams='))
        both = {'image': tf.constant(np.concatenate([images, found['image']]))}
        expected, _ = alexnet.model(both, {'label': tf.zeros([10], tf.int32)}, ModeKeys.EVAL, params)
        tf.train.Saver().restore(own, str(directory / 'model.ckpt-20'))
        expected = own.run(expected)
    np.testing.assert_allclose(found['real_embedding'], expected['embedding'][:5], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found['generated_embedding'], expected['embedding'][5:], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found['probabilities'], expected['probabilities'][5:], rtol=1e-4)


def test_a_recognizer_or_images_that_do_not_fit_are_one_line(trained_run, tmp_path):
    def check(directory, side=28):
        call(tf.zeros([2, side, side, 1]), text=f'{SIZE},recognizer_dir={directory}')

    directory = trained_run('alexnet')
    message = f'recognizer_dir={tmp_path}: is not the directory of a run: {tmp_path}/hparams.json: cannot be read: '
    assert refused(check, tmp_path).startswith(message)
    found = refused(check, directory, 32)
    assert found == f'{directory}/model.ckpt-20: dense/kernel has the shape [392, 16], not [512, 16]'
    (directory / 'checkpoint').unlink()  # The newest is known by its name.
    assert refused(check, directory, 32) == found
    (directory / 'hparams.json').write_text(json.dumps({'model': 'resnet'}))
    assert refused(check, directory) == f'recognizer_dir={directory}: must have a checkpoint of --model=alexnet'
    found = refused(call, tf.zeros([2, 28, 30, 1]))
    assert found == '--model=gan needs images whose sides are multiples of 4, not of 28 by 30 pixels'


def test_a_run_resumes_exactly_and_evaluates_with_a_recognizer_that_may_come_later(run, trained_run, tmp_path):
    recognizer = trained_run('alexnet').rename(tmp_path / 'recognizer')
    flags = (
        '--model=gan',
        f'--hparams={SIZE},batch_size=16,learning_rate_schedule=constant',
        '--save_summary_steps=5',
        '--train_steps=12',
        '--save_checkpoints_steps=6',
        '--eval_every_steps=12',
        '--eval_steps=1',
    )

    def train(name, *more):
        code, result, log = run(*flags, *more, output_dir=tmp_path / name)
        assert code == 0, log
        return result['eval'], log

    gan._warn.cache_clear()
    whole, log = train('whole')
    assert 'WARNING recognizer_dir is not given: recognized_share, class_entropy and frechet_distance are left out.' in log
    assert whole.keys() == {'loss', 'loss/discriminator', 'loss/generator'}
    copy_without(12, tmp_path / 'whole', tmp_path / 'parted')
    parted, log = train('parted', '--steps_per_loop=4', f'--override_hparams=recognizer_dir={recognizer}')
    assert 'model.ckpt-6' in log
    weights = read_weights(tmp_path / 'parted')
    assert_equal(weights, read_weights(tmp_path / 'whole'))
    assert parted.keys() - whole.keys() == {'recognized_share', 'class_entropy', 'frechet_distance'}
    assert parted['loss'] == whole['loss'] and parted['frechet_distance'] > 0 and 0 <= parted['class_entropy'] <= np.log(10)
    assert not any('recognizer' in name for name in weights) and 'samples/image' in scalars(tmp_path / 'whole')
    assert {'gradient_norm/generator', 'loss/generator'} <= scalars(tmp_path / 'whole').keys()

"""Augmentation by hyper-parameters: what training batches become, in training only, and what is refused."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.classification import classification_loss
from common.training import augmentation
from common.training.model_fn import Features, Labels, make_model_fn
from common.training.options import TrainingOptions
from hparams import build
from hparams.defaults import DEFAULTS, MINIMUM
from tests.linear import CPUS
from tests.shared import read_weights

ModeKeys = tf.estimator.ModeKeys
IMAGES = np.random.RandomState(0).uniform(0.1, 1, [8, 6, 6, 1]).astype(np.float32)
LABELS = np.arange(8, dtype=np.int32) % 3
EVERYTHING = (
    'augment_flip=true,augment_shift=1,augment_crop=0.5,augment_rotate=20,augment_cutout=2,augment_color=0.3,'
    'mixup_alpha=0.2,label_smoothing=0.1'
)


def make_params(text=''):
    return build.make_hparams('m', {'num_classes': 3}, 'd', {}, text=text)


def augment(text, features=None, labels=None):
    features = {'image': tf.constant(IMAGES)} if features is None else features
    labels = {'label': tf.constant(LABELS)} if labels is None else labels
    return augmentation.augment(Features(features), Labels(labels), make_params(text))


def evaluated(text):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        pair = augment(text)
        session.run(tf.assign(tf.train.get_or_create_global_step(), 5))
        return session.run([dict(part) for part in pair])


def test_without_augmentation_the_batch_stays_and_no_op_is_made():
    with tf.Graph().as_default() as graph:
        features, labels = Features(image=tf.constant(IMAGES)), Labels(label=tf.constant(LABELS))
        count = len(graph.get_operations())
        found = augmentation.augment(features, labels, make_params())
        assert found[0] is features and found[1] is labels and len(graph.get_operations()) == count


@pytest.mark.parametrize('text', [item for item in EVERYTHING.split(',') if item.startswith('augment_')])
def test_each_hyper_parameter_changes_the_images_and_nothing_else(text):
    features, labels = evaluated(text)
    assert features['image'].shape == IMAGES.shape and (features['image'] != IMAGES).any((1, 2, 3)).mean() > 0.2
    assert list(labels) == ['label'] and list(labels['label']) == list(LABELS)


def test_mixup_adds_the_other_labels_and_the_shares():
    features, labels = evaluated('mixup_alpha=0.5')
    assert list(labels['label']) == list(LABELS) and labels['mixup_label'].dtype == np.int32
    share = labels['mixup_share'][:, None, None, None]
    for mixed, image, weight, label in zip(features['image'], IMAGES, share, labels['mixup_label']):
        others = IMAGES[LABELS == label]
        assert np.abs(weight * image + (1 - weight) * others - mixed).max((1, 2, 3)).min() < 1e-5


def test_label_smoothing_needs_no_image():
    with tf.Graph().as_default(), tf.Session() as session:
        features, labels = augment('label_smoothing=0.1', features={'x': tf.zeros([8])})
        assert list(features) == ['x']
        np.testing.assert_array_equal(session.run(labels['label_smoothing']), np.full([8], 0.1, np.float32))


def test_what_a_dataset_lacks_is_still_reported_after_augmentation():
    with tf.Graph().as_default():
        features, labels = augment('augment_flip=true,label_smoothing=0.1')
        with pytest.raises(UsageError, match='missing feature text; the dataset has: image'):
            _ = features['text']
        with pytest.raises(UsageError, match='missing label y; the dataset has: label'):
            _ = labels['y']


def graph_of(mode, text, devices=()):
    def model(features, labels, mode, params):
        logits = tf.layers.dense(tf.layers.flatten(features['image']), 3)
        return {'class': tf.argmax(logits, 1)}, None if labels is None else classification_loss(labels, logits)

    fn = make_model_fn(types.SimpleNamespace(model=model), devices, TrainingOptions(), total_steps=5)
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        labels = None if mode == ModeKeys.PREDICT else {'label': tf.constant(LABELS)}
        fn({'image': tf.constant(IMAGES)}, labels, mode, make_params(text), tf.estimator.RunConfig('x'))
        return {op.name for op in graph.get_operations()}


@pytest.mark.parametrize('mode', [ModeKeys.EVAL, ModeKeys.PREDICT])
def test_evaluation_and_prediction_are_not_augmented(mode):
    assert graph_of(mode, EVERYTHING) == graph_of(mode, '')


def test_training_is_augmented_in_each_tower():
    names = graph_of(ModeKeys.TRAIN, EVERYTHING, CPUS[:2])
    for i in range(2):
        assert any(name.startswith(f'model/tower_{i}/augmentation/mixup/') for name in names)
    assert not any('augmentation' in name for name in graph_of(ModeKeys.TRAIN, '', CPUS[:2]))


@pytest.mark.parametrize('flags, flags_of_parts', [((), ('--steps_per_loop=2',)), (('--num_towers=2',), ('--num_towers=2',))])
def test_an_augmented_training_resumes_bit_for_bit(run, tmp_path, flags, flags_of_parts):
    def train(name, steps, *flags):
        hparams = f'--hparams=filters=[4],dense_units=16,batch_size=32,learning_rate_schedule=constant,{EVERYTHING}'
        code, result, _ = run(hparams, '--schedule=train', f'--train_steps={steps}', *flags, output_dir=tmp_path / name)
        assert (code, result['global_step']) == (0, steps)

    train('whole', 5, *flags)
    train('parts', 2, *flags_of_parts)
    train('parts', 5, *flags_of_parts)
    whole, parts = read_weights(tmp_path / 'whole'), read_weights(tmp_path / 'parts')
    assert len(whole) > 5 and whole.keys() == parts.keys()
    for name in whole:
        np.testing.assert_array_equal(parts[name], whole[name], err_msg=name)


@pytest.mark.parametrize('text', ['mixup_alpha=0.5', 'label_smoothing=0.1'])
def test_a_model_whose_loss_does_not_use_the_labels_is_refused(tmp_path, text):
    def model(features, labels, mode, params):
        logits = tf.layers.dense(tf.layers.flatten(features['image']), 3)
        if 'mixup_label' in labels:
            tf.identity(labels['mixup_label'])  # To read it is not enough.
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)
        return {'class': tf.argmax(logits, 1)}, loss

    fn = make_model_fn(types.SimpleNamespace(model=model), [], TrainingOptions(), total_steps=5)
    name = text.partition('=')[0].replace('alpha', 'label')
    with tf.Graph().as_default(), pytest.raises(UsageError) as error:
        tf.train.create_global_step()
        features, labels = {'image': tf.constant(IMAGES)}, {'label': tf.constant(LABELS)}
        fn(features, labels, ModeKeys.TRAIN, make_params(text), tf.estimator.RunConfig(str(tmp_path)))
    assert str(error.value) == (
        f'{text}: --model=m does not use the label {name}, as common.ops.classification.classification_loss does'
    )


@pytest.mark.parametrize('name, value', [('augment_flip', 'true'), ('augment_crop', '0.5'), ('mixup_alpha', '0.5')])
@pytest.mark.parametrize(
    'features, found',
    [
        (lambda: {'x': tf.zeros([8]), 'y': tf.zeros([8])}, 'has: x, y'),
        (lambda: {'image': tf.zeros([8, 6, 6, 1], tf.uint8)}, 'has a tensor of uint8 (8, 6, 6, 1)'),
        (lambda: {'image': tf.zeros([8, 36])}, 'has a tensor of float32 (8, 36)'),
    ],
)
def test_data_without_images_is_refused(name, value, features, found):
    with tf.Graph().as_default(), pytest.raises(UsageError) as error:
        augment(f'{name}={value}', features())
    assert str(error.value) == (
        f'{name}={value} needs a feature image, float32 [batch, height, width, channels]; --dataset=d {found}'
    )


@pytest.mark.parametrize('text', ['mixup_alpha=0.5', 'label_smoothing=0.1'])
@pytest.mark.parametrize(
    'labels, found',
    [(lambda: {'y': tf.zeros([8])}, 'has: y'), (lambda: {'label': tf.zeros([8])}, 'has a tensor of float32 (8,)')],
)
def test_data_without_classes_is_refused(text, labels, found):
    with tf.Graph().as_default(), pytest.raises(UsageError) as error:
        augment(text, labels=labels())
    assert str(error.value) == f'{text} needs a label named label, int32 [batch]; --dataset=d {found}'


@pytest.mark.parametrize(
    'hparams, message',
    [
        ('augment_crop=0', 'augment_crop=0.0 must be more than 0 and at most 1'),
        ('augment_crop=1.5', 'augment_crop=1.5 must be more than 0 and at most 1'),
        ('augment_rotate=181', 'augment_rotate=181.0 must be from 0 to 180'),
        ('augment_color=1.1', 'augment_color=1.1 must be from 0 to 1'),
        ('augment_shift=28', 'augment_shift=28 must be less than 28: images have 28x28 pixels'),
        ('label_smoothing=1', 'label_smoothing=1.0 must be less than 1, such as 0.1'),
        ('augment_cutout=-1', '--hparams: augment_cutout=-1 must be at least 0'),
        ('augment_flip=1', '--hparams: augment_flip=1 must be true or false'),
    ],
)
def test_a_value_out_of_range_is_one_line(run, hparams, message):
    code, _, err = run('--schedule=dry_run', f'--hparams={hparams}')
    assert code == 2 and err.splitlines()[-1] == f'trainer.py: {message}'


def test_every_number_has_a_minimum():
    assert {name for name in DEFAULTS if name.startswith(('augment_', 'mixup_', 'label_'))} - {'augment_flip'} <= set(MINIMUM)


def test_a_run_from_before_there_was_augmentation_resumes(tmp_path):
    path = str(tmp_path / 'hparams.json')
    names = ('augment_', 'mixup_', 'label_')
    build.save({name: value for name, value in make_params().items() if not name.startswith(names)}, path)
    build.compare(make_params(), path)
    with pytest.raises(UsageError, match='augment_flip was false, now it is true'):
        build.compare(make_params('augment_flip=true'), path)

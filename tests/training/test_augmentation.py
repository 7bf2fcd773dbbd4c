"""Augmentation by hyper-parameters: effects on training batches only, and rejected settings."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.classification import classification_loss
from estimator_trainer.common.training import augmentation, model_fn
from estimator_trainer.hparams import build
from tests.linear import check_loop, make_estimator, train_in_session
from tests.shared import refused

IMAGES = np.random.RandomState(0).uniform(0.1, 1, [8, 6, 6, 1]).astype(np.float32)
LABELS = np.arange(8, dtype=np.int32) % 3
IMAGE_CHANGES = ['flip=true', 'shift=1', 'crop=0.5', 'rotate=20', 'cutout=2', 'color=0.3']
EVERYTHING = ''.join(f',augment_{change}' for change in IMAGE_CHANGES) + ',mixup_alpha=0.2,label_smoothing=0.1'


def augment(text, features=None, labels=None):
    features, labels = tf.nest.map_structure(tf.constant, (features or {'image': IMAGES}, labels or {'label': LABELS}))
    params = build.make_hparams('m', {'num_classes': 3}, 'd', {}, text=text)
    return augmentation.augment(model_fn.Features(features), model_fn.Labels(labels), params)


def evaluated(text):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        pair = augment(text)
        session.run(tf.assign(tf.train.get_or_create_global_step(), 5))
        return session.run([dict(part) for part in pair])


@pytest.mark.parametrize('change', IMAGE_CHANGES)
def test_each_hyper_parameter_changes_the_images_and_nothing_else(change):
    features, labels = evaluated(f'augment_{change}')
    assert features['image'].shape == IMAGES.shape and (features['image'] != IMAGES).any((1, 2, 3)).mean() > 0.2
    assert list(labels) == ['label'] and list(labels['label']) == list(LABELS)


def test_mixup_adds_the_other_labels_and_the_shares():
    features, labels = evaluated('mixup_alpha=0.5')
    assert list(labels['label']) == list(LABELS) and labels['mixup_label'].dtype == np.int32
    share = labels['mixup_share'][:, None, None, None]
    for mixed, image, weight, label in zip(features['image'], IMAGES, share, labels['mixup_label']):
        others = IMAGES[LABELS == label]
        assert np.abs(weight * image + (1 - weight) * others - mixed).max((1, 2, 3)).min() < 1e-5


def test_label_smoothing_needs_no_image_and_what_a_dataset_lacks_is_reported_after_it(session):
    features, labels = augment('label_smoothing=0.1', features={'x': np.zeros(8)})
    assert list(features) == ['x']
    np.testing.assert_array_equal(session.run(labels['label_smoothing']), np.full([8], 0.1, np.float32))
    mismatch = '--model and --dataset do not match: missing'
    assert refused(features.__getitem__, 'text') == f'{mismatch} feature text; the dataset has: x'
    assert refused(labels.__getitem__, 'y') == f'{mismatch} label y; the dataset has: label, label_smoothing'


MASKS = np.random.RandomState(1).randint(0, 3, [8, 6, 6]).astype(np.int32)


def with_masks(text):
    """Returns images whose pixels are 1 + class before augmentation, and their masks, both augmented."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        images = np.repeat(MASKS[..., None] + 1, 3, 3).astype(np.float32)
        features, labels = augment(text, {'image': images}, {'label': MASKS})
        session.run(tf.assign(tf.train.get_or_create_global_step(), 5))
        return session.run((features['image'], labels['label']))


@pytest.mark.parametrize('change', ['flip=true', 'shift=2', 'cutout=3', 'flip=true,augment_shift=2,augment_cutout=2'])
def test_a_mask_moves_with_its_image_and_pixels_from_outside_are_ignored(change):
    images, masks = with_masks(f'augment_{change}')
    np.testing.assert_array_equal(masks, np.where(images[..., 0] == 0, 255, images[..., 0] - 1))
    assert (masks != MASKS).any() and (change == 'flip=true') == (masks != 255).all()


@pytest.mark.parametrize('image_size, mask_size', [((6, 6), (None, None)), ((None, None), (6, 6)), ((None, 6), (6, 6))])
def test_a_mask_moves_with_its_image_where_the_size_of_one_is_unknown(session, image_size, mask_size):
    image, mask = tf.placeholder(tf.float32, [8, *image_size, 3]), tf.placeholder(tf.int32, [8, *mask_size])
    params = build.make_hparams('m', {}, 'd', {}, text='augment_flip=true')
    features, labels = augmentation.augment(model_fn.Features(image=image), model_fn.Labels(label=mask), params)
    session.run(tf.assign(tf.train.get_or_create_global_step(), 5))
    pixels = np.repeat(MASKS[..., None], 3, 3)
    found, moved = session.run((features['image'], labels['label']), {image: pixels, mask: MASKS})
    np.testing.assert_array_equal(found[..., 0], moved)
    assert (moved != MASKS).any()


def test_the_mask_of_a_program_moves_whether_it_is_the_label_or_one_of_several(session):
    params = build.make_hparams('m', {}, 'd', {}, text='augment_flip=true')
    pixels = tf.constant(np.repeat(MASKS[..., None], 3, 3), tf.float32)
    found = []
    for labels in (tf.constant(MASKS), {'label': tf.constant(MASKS), 'other': tf.constant(LABELS)}, tf.constant(LABELS), None):
        features = {'image': pixels}
        found.append((features, augmentation.change_image(features, labels, params)))
    assert found[3][1] is None
    session.run(tf.assign(tf.train.get_or_create_global_step(), 5))
    alone, of_several, classes = session.run([*found[:3]])
    np.testing.assert_array_equal(alone[0]['image'][..., 0], alone[1])
    np.testing.assert_array_equal(of_several[0]['image'][..., 0], of_several[1]['label'])
    assert (alone[1] != MASKS).any() and [*of_several[1]['other']] == [*classes[1]] == [*LABELS]


@pytest.mark.parametrize(
    'text, others, warning',
    [
        ('augment_flip=true', {'depth': [8, 6, 6]}, 'augment_flip=true moves the pixels of image, but not those of depth, of'),
        (
            'augment_shift=1',
            {'label': [8, 6, 6, 1]},
            'augment_shift=1 moves the pixels of image, but not those of label, of the',
        ),
        ('augment_color=0.5', {'depth': [8, 6, 6]}, ''),
        ('augment_flip=true', {'depth': [8, 6, 5]}, ''),
        ('augment_flip=true', {}, ''),
        (
            'mixup_alpha=0.5',
            {'numeric': [8, 2]},
            'mixup_alpha=0.5 mixes images and labels, but not numeric: they stay those of',
        ),
        ('mixup_alpha=0.5', {}, ''),
    ],
)
def test_what_does_not_change_with_the_image_is_said(text, others, warning, caplog):
    params = build.make_hparams('m', {}, 'd', {}, text=text)
    with tf.Graph().as_default():
        values = {name: tf.zeros(shape, tf.int32 if name == 'label' else tf.float32) for name, shape in others.items()}
        labels = {'label': tf.constant(LABELS), **{name: value for name, value in values.items() if name == 'label'}}
        features = {'image': tf.constant(IMAGES), **{name: value for name, value in values.items() if name != 'label'}}
        augmentation.warn_of_unchanged(features, labels, params)
    assert [message.startswith(warning) for message in caplog.messages] == [True] * bool(warning)


def test_a_mask_takes_the_nearest_pixel_where_its_image_is_interpolated():
    for change in ('crop=0.5', 'rotate=45', 'crop=0.5,augment_rotate=45'):
        images, masks = with_masks(f'augment_{change}')
        assert images.shape == (8, 6, 6, 3) and set(np.unique(masks)) <= {0, 1, 2, 255}
        is_pure = np.isin(np.round(images[..., 0], 4), [1, 2, 3])  # All pixels that were mixed have one class, mostly.
        right = (masks == np.round(images[..., 0]) - 1)[is_pure & (masks != 255)]
        assert right.mean() > 0.8 and ('rotate' in change) == (masks == 255).any()


def test_colors_change_the_image_alone_and_a_mixture_of_masks_is_one_line():
    images, masks = with_masks('augment_color=0.5')
    np.testing.assert_array_equal(masks, MASKS)
    assert (images[..., 0] != MASKS + 1).mean() > 0.9
    for text in ('mixup_alpha=0.5', 'label_smoothing=0.5'):
        assert refused(with_masks, text) == f'{text} is for one class of each example, not for masks: omit it'


def classifier(features, labels, mode, params):
    logits = tf.layers.dense(tf.layers.flatten(features['image']), 3)
    return {'class': tf.argmax(logits, 1)}, None if labels is None else classification_loss(labels, logits)


def batches():
    return tf.data.Dataset.from_tensors(({'image': IMAGES}, {'label': LABELS})).repeat()


@pytest.mark.parametrize('mode, text', [('train', ''), ('eval', EVERYTHING), ('infer', EVERYTHING)])
def test_training_without_hyper_parameters_evaluation_and_prediction_are_not_augmented(session, mode, text):
    estimator = make_estimator('/nowhere', 0, classifier, text)
    tf.train.create_global_step()
    labels = None if mode == 'infer' else {'label': tf.constant(LABELS)}
    estimator.model_fn({'image': tf.constant(IMAGES)}, labels, mode, estimator.config)
    assert not [op.name for op in session.graph.get_operations() if 'augmentation' in op.name]


def test_augmented_training_in_towers_resumes_in_a_loop_bit_for_bit(tmp_path):
    before, after = check_loop(make_estimator(tmp_path, 2, classifier, EVERYTHING), batches)
    assert (before['dense/kernel'] != after['dense/kernel']).any()


@pytest.mark.parametrize('text, name', [('mixup_alpha=0.5', 'mixup_label'), ('label_smoothing=0.1', 'label_smoothing')])
def test_a_model_whose_loss_does_not_use_the_labels_is_refused(text, name):
    def model(features, labels, mode, params):
        tf.identity(labels[name])  # Reading it does not suffice.
        return {'y': tf.zeros([8])}, tf.zeros([8]) * tf.get_variable('w', [])

    found = refused(train_in_session, make_estimator('/nowhere', 0, model, f',{text}'), 0, batches)
    function = 'estimator_trainer.common.ops.classification.classification_loss'
    assert found == f'{text}: --model=m does not use the label {name}, as {function} does'


def test_data_that_cannot_be_augmented_is_refused():
    image = 'needs a feature image, float32 [batch, height, width, channels]; --dataset=d'
    label = 'needs a label named label, int32 [batch]; --dataset=d'
    for text, features, labels, message in (
        ('augment_flip=true', {'x': 0.0, 'y': 0.0}, None, f'{image} has: x, y'),
        ('augment_crop=0.5', {'image': np.uint8(IMAGES)}, None, f'{image} has a tensor of uint8 (8, 6, 6, 1)'),
        ('mixup_alpha=0.5', {'image': IMAGES[:, 0, 0]}, None, f'{image} has a tensor of float32 (8, 1)'),
        ('mixup_alpha=0.5', None, {'y': LABELS}, f'{label} has: y'),
        ('label_smoothing=0.1', None, {'label': np.zeros([8], np.float32)}, f'{label} has a tensor of float32 (8,)'),
        ('label_smoothing=0.1', None, {'label': LABELS[:, None]}, f'{label} has a tensor of int32 (8, 1)'),
        ('mixup_alpha=0.5', None, {'label': LABELS, 'weight': IMAGES[:, 0]}, 'excludes the label weight: a mixed'),
        ('mixup_alpha=0.5,class_weights=[1,2,3]', None, None, 'excludes class_weights: a mixed example has two'),
        ('augment_shift=6', None, None, 'must be less than 6: images have 6x6 pixels'),
        ('augment_shift=3', {'image': IMAGES[:, :, :3]}, None, 'must be less than 3: images have 6x3 pixels'),
    ):
        assert f'{text.partition(",")[0]} {message}' in refused(augment, text, features, labels)


@pytest.mark.parametrize(
    'text, record_margins, lacks, message',
    [
        ('augment_flip=true', False, ['image'], 'augment_flip=true needs pictures'),
        ('mixup_alpha=0.5', False, ['image'], 'mixup_alpha=0.5 needs pictures'),
        ('mixup_alpha=0.5', False, ['label'], 'mixup_alpha=0.5 needs examples of one class each'),
        ('label_smoothing=0.1', False, ['image', 'label'], 'label_smoothing=0.1 needs examples of one class each'),
        ('', True, ['label'], '--record_margins needs examples of one class each'),
    ],
)
def test_what_a_dataset_lacks_is_known_before_it_is_prepared(text, record_margins, lacks, message):
    params = build.make_hparams('m', {}, 'd', {}, text=text)
    assert (
        refused(augmentation.check_lacking, params, lacks, record_margins)
        == f'{message}, which --dataset=d does not have: omit it'
    )
    augmentation.check_lacking(params, [], record_margins)


@pytest.mark.parametrize('devices', [(), ('/cpu:0', '/cpu:0')])
def test_metrics_of_training_have_the_masks_that_the_model_was_given(devices):
    def model(features, labels, mode, params):
        return {'class': labels['label']}, tf.reduce_mean(features['image'], [1, 2, 3])

    module, params = types.SimpleNamespace(model=model), build.make_hparams('m', {}, 'd', {}, text='augment_flip=true')
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = (
            model_fn.Features(image=tf.constant(IMAGES)),
            model_fn.Labels(label=tf.constant(MASKS), weight=tf.ones([8])),
        )
        predictions, *_, moved = model_fn.build_networks(module, devices, *inputs, tf.estimator.ModeKeys.TRAIN, params)
        session.run(tf.global_variables_initializer())
        given, found = session.run([predictions['class'], moved])
    assert [*found] == ['label'] and (given != MASKS).any()
    np.testing.assert_array_equal(found['label'], given)

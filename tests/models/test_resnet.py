"""The model resnet: its blocks, its bounds, and that it learns."""

import numpy as np
import tensorflow.compat.v1 as tf

from models import resnet
from tests.models.shared import ModeKeys, make_params, train

IMAGES = np.random.RandomState(0).uniform(size=[7, 9, 8, 3]).astype(np.float32)


def test_a_block_whose_convolutions_give_nothing_passes_every_other_pixel_on(session):
    net = resnet.residual_block(tf.constant(IMAGES), 5, 2, is_training=False)
    session.run(tf.global_variables_initializer())
    scale = next(v for v in tf.global_variables() if v.op.name == 'batch_normalization_1/gamma')
    scale.load(np.zeros([5]), session)
    expected = np.zeros([7, 5, 4, 5], np.float32)
    expected[..., :3] = IMAGES[:, ::2, ::2]
    np.testing.assert_array_equal(session.run(net), expected)


def test_only_the_first_block_of_the_later_stages_halves_the_image(session):
    resnet.model({'image': tf.constant(IMAGES)}, None, ModeKeys.PREDICT, make_params(resnet, 'depth=14,width=2'))
    sizes = [op.outputs[0].shape.as_list()[1:] for op in session.graph.get_operations() if op.type == 'Conv2D']
    assert sizes == [[9, 8, 32]] * 5 + [[5, 4, 64]] * 4 + [[3, 2, 128]] * 4


def test_resnet_learns_which_way_stripes_run(tmp_path):
    stripes = np.tile([[0.0, 1.0]], [8, 4])
    images = np.stack([stripes, stripes.T] * 8)[..., None] + np.random.RandomState(0).normal(size=[16, 8, 8, 1], scale=0.2)
    labels = np.arange(16, dtype=np.int32) % 2
    text = 'depth=8,num_classes=2,learning_rate=0.02,label_smoothing=0.1,augment_shift=1,mixup_alpha=0.2'
    metrics, predictions = train(tmp_path, resnet, {'image': images.astype(np.float32)}, {'label': labels}, 30, text)
    assert metrics['accuracy'] == metrics['auc'] == 1 and metrics['loss'] < 0.5
    assert list(predictions['class']) == list(labels)

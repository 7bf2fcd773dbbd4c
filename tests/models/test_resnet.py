"""The model resnet: its blocks, its bounds, and that it learns."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from models import resnet
from tests.evaluated import evaluate
from tests.models.shared import ModeKeys, make_params, train

IMAGES = np.random.RandomState(0).uniform(size=[7, 9, 8, 3]).astype(np.float32)


def test_a_block_whose_convolutions_give_nothing_passes_every_other_pixel_on(session):
    net = resnet._block(tf.constant(IMAGES), 5, 2, is_training=False)
    session.run(tf.global_variables_initializer())
    scale = next(v for v in tf.global_variables() if v.op.name == 'batch_normalization_1/gamma')
    scale.load(np.zeros([5]), session)
    expected = np.zeros([7, 5, 4, 5], np.float32)
    expected[..., :3] = IMAGES[:, ::2, ::2]
    np.testing.assert_array_equal(session.run(net), expected)


def test_towers_give_the_same_probabilities():
    params = make_params(resnet, 'depth=8,num_classes=3')

    def predict(images):
        predictions, loss = resnet.model({'image': images}, None, ModeKeys.PREDICT, params)
        assert loss is None and set(predictions) == {'class', 'probabilities'}
        return predictions['probabilities']

    np.testing.assert_allclose(evaluate(predict, IMAGES).sum(1), np.ones([7]), rtol=1e-5)


@pytest.mark.parametrize('depth, nearest', [(9, '8 or 14'), (2, '8 or 14'), (-4, '8 or 14'), (21, '20 or 26')])
def test_a_depth_that_is_not_6n_plus_2_is_refused_in_one_line(run, depth, nearest):
    code, _, err = run('--schedule=dry_run', '--model=resnet', f'--hparams=depth={depth}')
    assert code == 2 and err.splitlines()[-1] == f'trainer.py: depth={depth} must be 6n + 2, such as {nearest}'


def test_a_width_of_zero_is_refused_in_one_line(run):
    code, _, err = run('--schedule=dry_run', '--model=resnet', '--hparams=width=0')
    assert code == 2 and err.splitlines()[-1] == 'trainer.py: width=0 must be at least 1'


def test_resnet_learns_which_way_stripes_run(tmp_path):
    stripes = np.tile([[0.0, 1.0]], [8, 4])
    images = np.stack([stripes, stripes.T] * 8)[..., None] + np.random.RandomState(0).normal(size=[16, 8, 8, 1], scale=0.2)
    labels = np.arange(16, dtype=np.int32) % 2
    text = 'depth=8,num_classes=2,learning_rate=0.02,label_smoothing=0.1,augment_shift=1,mixup_alpha=0.2'
    metrics, predictions = train(tmp_path, resnet, {'image': images.astype(np.float32)}, {'label': labels}, 30, text)
    assert metrics['accuracy'] == metrics['auc'] == 1 and metrics['loss'] < 0.5
    assert list(predictions['class']) == list(labels)

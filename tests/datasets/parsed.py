"""What a dataset module gives for a whole split."""

import numpy as np
import tensorflow.compat.v1 as tf

from hparams import build


def parsed(dataset, name, split, data_dir, mode=tf.estimator.ModeKeys.EVAL):
    """Returns (features, labels) of all examples of a split, as NumPy arrays."""
    params = build.make_hparams('m', {}, name, dataset.get_params())
    with tf.Graph().as_default(), tf.Session() as session:
        records = dataset.read(split, data_dir, params).batch(100)
        batches = records.map(lambda serialized: dataset.parse_batch(mode, params, serialized))
        return session.run(tf.data.make_one_shot_iterator(batches).get_next())


def assert_is(dataset, name, data_dir, arrays):
    """Checks that both splits, prepared, are the images and labels `arrays`."""
    for split, (images, labels) in arrays.items():
        features, found = parsed(dataset, name, split, data_dir)
        assert set(features) == {'image'} and set(found) == {'label'}
        assert features['image'].dtype == np.float32 and found['label'].dtype == np.int32
        expected = images.reshape(len(images), images.shape[1], images.shape[2], -1) / np.float32(255)
        np.testing.assert_array_equal(features['image'], expected)
        np.testing.assert_array_equal(found['label'], labels)

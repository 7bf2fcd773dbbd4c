"""The model text_cnn: its filters, padding, short texts, and that it learns."""

import numpy as np
import tensorflow.compat.v1 as tf

from models import text_cnn
from tests.models.shared import ModeKeys, make_params, train

METADATA = {'vocabulary_size': 9}
SMALL = 'embedding_size=3,num_filters=4,filter_widths=[2,3]'
# Longer and shorter than the widest filter, an unknown token's 0 within a text, and an empty text.
TEXTS = [[5, 2, 8, 1, 3], [4, 4], [7], [3, 0, 6, 2], []]


def pad(texts, length):
    return np.array([[*text, *[0] * (length - len(text))] for text in texts], np.int32).reshape(len(texts), length)


def predict(ids):
    return text_cnn.model({'text': ids}, None, ModeKeys.PREDICT, make_params(text_cnn, SMALL, METADATA))[0]['probabilities']


def value(i, shape):
    """Returns a variable's value, of both signs: a window that reaches into the padding may have the maximum."""
    return np.random.RandomState(i).normal(size=shape)


def in_numpy(text):
    """The probabilities of a text by loops over its windows."""
    # Variables in the order of their names: dense/bias, dense/kernel, embedding, filters_2/bias, filters_2/kernel, ...
    shapes = [[2], [8, 2], [9, 3], [4], [2 * 3, 4], [4], [3 * 3, 4]]
    bias, kernel, embedding, *filters = [value(i, shape) for i, shape in enumerate(shapes)]
    vectors = embedding[text] if text else np.zeros([0, 3])
    maxima = []
    for width, filter_bias, filter_kernel in ((2, *filters[:2]), (3, *filters[2:])):
        padded = np.concatenate([vectors, np.zeros([max(width - len(text), 0), 3])])
        windows = [padded[i : i + width] for i in range(len(padded) - width + 1)]
        maxima.append(np.max([np.maximum(window.ravel() @ filter_kernel + filter_bias, 0) for window in windows], 0))
    logits = np.concatenate(maxima) @ kernel + bias
    return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()


def test_the_network_is_that_of_numpy_however_long_the_padding(session):
    ids = tf.placeholder(tf.int32, [None, None])
    probabilities = predict(ids)
    for i, variable in enumerate(sorted(tf.global_variables(), key=lambda variable: variable.name)):
        variable.load(value(i, variable.shape), session)
    for texts, length in ((TEXTS, 9), (TEXTS, 5), ([[7], []], 1), ([[], []], 0)):  # Down to shorter than every filter.
        found = session.run(probabilities, {ids: pad(texts, length)})
        np.testing.assert_allclose(found, [in_numpy(text) for text in texts], rtol=1e-4)


def test_text_cnn_learns_the_order_of_two_words(tmp_path):
    random = np.random.RandomState(0)
    texts, labels = [], np.arange(64, dtype=np.int32) % 2
    for label in labels:
        words = list(random.randint(3, 9, random.randint(0, 8)))
        place = random.randint(0, len(words) + 1)
        texts.append(words[:place] + ([1, 2] if label else [2, 1]) + words[place:])
    text = 'embedding_size=8,num_filters=8,learning_rate=0.02,label_smoothing=0.1'
    metrics, predictions = train(tmp_path, text_cnn, {'text': pad(texts, 10)}, {'label': labels}, 100, text, METADATA)
    assert metrics['accuracy'] == metrics['auc'] == 1 and list(predictions['class']) == list(labels)

"""The model text_tagger: padding and towers change nothing, and its loss is that of its probabilities."""

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.training.parallel import make_parallel
from estimator_trainer.models import text_tagger
from tests.evaluated import CPUS, variable_values
from tests.models.shared import ModeKeys, make_params

TAGS = ['B-X', 'I-X', 'O']
METADATA = {'vocabulary_size': 9, 'tags': TAGS, 'num_classes': 3, 'mean_length': 2.5}
IDS = np.array([[2, 3, 1, 0], [4, 0, 0, 0], [8, 7, 6, 5], [1, 1, 0, 0], [2, 0, 0, 0]], np.int32)
LENGTHS = [3, 1, 4, 2, 1]
TOKENS = np.array(
    [
        [
            f'w{row}{i}' * (1 + 9 * (i == 1)) if i < length else '' for i in range(4)
        ]  # Some are longer than what is read of them.
        for row, length in enumerate(LENGTHS)
    ],
    object,
)


def compute(ids, tokens, tags=None, mode=None, devices=(), text='character_filters=5'):
    """Returns the predictions and the loss of a model with fixed weights."""
    params = make_params(text_tagger, f'rnn_units=4,embedding_size=3,num_classes=3,{text}', METADATA)
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 3})) as session:
        features = {'text': tf.placeholder_with_default(ids, [None, None])}
        features['tokens'] = tf.placeholder_with_default(tf.constant(tokens), [None, None])
        labels = None if tags is None else {'tags': tf.placeholder_with_default(tags, [None, None])}
        mode = mode or (ModeKeys.PREDICT if tags is None else ModeKeys.EVAL)
        outputs = make_parallel(
            lambda features, labels: text_tagger.model(features, labels, mode, params),
            devices,
            features=features,
            labels=labels,
        )
        tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        for i, variable in enumerate(sorted(tf.trainable_variables(), key=lambda variable: variable.name)):
            variable.load((variable_values(i, variable.shape) - 1) * 3, session)
        return session.run([output for output in outputs if output is not None])


def test_padding_changes_no_prediction_and_is_predicted_as_nothing():
    (together,) = compute(IDS, TOKENS)
    assert len({*together['tags'][together['tags'] != b'']}) > 1
    for row, length in enumerate(LENGTHS):
        (alone,) = compute(IDS[row : row + 1, :length], TOKENS[row : row + 1, :length])
        assert together['tags'][row].tolist() == alone['tags'][0].tolist() + [b''] * (4 - length)
        np.testing.assert_allclose(together['probabilities'][row, :length], alone['probabilities'][0], rtol=1e-5)
        assert not together['probabilities'][row, length:].any()
    assert together['tokens'].tolist() == np.char.encode(TOKENS.astype(str)).tolist()


def test_the_loss_is_the_sum_over_a_sentences_tokens_also_in_towers():
    (predictions,) = compute(IDS, TOKENS)
    tags = np.array([[TAGS.index(tag.decode()) if tag else 1 for tag in row] for row in predictions['tags']], np.int32)
    expected = [-np.log(row[:length]).sum() / 2.5 for row, length in zip(predictions['probabilities'], LENGTHS)]
    for devices in ((), CPUS):
        found, loss = compute(IDS, TOKENS, tags, devices=devices)
        np.testing.assert_allclose(loss, expected, rtol=1e-4)
        assert all((found['tag_ids'][row, :n] == tags[row, :n]).all() for row, n in enumerate(LENGTHS))


def test_training_drops_words_and_characters_can_be_left_out():
    tags = np.zeros_like(IDS)
    _, loss = compute(IDS, TOKENS, tags, text='character_filters=5,drop_rate=0')
    _, dropped = compute(IDS, TOKENS, tags, ModeKeys.TRAIN, text='drop_rate=0,word_drop_rate=0.9')
    _, unknown = compute(np.minimum(IDS, 1), TOKENS, tags, text='character_filters=5,drop_rate=0')
    assert not np.allclose(loss, unknown) and not np.allclose(loss, dropped)
    other = np.where(TOKENS == '', '', 'x').astype(object)
    assert not np.allclose(compute(IDS, other, tags, text='character_filters=5')[1], loss)
    alike = [compute(IDS, tokens, tags, text='character_filters=0')[1] for tokens in (TOKENS, other)]
    np.testing.assert_array_equal(*alike)

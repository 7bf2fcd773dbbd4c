"""Scores of spans, worked out by hand, and compared with those of seqeval where it is installed."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import spans
from estimator_trainer.common.training.parallel import make_parallel
from tests.evaluated import CPUS


def evaluate(labels, predictions, batch=3, devices=()):
    """Returns (precision, recall, f1) of sentences of tags, in batches that are padded with a tag of a span."""
    names = sorted({tag for sentence in [*labels, *predictions] for tag in sentence})
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 3})) as session:
        feeds = {name: tf.placeholder(tf.int32, [None, None]) for name in ('labels', 'predictions')}
        lengths = tf.placeholder(tf.int32, [None])
        gathered = make_parallel(lambda predictions: predictions * 1, devices, predictions=feeds['predictions'])
        metrics = spans.span_metrics(feeds['labels'], gathered, lengths, names)
        session.run(tf.local_variables_initializer())
        for start in range(0, len(labels), batch):
            sizes = [len(sentence) for sentence in labels[start : start + batch]]
            padded = [np.zeros([len(sizes), max(sizes) + 1], np.int32) for _ in range(2)]
            for array, sentences in zip(padded, (labels, predictions)):
                for row, sentence in zip(array, sentences[start : start + batch]):
                    row[: len(sentence)] = [names.index(tag) for tag in sentence]
            feed = {feeds['labels']: padded[0], feeds['predictions']: padded[1], lengths: sizes}
            session.run([update for _, update in metrics.values()], feed)
        values = session.run({name: value for name, (value, _) in metrics.items()})
        return [values[f'span_{name}'] for name in ('precision', 'recall', 'f1')]


def split(*sentences):
    return [sentence.split() for sentence in sentences]


@pytest.mark.parametrize(
    'labels, predictions, right, predicted, labeled',
    [
        ('B-X I-X O B-Y', 'B-X I-X O B-Y', 2, 2, 2),
        ('B-X I-X O B-Y', 'B-X O O B-X', 0, 2, 2),  # A wrong end, and a wrong type.
        ('B-X I-X I-X', 'B-X B-X I-X', 0, 2, 1),
        ('B-X I-X O', 'I-X I-X O', 1, 1, 1),  # I after O begins a span, as in IOB1.
        ('I-X I-Y O', 'B-X B-Y O', 2, 2, 2),  # I of another type begins one.
        ('I-X B-X I-X', 'B-X B-X I-X', 2, 2, 2),  # IOB1: B begins one beside another of its type.
        ('B-X E-X S-X', 'B-X I-X S-X', 2, 2, 2),
        ('B-X E-X E-X', 'B-X I-X S-X', 2, 2, 2),  # E after E begins one.
        ('S-X I-X O', 'S-X B-X O', 2, 2, 2),
        ('B-X L-X U-Y', 'B-X E-X S-Y', 2, 2, 2),
        ('B M E S', 'B M E B', 2, 2, 2),  # Of words in Chinese, without types.
        ('O O', 'O B-X', 0, 1, 0),
        ('B-X O', 'O O', 0, 0, 1),
    ],
)
def test_spans_counted_by_hand(labels, predictions, right, predicted, labeled):
    ratio = [right / max(predicted, 1), right / max(labeled, 1), 2 * right / max(predicted + labeled, 1)]
    np.testing.assert_allclose(evaluate(split(labels), split(predictions)), ratio, rtol=1e-6)


def test_a_span_ends_with_its_sentence_whatever_follows_as_padding():
    labels, predictions = split('O B-X', 'I-X O O', 'I-X', 'O B-X I-X'), split('O B-X', 'I-X O O', 'I-X', 'B-X I-X I-X')
    np.testing.assert_allclose(evaluate(labels, predictions), [3 / 4] * 3)


SCHEMES = {'IOB': 'BI', 'BIOES': 'BIES', 'IO': 'I'}


@pytest.mark.parametrize('letters', SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize('devices', [[], CPUS])
def test_spans_of_random_tags_are_those_of_seqeval_also_of_batches_and_towers(letters, devices):
    seqeval = pytest.importorskip('seqeval.metrics')
    random = np.random.RandomState(0)
    names = ['O', *(f'{letter}-{kind}' for letter in letters for kind in ('PER', 'LOC'))]
    labels = [[names[i] for i in random.randint(0, len(names), size)] for size in random.randint(1, 12, 50)]
    keep = iter(random.uniform(size=1000))
    predictions = [[tag if next(keep) < 0.7 else random.choice(names) for tag in sentence] for sentence in labels]
    expected = [getattr(seqeval, f'{name}_score')(labels, predictions) for name in ('precision', 'recall', 'f1')]
    assert 0.1 < expected[2] < 0.9
    np.testing.assert_allclose(evaluate(labels, predictions, 7, devices), expected, rtol=1e-6)

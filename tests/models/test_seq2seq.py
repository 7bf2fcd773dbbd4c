"""The model seq2seq learns, and its parts are consistent."""

import json

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.training.parallel import make_parallel
from estimator_trainer.models import seq2seq
from tests.evaluated import CPUS
from tests.models.shared import ModeKeys, make_params, train

SOURCES = [b'27+5', b'', '\u00fc\u20ac'.encode(), b'123+456', b'9']
TARGETS = [b'32', b'abcd', b'', '\u00fc'.encode(), b'9']


def compute(sources, targets, mode=ModeKeys.EVAL, devices=(), text='beam_width=4', gradients=False):
    """Returns the predictions, the loss and, if asked for, the gradients of a model with fixed random weights."""
    params = make_params(seq2seq, f'rnn_units=16,embedding_size=8,max_target_length=6,{text}')
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 3})) as session:
        features = {'source': tf.placeholder_with_default(sources, [None])}
        labels = None if targets is None else {'target': tf.placeholder_with_default(targets, [None])}
        outputs = make_parallel(
            lambda features, labels: seq2seq.model(features, labels, mode, params), devices, features=features, labels=labels
        )
        variables = sorted(tf.trainable_variables(), key=lambda variable: variable.name)
        if gradients:
            outputs += (tf.gradients(tf.reduce_mean(outputs[1]), variables),)
        initial = {}  # Fed, since each run of other tensors optimizes the graph anew.
        for i, variable in enumerate(variables):
            values = initial[variable.initializer.inputs[1]] = np.random.RandomState(i).normal(size=variable.shape)
            if variable.name.endswith('tokens/bias:0'):
                values[seq2seq.END] += 6  # So that texts end.
        session.run([variable.initializer for variable in variables], initial)
        return session.run([output for output in outputs if output is not None])


def ended(texts):
    """Returns the indices of untruncated texts; asserts that there are some."""
    whole = [i for i, text in enumerate(texts) if len(text) < 6]
    assert len(whole) >= 2
    return whole


def test_the_beam_is_sorted_and_its_log_probabilities_are_minus_the_losses_and_training_predicts_the_greedy_one():
    (predictions,) = compute(SOURCES, None, ModeKeys.PREDICT)
    assert (np.diff(predictions['log_probs']) <= 0).all() and list(predictions['source']) == SOURCES
    for targets, target in zip(predictions['targets'], predictions['target']):
        assert targets[0] == target and len(set(targets)) == 4
    whole = ended(predictions['target'])
    _, loss = compute(SOURCES, list(predictions['target']))
    np.testing.assert_allclose(-loss[whole], predictions['log_probs'][whole, 0], rtol=1e-4)
    (penalized,) = compute(SOURCES, None, ModeKeys.PREDICT, text='length_penalty=1')
    assert (penalized['targets'] != predictions['targets']).any()
    # Training predicts what a greedy search finds.
    greedy = compute(SOURCES, None, ModeKeys.PREDICT, text='beam_width=1')[0]['target']
    whole = ended(greedy)
    predictions, _ = compute(SOURCES, greedy, ModeKeys.TRAIN)
    assert list(predictions['target'][whole]) == list(greedy[whole])


def test_an_example_does_not_depend_on_how_long_the_others_are_nor_loss_and_gradients_on_towers():
    expected, found = (compute(SOURCES, TARGETS, devices=devices, gradients=True) for devices in ((), CPUS[:2]))
    alone = [compute([source], [target])[1][0] for source, target in zip(SOURCES[:3], TARGETS)]
    np.testing.assert_allclose(expected[1][:3], alone, rtol=1e-4)
    assert len(expected[2]) == 21 and all(np.abs(np.asarray(getattr(g, 'values', g))).max() > 0 for g in expected[2])
    assert list(found[0]['target']) == list(expected[0]['target'])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)
    for a, b in zip(found[2], expected[2]):
        if not isinstance(a, np.ndarray):  # The embedding's is sparse.
            a, b = (np.stack([g.values[g.indices == i].sum(0) for i in range(256)]) for g in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_texts_become_bytes_and_come_back_up_to_their_first_end(session):
    ids = seq2seq.to_ids(tf.constant(SOURCES), 7)
    values, texts, ended = session.run([ids, seq2seq.to_text(ids), seq2seq.to_text(tf.constant([[65, 0, 66], [0, 0, 66]]))])
    assert values[0].tolist() == [50, 55, 43, 53, 0, 0, 0]
    assert list(texts) == SOURCES and list(ended) == [b'A', b'']


def test_seq2seq_learns_to_write_texts_backwards(tmp_path):
    sources = np.array([a + b for a in ('a', 'b', 'cd') for b in ('e', 'gh')])
    targets = np.array([source[::-1] for source in sources])
    text = 'rnn_units=64,embedding_size=16,learning_rate=0.02,max_target_length=5,beam_width=2'
    metrics, predictions = train(tmp_path, seq2seq, {'source': sources}, {'target': targets}, 80, text)
    assert metrics['exact_match'] == 1 and metrics['loss'] < 0.5
    assert [target.decode() for target in predictions['target']] == list(targets)


def test_the_search_may_change_after_training_but_not_the_network(run, tmp_path):
    flags = ('--model=seq2seq', '--dataset=addition')
    hparams = '--hparams=num_examples=100,rnn_units=8'
    assert run(*flags, hparams, '--train_steps=1', '--schedule=train')[0] == 0
    code, result, _ = run(*flags, f'{hparams},beam_width=2,length_penalty=1,max_target_length=3', '--schedule=predict')
    lines = [json.loads(line) for line in open(result['predictions'])]
    assert code == 0 and {len(line['targets']) for line in lines} == {2} and all(len(line['target']) <= 3 for line in lines)
    assert json.load(open(tmp_path / 'output' / 'hparams.json'))['beam_width'] == 4
    code, _, err = run(*flags, '--hparams=num_examples=100,rnn_units=9', '--schedule=predict')
    assert code == 2 and 'rnn_units was 8, now it is 9' in err

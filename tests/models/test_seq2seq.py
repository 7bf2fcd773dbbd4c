"""The model seq2seq: it learns to add, and its parts agree with one another."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.training.parallel import make_parallel
from hparams import build
from models import seq2seq
from tests.evaluated import CPUS

pytestmark = pytest.mark.slow

ModeKeys = tf.estimator.ModeKeys
PARAMS = build.make_hparams('seq2seq', seq2seq.get_params(), 'd', {}, text='rnn_units=16,embedding_size=8,max_target_length=6')
SOURCES = [b'27+5', b'', '\u00fc\u20ac'.encode(), b'123+456', b'9']
TARGETS = [b'32', b'abcd', b'', '\u00fc'.encode(), b'9']


def compute(sources, targets, mode=ModeKeys.EVAL, devices=(), params=PARAMS, gradients=False):
    """Returns the predictions, the loss and, if asked for, the gradients of a model with fixed random weights."""
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


def test_the_log_probability_of_the_beam_is_minus_the_loss_of_what_it_wrote():
    (predictions,) = compute(SOURCES, None, ModeKeys.PREDICT)
    written = list(predictions['target'])
    _, loss = compute(SOURCES, written)
    whole = [i for i, target in enumerate(written) if len(target) < 6]  # The others were cut before their end.
    assert len(whole) >= 2
    np.testing.assert_allclose(-loss[whole], predictions['log_probs'][whole, 0], rtol=1e-4)


def test_the_beam_is_sorted_and_has_no_text_twice():
    (predictions,) = compute(SOURCES, None, ModeKeys.PREDICT)
    assert (np.diff(predictions['log_probs']) <= 0).all()
    for targets, target in zip(predictions['targets'], predictions['target']):
        assert targets[0] == target and len(set(targets)) == 4
    assert list(predictions['source']) == SOURCES


def test_training_predicts_what_a_greedy_search_finds():
    params = build.make_hparams('seq2seq', PARAMS, 'd', {}, text='beam_width=1')
    greedy = compute(SOURCES, None, ModeKeys.PREDICT, params=params)[0]['target']
    whole = [i for i, target in enumerate(greedy) if len(target) < 6]
    assert len(whole) >= 2
    predictions, _ = compute(SOURCES, greedy, ModeKeys.TRAIN)
    assert list(predictions['target'][whole]) == list(greedy[whole])


def test_an_example_does_not_depend_on_how_long_the_others_are():
    _, together = compute(SOURCES, TARGETS)
    alone = [compute([source], [target])[1][0] for source, target in zip(SOURCES, TARGETS)]
    np.testing.assert_allclose(together, alone, rtol=1e-4)


@pytest.mark.parametrize('mode', [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_towers_give_seq2seq_the_loss_and_gradients_of_none(mode):
    expected = compute(SOURCES, TARGETS, mode, gradients=True)
    found = compute(SOURCES, TARGETS, mode, CPUS, gradients=True)
    assert len(expected[2]) == 21 and all(np.abs(np.asarray(getattr(g, 'values', g))).max() > 0 for g in expected[2])
    assert list(found[0]['target']) == list(expected[0]['target'])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)
    for a, b in zip(found[2], expected[2]):
        if not isinstance(a, np.ndarray):  # The embedding's is sparse.
            a, b = (np.stack([g.values[g.indices == i].sum(0) for i in range(256)]) for g in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_texts_become_bytes_and_come_back(session):
    ids = seq2seq._to_ids(tf.constant(SOURCES), 7)
    values, texts = session.run([ids, seq2seq._to_text(ids)])
    assert values[0].tolist() == [50, 55, 43, 53, 0, 0, 0]
    assert list(texts) == SOURCES


def test_a_text_ends_at_its_first_end(session):
    assert session.run(seq2seq._to_text(tf.constant([[65, 0, 66], [0, 0, 66]]))).tolist() == [b'A', b'']


def test_seq2seq_learns_to_add(run, tmp_path):
    flags = ('--model=seq2seq', '--dataset=addition')
    hparams = '--hparams=max_digits=2,num_examples=20000,rnn_units=64,learning_rate=0.01'
    code, result, _ = run(*flags, hparams, '--train_steps=1800', '--save_checkpoints_steps=1800')
    assert code == 0 and result['eval']['exact_match'] >= 0.75  # Seeds give 0.8 to 0.95.
    code, result, _ = run(*flags, hparams, '--schedule=predict')
    lines = [json.loads(line) for line in open(result['predictions'])]
    sums = [sum(map(int, line['source'].split('+'))) for line in lines]
    assert len(lines) == 1000
    assert np.mean([line['target'] == str(expected) for line, expected in zip(lines, sums)]) >= 0.75
    assert all(len(line['targets']) == 4 for line in lines)
    code, result, _ = run(*flags, hparams + ',beam_width=2', '--schedule=predict')
    assert code == 0 and {len(json.loads(line)['targets']) for line in open(result['predictions'])} == {2}
    assert json.load(open(tmp_path / 'output' / 'hparams.json'))['beam_width'] == 4
    code, _, err = run(*flags, hparams.replace('64', '32'), '--schedule=predict')
    assert code == 2 and 'rnn_units was 64, now it is 32' in err
    code, _, err = run(*flags, hparams + ',beam_width=2', '--schedule=train')
    assert code == 2 and 'beam_width was 4, now it is 2' in err


def test_a_beam_width_out_of_bounds_is_one_line(run):
    code, _, err = run('--model=seq2seq', '--dataset=addition', '--schedule=dry_run', '--hparams=beam_width=0')
    assert code == 2 and err.splitlines()[-1] == 'trainer.py: beam_width=0 must be from 1 to 256'

"""The examples by which a step is not finite: named, with what is odd about them, and the others looked at without them."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.replay import culprits, written
from estimator_trainer.common.replay.examples import Example
from estimator_trainer.common.replay.inspection import Inspection
from estimator_trainer.common.replay.odd_values import odd_values
from estimator_trainer.common.replay.written import Replayed
from estimator_trainer.common.training import observed

SIZE = 6


@pytest.mark.parametrize('bad', [[], [3], [0, 1, 40, 99]])
def test_all_are_found_in_few_steps(bad):
    steps = []

    def is_finite(numbers):
        steps.append(numbers)
        return not {*bad} & {*numbers.tolist()}

    found = culprits.find(100, is_finite, range(100))
    assert found.found == bad if bad else found is None
    assert len(steps) <= 5 + 2 * 7 * len(bad)
    if bad:
        assert found.are_all and not {*bad} & {*found.others.tolist()}
        assert {*found.alone(bad[0]).tolist()} & {*bad} == {bad[0]}


def test_no_example_is_to_blame_if_none_alone_is_finite_or_only_several_are_not():
    assert culprits.find(8, lambda numbers: False, range(8)) is None
    assert culprits.find(8, lambda numbers: len({*numbers.tolist()}) < 8, range(8)) is None


def test_culprits_that_were_not_found_in_time_are_not_denied():
    found = culprits.find(8, lambda numbers: not {1, 6} & {*numbers.tolist()}, [0], iter([False] * 5 + [True] * 9).__next__)
    assert (found.found, found.are_all) == ([1], False)


def test_values_that_are_not_finite_or_far_are_named_in_the_units_of_the_data():
    numbers = np.tile([[-1, 0.5], [1, 0.25]], [3, 1]).astype(np.float32)
    numbers[1, 1], numbers[4, 0] = np.nan, 500
    pictures = np.tile(np.linspace(0, 1, 4, dtype=np.float32).reshape(1, 2, 2, 1), [SIZE, 1, 1, 1])
    pictures[2] *= 1000
    pictures[5, 0, 0] = -np.inf
    parts = {'numeric': [{'name': 'celsius', 'mean': 10, 'std': 2}, {'name': 'wind'}]}
    arrays = {
        'numeric': numbers,
        'image': pictures,
        'ids': np.arange(SIZE) ** 9,
        'label': np.float32([1, 2, 3, 400, 5, np.nan]),
    }
    assert odd_values(arrays, SIZE, parts) == [
        '',
        'wind is NaN',
        'image is 1000 in 3 of 4 values, the median of the batch is 0.6667',
        'label is 400, the median of the batch is 3',
        'celsius is 1010, the median of the batch is 12',
        'image is infinite in 1 of 4 values; label is NaN',
    ]


def test_a_sentence_names_the_first_odd_examples_and_values():
    arrays = {'x': np.tile(np.linspace(-1, 1, 8, dtype=np.float32)[:, None], [1, 5])}
    arrays['x'][2] = 1e6
    odd = odd_values(arrays, 8, {})
    assert odd[2].startswith('x[0] is 1e+06, the median of the batch is 0.') and odd[2].endswith('; and 2 more') and not odd[0]
    examples = [Example(f'e{i}', None, 1.0, 1.0, {}, 'y is NaN', False) for i in range(7)]
    found = written.odd_text(Replayed(1, 1.0, None, examples))
    assert found == f'Unlike the other examples: {", ".join(f"e{i} (y is NaN)" for i in range(5))} and 2 more.'
    assert written.odd_text(Replayed(1, 1.0, None, [one._replace(is_culprit=True) for one in examples])) == ''


def _inspect(x, y, function):
    """Returns the Inspected of a batch in a bare graph, whose losses are the squared errors of function(x, w)."""
    with tf.Graph().as_default(), tf.Session() as session:
        fed = [tf.placeholder(tf.float32, [SIZE, 2]), tf.placeholder(tf.float32, [SIZE])]
        w = tf.get_variable('w', initializer=[[1.0], [2.0]])
        loss = tf.square(function(fed[0], w)[:, 0] - fed[1])
        tf.add_to_collection(observed.EXAMPLE_LOSS, loss)
        spec = types.SimpleNamespace(loss=tf.reduce_mean(loss), predictions={}, train_op=tf.no_op())
        session.run(tf.global_variables_initializer())
        looked = Inspection(session, {'x': fed[0]}, {'y': fed[1]}, spec, {tensor.ref(): tensor for tensor in fed})
        return looked.step([x, y])


def _normalized(x, w):
    mean = tf.reduce_mean(x, 0)
    variance = tf.reduce_mean(x**2, 0) - mean**2
    return tf.matmul((x - mean) / tf.sqrt(variance + 1e-3), w)


RANDOM = np.random.RandomState(0)
X = RANDOM.uniform(-1, 1, [SIZE, 2]).astype(np.float32)
Y = RANDOM.uniform(-1, 1, SIZE).astype(np.float32)


@pytest.mark.parametrize('value', [np.nan, 1e30])  # The square of the latter is infinite.
def test_the_example_by_which_batch_norm_makes_all_losses_nan_is_found_and_the_others_are_seen_without_it(value):
    x = X.copy()
    x[3, 1] = value
    found = _inspect(x, Y, _normalized)
    assert np.isnan(found.losses[0]) and found.culprits.found == [3] and found.culprits.are_all
    replaced = x[found.culprits.others].astype(float)
    assert np.isfinite(replaced).all()
    normalized = (replaced - replaced.mean(0)) / np.sqrt(replaced.var(0) + 1e-3)
    expected = np.square(normalized @ [1, 2] - Y[found.culprits.others])
    others = [0, 1, 2, 4, 5]
    np.testing.assert_allclose(found.example_losses[others], expected[others], rtol=1e-4)
    assert np.isfinite(found.gradient_norms[others]).all() and np.isnan(found.example_losses[3])


def test_without_batch_norm_too_the_gradients_of_the_others_are_their_own():
    x, y = X.copy(), Y.copy()
    x[1, 0], y[4] = np.inf, np.nan
    found = _inspect(x, y, tf.matmul)
    assert found.culprits.found == [1, 4]
    for i in (0, 2, 3, 5):
        assert found.gradient_norms[i] == pytest.approx(np.linalg.norm(2 * X[i] * (X[i] @ [1, 2] - Y[i])), rel=1e-4)
    assert not np.isfinite(found.gradient_norms[[1, 4]]).any()


def test_the_sentence_names_the_culprits_or_says_that_none_were_found():
    inspected = types.SimpleNamespace(origin='x', culprits=types.SimpleNamespace(are_all=True))
    examples = [Example(name, None, 1.0, 1.0, {}, odd, bool(odd)) for name, odd in (('a', 'y is NaN'), ('b', ''))]
    found = written.blamed_text(Replayed(1, 1.0, inspected, examples))
    assert found == 'It is not finite because of a (y is NaN); without it, the step is finite.'
    inspected.culprits = types.SimpleNamespace(are_all=False)
    assert written.blamed_text(Replayed(1, 1.0, inspected, examples)).endswith('there are others, for which time ran out.')
    inspected.culprits = None
    assert written.blamed_text(Replayed(1, 1.0, inspected, [])) == 'No example was found without which it would be finite.'
    inspected.origin = None
    assert written.blamed_text(Replayed(1, 1.0, inspected, [])) == ''


def test_a_finite_step_has_no_culprits():
    assert _inspect(X, Y, _normalized).culprits is None


def test_no_example_is_to_blame_for_a_model_that_is_not_finite_for_any():
    assert _inspect(X, Y, lambda x, w: tf.log(-1 - tf.square(tf.matmul(x, w)))).culprits is None

"""Scores of an evaluation, compared with scikit-learn where it is installed, and with numbers worked out by hand."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import scores

SKLEARN = 'sklearn.metrics'


def evaluate(labels, predictions, weights=None, batch=7):
    """Returns {name: score} of batches of unequal size."""
    with tf.Graph().as_default(), tf.Session() as session:
        columns = {'label': labels, **({} if weights is None else {'weight': weights})}
        feeds = {name: tf.placeholder(column.dtype, [None, *column.shape[1:]]) for name, column in columns.items()}
        kind = 'probabilities' if predictions.ndim == 2 else 'value'
        predicted = tf.placeholder(predictions.dtype, [None, *predictions.shape[1:]])
        found = scores.scores(feeds, {kind: predicted, 'predicted' if labels.ndim == 2 else 'class': None})
        session.run(tf.local_variables_initializer())
        for start in range(0, len(labels), batch):
            part = slice(start, start + batch)
            session.run(
                [update for _, update in found.values()],
                {predicted: predictions[part], **{feeds[name]: column[part] for name, column in columns.items()}},
            )
        return session.run({name: value for name, (value, _) in found.items()})


def classes(count, examples, seed=0):
    """Returns labels, and probabilities that are right more often than not."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, count, examples)
    logits = random.normal(size=[examples, count]) + 1.5 * np.eye(count)[labels]
    return labels, (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize('count', [2, 3, 7])
@pytest.mark.parametrize('is_weighted', [False, True])
def test_scores_of_classes_are_those_of_scikit_learn(count, is_weighted):
    sklearn = pytest.importorskip(SKLEARN)
    labels, probabilities = classes(count, 400)
    weights = np.random.RandomState(1).uniform(0, 3, 400).astype(np.float32) if is_weighted else None
    predicted, of_one = probabilities.argmax(1), probabilities[:, 1]
    given = {'sample_weight': weights}
    expected = {
        'accuracy': sklearn.accuracy_score(labels, predicted, **given),
        'log_loss': sklearn.log_loss(labels, probabilities, **given),
        'balanced_accuracy': sklearn.balanced_accuracy_score(labels, predicted, **given),
        'f1_macro': sklearn.f1_score(labels, predicted, average='macro', **given),
    }
    if count == 2:
        precision, recall, thresholds = sklearn.precision_recall_curve(labels, of_one, **given)
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
        expected |= {
            'precision': sklearn.precision_score(labels, predicted, **given),
            'recall': sklearn.recall_score(labels, predicted, **given),
            'f1': sklearn.f1_score(labels, predicted, **given),
            'auc': sklearn.roc_auc_score(labels, of_one, **given),
            'average_precision': sklearn.average_precision_score(labels, of_one, **given),
            'best_f1': f1.max(),
            'best_f1_threshold': thresholds[f1.argmax()],
            'best_f1_precision': precision[f1.argmax()],
            'best_f1_recall': recall[f1.argmax()],
        }
    else:
        is_class = np.eye(count)[labels]
        expected['auc'] = np.mean([sklearn.roc_auc_score(is_class[:, i], probabilities[:, i], **given) for i in range(count)])
        expected['average_precision'] = sklearn.average_precision_score(is_class, probabilities, **given)
    if count > 5:
        expected['top_5_accuracy'] = sklearn.top_k_accuracy_score(labels, probabilities, k=5, **given)
    found = evaluate(labels, probabilities, weights)
    assert set(found) - set(expected) == {'calibration_error'}
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize('is_weighted', [False, True])
@pytest.mark.parametrize('scale, shift', [(1.0, 0.0), (200000.0, 1e6), (1e-6, 0.0), (1.0, 1e9)])
def test_scores_of_numbers_are_those_of_scikit_learn(is_weighted, scale, shift):
    sklearn = pytest.importorskip(SKLEARN)
    random = np.random.RandomState(0)
    labels = random.normal(size=301) * scale + shift
    predictions = labels + random.normal(size=301) * scale / 2
    weights = random.uniform(0, 3, 301).astype(np.float32) if is_weighted else None
    given = {'sample_weight': weights}
    expected = {
        'mean_absolute_error': sklearn.mean_absolute_error(labels, predictions, **given),
        'rmse': sklearn.mean_squared_error(labels, predictions, **given) ** 0.5,
        'r2': sklearn.r2_score(labels, predictions, **given),
        'median_absolute_error': sklearn.median_absolute_error(labels, predictions),
        'mape': sklearn.mean_absolute_percentage_error(labels, predictions, **given),
    }
    assert evaluate(labels, predictions, weights) == pytest.approx(expected, rel=1e-3)


def test_scores_worked_out_by_hand():
    labels = np.array([1, 1, 0, 0, 1])
    probabilities = np.array([[0.2, 0.8], [0.4, 0.6], [0.3, 0.7], [0.9, 0.1], [0.6, 0.4]], np.float32)
    expected = {
        'accuracy': 3 / 5,
        'precision': 2 / 3,
        'recall': 2 / 3,
        'f1': 2 / 3,
        'f1_macro': (1 / 2 + 2 / 3) / 2,
        'balanced_accuracy': (1 / 2 + 2 / 3) / 2,
        'auc': 4 / 6,  # Of six pairs, 0.6 and 0.4 are below 0.7.
        'average_precision': (1 + 2 / 3 + 3 / 4) / 3,
        'best_f1': 6 / 7,  # All above 0.1: three right ones, and a wrong one.
        'best_f1_threshold': 0.4,
        'best_f1_precision': 3 / 4,
        'best_f1_recall': 1,
        'log_loss': -np.log([0.8, 0.6, 0.3, 0.9, 0.4]).mean(),
        'calibration_error': (0.2 + abs(1 - 1.2) + 0.7 + 0.1) / 5,  # 0.6 twice in a range, one of them right.
    }
    assert evaluate(labels, probabilities, batch=2) == pytest.approx(expected, abs=2e-3)
    found = evaluate(np.array([1, 2, 4, 7], np.float32), np.array([1, 3, 6, 3], np.float32), batch=3)
    assert found == pytest.approx(
        {
            'mean_absolute_error': 7 / 4,
            'rmse': (21 / 4) ** 0.5,
            'r2': 1 - 21 / 21,
            'median_absolute_error': 1.5,
            'mape': (0 + 1 / 2 + 2 / 4 + 4 / 7) / 4,
        },
        rel=1e-3,
        abs=1e-6,
    )


@pytest.mark.parametrize('is_weighted', [False, True])
def test_scores_of_labels_are_those_of_scikit_learn(is_weighted):
    sklearn = pytest.importorskip(SKLEARN)
    random = np.random.RandomState(0)
    labels = random.binomial(1, [0.5, 0.1, 0.8], [301, 3])
    probabilities = np.float32(1 / (1 + np.exp(-random.normal(size=[301, 3]) - 2 * labels + 1)))
    weights = random.uniform(0, 3, 301).astype(np.float32) if is_weighted else None
    given, predicted = {'sample_weight': weights}, probabilities >= 0.5
    losses = [sklearn.log_loss(labels[:, i], probabilities[:, i].astype(float), **given) for i in range(3)]
    expected = {
        'accuracy': np.mean([sklearn.accuracy_score(labels[:, i], predicted[:, i], **given) for i in range(3)]),
        'exact_match': sklearn.accuracy_score(labels, predicted, **given),
        'log_loss': np.mean(losses),
        'f1_micro': sklearn.f1_score(labels, predicted, average='micro', **given),
        'f1_macro': sklearn.f1_score(labels, predicted, average='macro', **given),
        'auc': sklearn.roc_auc_score(labels, probabilities, average='macro', **given),
        'average_precision': sklearn.average_precision_score(labels, probabilities, average='macro', **given),
    }
    assert evaluate(labels, probabilities, weights) == pytest.approx(expected, abs=1e-3)


def test_scores_of_labels_worked_out_by_hand_leave_out_a_label_that_never_occurs():
    labels = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    probabilities = np.array([[0.9, 0.2, 0.1], [0.6, 0.4, 0.2], [0.8, 0.7, 0.3]], np.float32)
    expected = {
        'accuracy': 7 / 9,
        'exact_match': 2 / 3,
        'f1_micro': 6 / 8,  # Three right ones; four apply, four are predicted.
        'f1_macro': (4 / 5 + 2 / 3) / 2,
        'auc': 1,
        'average_precision': 1,
        'log_loss': -np.log([0.9, 0.8, 0.9, 0.4, 0.4, 0.8, 0.8, 0.7, 0.7]).mean(),
    }
    assert evaluate(labels, probabilities, batch=2) == pytest.approx(expected, abs=1e-3)
    many = np.tile(probabilities, 34)  # Of more than a hundred labels, no ranks are kept.
    assert evaluate(np.tile(labels, 34), many).keys() == expected.keys() - {'auc', 'average_precision'}


def test_the_scores_of_each_of_several_targets_end_with_its_key():
    with tf.Graph().as_default():
        alone = {'a': ['f1', 'auc'], 'b': ['rmse', 'mape']}
        labels = {'label_a': tf.constant([0, 1]), 'label_b': tf.constant([1.0, 2.0]), 'weight': tf.constant([1.0, 1.0])}
        given = {'class_a': labels['label_a'], 'probabilities_a': tf.eye(2), 'value_b': labels['label_b']}
        found = scores.scores(labels, given)
    assert {f'{name}_{key}' for key, names in alone.items() for name in names} < found.keys()
    assert all(name.endswith(('_a', '_b')) for name in found)


def test_a_percentage_error_is_undefined_where_a_label_is_zero():
    assert np.isnan(evaluate(np.array([1.0, 0.0]), np.array([1.0, 0.0]))['mape'])
    assert np.isnan(evaluate(np.array([1.0, 0.0]), np.array([1.0, 2.0]))['mape'])


def test_probabilities_may_be_of_any_precision():
    labels, probabilities = classes(7, 50)
    found = evaluate(labels, probabilities.astype(np.float64))
    assert found == pytest.approx(evaluate(labels, probabilities), abs=1e-6)


def test_certain_probabilities_keep_their_order_and_weights_of_zero_leave_examples_out():
    labels, certain = np.array([0, 1, 0, 1]), np.array([[1, 1e-30], [1, 1e-20], [1, 1e-38], [1e-30, 1]], np.float32)
    assert evaluate(labels, certain)['auc'] == 1
    assert evaluate(labels, certain)['log_loss'] == pytest.approx(-np.log(np.finfo(np.float32).eps) / 4, rel=1e-4)
    labels, probabilities = classes(3, 40)
    weights = np.float32(np.arange(40) < 25)
    assert evaluate(labels, probabilities, weights) == pytest.approx(evaluate(labels[:25], probabilities[:25]), abs=1e-6)


def test_of_equal_probabilities_the_first_five_are_the_top_ones():
    probabilities = np.float32([[1, 0, 0, 0, 0, 0, 0]] * 7)
    assert evaluate(np.arange(7), probabilities)['top_5_accuracy'] == pytest.approx(5 / 7)
    assert evaluate(np.arange(7), np.full([7, 7], np.nan, np.float32))['top_5_accuracy'] == 0


def test_classes_that_do_not_occur_do_not_count_and_what_is_undefined_is_nan():
    labels, probabilities = classes(4, 60)
    kept = labels < 2
    found = evaluate(labels[kept], probabilities[kept])
    recalls = [(probabilities[labels == i].argmax(1) == i).mean() for i in range(2)]
    assert found['balanced_accuracy'] == pytest.approx(np.mean(recalls)) and 0.5 < found['auc'] < 1
    found = evaluate(np.ones(5, int), classes(2, 5)[1])
    assert np.isnan(found['auc']) and found['average_precision'] == 1
    for label in (1, 0, 0.1, 3.3, 1.7e9):
        assert np.isnan(evaluate(np.full(11, float(label)), np.arange(11.0))['r2'])


def test_predictions_of_another_form_have_no_scores():
    label, number = tf.zeros([4], tf.int32), tf.zeros([4])
    for labels, predictions in (
        ({}, {'probabilities': tf.zeros([4, 2])}),
        ({'label': label}, {}),
        ({'label': label}, {'probabilities': tf.zeros([4, 2])}),  # Perhaps not of the label.
        ({'label': number}, {'probabilities': tf.zeros([4, 2])}),
        ({'label': label[:, None]}, {'probabilities': tf.zeros([4, 2])}),
        ({'label': label}, {'probabilities': tf.zeros([4])}),
        ({'label': label}, {'probabilities': tf.zeros([4, 1])}),
        ({'label': number}, {'value': tf.zeros([4, 1])}),
    ):
        assert scores.scores(labels, predictions) == {}


def test_scores_of_forecasts_are_those_of_numpy_and_of_their_baselines_over_unequal_batches():
    random = np.random.RandomState(0)
    labels, values = random.normal(100, 20, [2, 17, 5]).astype(np.float32)
    baselines = random.normal(100, 20, [17, 2, 5]).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = {
            'label': tf.placeholder(tf.float32, [None, 5]),
            'baselines': tf.placeholder(tf.float32, [None, 2, 5]),
        }
        value = tf.placeholder(tf.float32, [None, 5])
        found = scores.scores(feeds, {'value': value})
        session.run(tf.local_variables_initializer())
        for part in (slice(0, 7), slice(7, 16), slice(16, 17), slice(17, 17)):
            given = {feeds['label']: labels[part], feeds['baselines']: baselines[part], value: values[part]}
            session.run([update for _, update in found.values()], given)
        result = session.run({name: score for name, (score, _) in found.items()})
    expected = {}
    for name, forecast in (('', values), ('_last_value', baselines[:, 0]), ('_last_season', baselines[:, 1])):
        errors = forecast.astype(float) - labels
        expected |= {f'mean_absolute_error{name}': np.abs(errors).mean(), f'rmse{name}': np.sqrt((errors**2).mean())}
    assert result == pytest.approx(expected, rel=1e-9)

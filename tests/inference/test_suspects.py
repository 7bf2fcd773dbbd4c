"""Suspects: areas under the margin, their ranking, and suspects.csv."""

import numpy as np

from estimator_trainer.common.inference import suspects
from estimator_trainer.common.inference.outcome import outcome
from estimator_trainer.common.inference.prediction import Prediction


def scored(score, label, shares, **fields):
    values = {'class': np.int64(np.argmax(shares)), 'probabilities': np.float32(shares)}
    return suspects.Scored(score, Prediction(fields, values, label=label), outcome(values), None)


def test_an_area_is_the_mean_of_an_examples_margins_over_the_epochs():
    numbers = [np.array([[2, 0], [1, 1]]), np.array([[0, 2]]), np.array([[1, 4]])]
    margins = np.float16([1, 2, 3, np.nan, 4, 5, 6])  # Of the last step, only one is known.
    np.testing.assert_array_equal(suspects.areas(numbers, margins), [(2 + 4) / 2, (3 + 6) / 2, (1 + 5) / 2])
    found = suspects.areas([np.array([[3, 1]])], np.float16([7, np.nan]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 7])


def test_the_margin_of_a_fold_is_the_difference_of_the_logits():
    found = outcome({'class': np.int64(1), 'probabilities': np.exp([0.5, 2, 1]) / np.exp([0.5, 2, 1]).sum()})
    np.testing.assert_allclose([suspects.out_of_fold(found, i) for i in range(3)], [-1.5, 1, -1])


def test_the_lowest_scores_come_first_and_only_negative_ones_unless_a_number_is_asked_for(tmp_path):
    rows = [
        scored(0.5, 0, [0.9, 0.1], example=0),
        scored(-1.0, 1, [0.75, 0.25], example=1),
        scored(float('nan'), 1, [0.5, 0.5], example=2),
        scored(-2.0, 0, [0.25, 0.75], example=3),
    ]
    ranked = suspects.rank(rows, 0)
    assert [one.fields['example'] for one in ranked.suspects] == [3, 1] and ranked.total == 4
    assert [one.score for one in ranked.shown] == [-2, -1]
    assert [one.score for one in suspects.rank(rows, 3).suspects] == [-2, -1, 0.5]
    assert [one.score for one in suspects.rank(rows, 1).shown] == [-2]
    path = str(tmp_path / 'suspects.csv')
    suspects.save(path, ranked.suspects, ['no', 'yes'])
    lines = (tmp_path / 'suspects.csv').read_text().splitlines()
    assert lines[:2] == ['example,label,predicted,probability_of_label,score,corrected', '3,no,yes,0.25,-2,']
    first = {'example': 3, 'label': 'no', 'predicted': 'yes', 'probability_of_label': 0.25, 'score': -2.0}
    assert suspects.read(path)[0] == first and suspects.is_untouched(path)


def test_a_file_from_which_somebody_has_deleted_rows_is_kept(tmp_path):
    path, old = tmp_path / 'suspects.csv', tmp_path / 'suspects.csv.old'
    found = suspects.rank([scored(-1.0, 1, [0.75, 0.25], example=i) for i in range(3)], 0).suspects
    for _ in range(2):
        suspects.save(str(path), found, None)
        assert not old.exists()
    edited = ''.join(path.read_text().splitlines(True)[:2])
    path.write_text(edited)
    for _ in range(2):
        suspects.save(str(path), found, None)
        assert old.read_text() == edited and len(path.read_text().splitlines()) == 4


def test_an_edited_file_is_known(tmp_path):
    path = tmp_path / 'suspects.csv'
    for text in ('example,label,score,corrected\n1,a,-1,b\n', 'example;label;score;corrected\n1;a;-1;\n', ''):
        path.write_text(text)
        assert not suspects.is_untouched(str(path))

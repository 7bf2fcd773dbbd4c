"""Predictions of a user's own model, which names them otherwise, have no figures of their task, and are no error."""

import numpy as np

from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.report import forecasts, predicted, tagged
from estimator_trainer.common.report.by_target import of_target

LABELS = {'task': 'multilabel', 'targets': [{'name': name, 'key': name, 'task': 'classification'} for name in 'ab']}


def test_labels_that_apply_or_not_are_collected_by_target_if_both_names_are_there():
    values = {'predicted': np.array([1, 0]), 'probabilities': np.array([0.75, 0.25])}
    found = of_target(Prediction({'example': 3}, values, label=np.array([1, 1])), LABELS, 1)
    assert (found.fields, int(found.values['class']), found.label) == ({'example': 3}, 0, 1)
    assert found.values['probabilities'].tolist() == [0.75, 0.25]
    for name in values:
        lacking = Prediction({}, {name: values[name]}, label=np.array([1, 1]))
        assert predicted.collect([of_target(lacking, LABELS, 0)], 0) is None


def test_tags_and_forecasts_without_their_names_are_left_out():
    own = Prediction({'example': 0}, {'labels': np.array([b'O'])}, label=np.array(['O']))
    assert not [*tagged.of_tokens([own], ['O'])] and [*tagged.Worst(5).watch([own])] == [own]
    own = Prediction({'group': 'a'}, {'forecast': np.zeros(3)}, label=np.zeros(3))
    assert forecasts.figures([own], {'season_length': 7}) is None

"""The predictions of several targets, apart."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.targets import is_multilabel, targets_of


def of_target(prediction: Prediction, metadata: Mapping[str, Any], place: int) -> Prediction:
    """Returns what is predicted of one of several targets and its label, named as those of a single target.

    A label that applies or not is of two classes, 0 and 1.
    """
    found, target = prediction.values, targets_of(metadata)[place]
    if not is_multilabel(metadata):
        values = {name: found[key] for name in ('class', 'probabilities', 'value') if (key := target.named(name)) in found}
        return Prediction(prediction.fields, values, label=(prediction.label or {}).get(target.named('label')))
    values = {}
    if 'predicted' in found and 'probabilities' in found:  # A model of the user's own may name them otherwise.
        p = found['probabilities'][place]
        values = {'class': found['predicted'][place], 'probabilities': np.array([1 - p, p])}
    return Prediction(prediction.fields, values, label=None if prediction.label is None else prediction.label[place])

"""The predictions of several targets, apart."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.targets import is_multilabel, targets_of


def of_targets(prediction: Prediction, metadata: Mapping[str, Any]) -> Iterator[Prediction]:
    """Yields, for each target, what is predicted of it and its label, named as those of a single target.

    A label that applies or not is of two classes, 0 and 1.
    """
    for place, target in enumerate(targets_of(metadata)):
        if is_multilabel(metadata):
            p = prediction.values['probabilities'][place]
            values = {'class': prediction.values['predicted'][place], 'probabilities': np.array([1 - p, p])}
            label = None if prediction.label is None else prediction.label[place]
        else:
            names = ('class', 'probabilities', 'value')
            values = {name: prediction.values[key] for name in names if (key := target.named(name)) in prediction.values}
            label = (prediction.label or {}).get(target.named('label'))
        yield Prediction(prediction.fields, values, label=label)

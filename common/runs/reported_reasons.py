"""Why a model was wrong: the words, or the places in a picture, that the mistakes of a report depend on."""

from collections.abc import Callable, Sequence
import time
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import printable
from estimator_trainer.common.inference import occlusion
from estimator_trainer.common.inference.outcome import outcome
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.inference.raw_predictor import example_predictor
from estimator_trainer.common.inference.signatures import feature_specs
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.report.mistakes import NO_REASON, Reason
from estimator_trainer.common.runs.experiment import Experiment

_SECONDS = 30  # After which no other mistake is explained.
_MAX_WORDS = 60

Explain = Callable[[Prediction, Any], Reason]


def explain(experiment: Experiment, checkpoint: str, worst: Sequence[Prediction], records: Sequence[Any]) -> list[Reason]:
    """Returns the reason for each mistake of a classifier of texts or pictures alone; NO_REASON for others.

    Args:
      records: those of the mistakes.
    """
    if not worst or outcome(worst[0].values).probabilities is None:
        return [NO_REASON] * len(worst)
    explain_one = _explain_text(experiment, checkpoint, records) or _explain_picture(experiment, checkpoint, worst)
    end = time.monotonic() + _SECONDS
    return [
        explain_one(prediction, record) if explain_one and time.monotonic() < end else NO_REASON
        for prediction, record in zip(worst, records)
    ]


def _explain_text(experiment, checkpoint, records) -> Explain | None:
    """Returns the function that explains a mistake of a model whose only input is a text; None for another."""
    name = _text_input(experiment.source)
    if not name or not all(isinstance(record, bytes) for record in records):
        return None
    predictor = example_predictor(experiment.estimator, experiment.source, checkpoint)

    def explain_one(prediction, record):
        example = tf.train.Example.FromString(record)
        found = example.features.feature[name].bytes_list.value
        words = found[0].decode(errors='replace').split() if found else []
        if len(words) < 2:
            return NO_REASON
        variants = []
        for text in occlusion.without_each(words, _MAX_WORDS):
            found[0] = text.encode()
            variants.append(example.SerializeToString())
        weights = _weights(predictor, {'examples': np.array(variants, object)}, prediction)
        rest = [('…', 0.0)] if len(words) > _MAX_WORDS else []
        return Reason([*zip(map(printable, words), weights.tolist()), *rest], None)

    return explain_one


def _text_input(source: DataSource) -> str:
    """Returns the name of the only raw input, if that is a text, or ''."""
    specs = source.raw_specs()
    found = [name for name, spec in specs.items() if spec.dtype == tf.string and spec.shape.rank == 1 and not spec.name]
    return found[0] if len(specs) == len(found) == 1 else ''


def _explain_picture(experiment, checkpoint, worst) -> Explain | None:
    """Returns the function that explains a mistake of a model whose only feature is a picture; None for another."""
    image = worst[0].image
    if image is None or image.ndim != 3 or image.shape[2] not in (1, 3):
        return None
    specs = feature_specs(experiment.source)
    if [*specs] != ['image']:
        return None
    predictor = Predictor(experiment.estimator, specs, checkpoint)

    def explain_one(prediction, record):
        return Reason([], _weights(predictor, {'image': occlusion.behind_patches(prediction.image)}, prediction))

    return explain_one


def _weights(predictor, inputs, prediction):
    """Returns the weights of parts, by inputs without each of them, for the class that was predicted."""
    found: Any = outcome(prediction.values)
    parts = predictor.predict(inputs)['probabilities'][:, found.class_id]
    return occlusion.weights(float(found.probabilities[found.class_id]), parts)

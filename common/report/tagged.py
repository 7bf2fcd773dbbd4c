"""The tags of tokens in a report: each token is an example of the figures, and the worst mistakes are sentences."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from estimator_trainer.common import tags
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.report import predicted
from estimator_trainer.common.report.mistakes import Mistake, place_of


def of_tokens(predictions: Iterable[Prediction], names: Sequence[str]) -> Iterator[Prediction]:
    """Yields a prediction of a class for each token of sentences, with the number of its tag as the label, if it is known."""
    numbers = {name: number for number, name in enumerate(names)}
    for prediction in filter(_is_tagged, predictions):
        for tag, label in zip(_tags(prediction), prediction.label or ()):
            yield Prediction({}, {'class': np.array(numbers[tag])}, label=numbers[label])


class Worst(predicted.Worst):
    """The sentences with the most wrong tags."""

    def watch(self, predictions: Iterable[Prediction]) -> Iterator[Prediction]:
        """Yields the same predictions."""
        for prediction in predictions:
            if wrong := _is_tagged(prediction) and len(_wrong(prediction)):
                self.add(wrong, prediction)
            yield prediction

    def mistakes(self) -> list[Mistake]:
        """Returns the sentences as the page shows them, with the labels and the predictions of the wrong tokens."""
        return [_describe(prediction) for _, prediction in self.ordered()]


def _is_tagged(prediction):
    """Whether a prediction has tags of tokens; a model of the user's own may name them otherwise."""
    return tags.are_predicted(prediction.values)


def _describe(prediction):
    found, wrong, tokens = _tags(prediction), _wrong(prediction), [*map(_text, prediction.values['tokens'])]
    labels, shown = (', '.join(f'{tokens[i]} {given[i]}' for i in wrong) for given in (prediction.label, found))
    detail = f'{len(wrong)} of {len(found)} tokens'
    return Mistake(place_of(prediction.fields), labels, shown, detail, '', {'sentence': ' '.join(tokens)})


def _wrong(prediction):
    return [i for i, (tag, label) in enumerate(zip(_tags(prediction), prediction.label or ())) if tag != label]


def _tags(prediction):
    return [*map(_text, prediction.values['tags'])]


def _text(value):
    return value.decode(errors='replace') if isinstance(value, bytes) else value

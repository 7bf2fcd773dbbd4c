"""The worst mistakes of a model: the examples of a split with the largest losses."""

import base64
from collections.abc import Mapping, Sequence
import io
import os
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from estimator_trainer.common.inference import occlusion
from estimator_trainer.common.inference.outcome import outcome
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.ops.images import to_pil_images
from estimator_trainer.common.report.charts import number, percent
from estimator_trainer.common.report.predicted import name_of

MAX_MISTAKES = 24
_SIDE = 160  # Pixels of a picture; larger ones are scaled down.


class Reason(NamedTuple):
    """What a prediction depends on, by `occlusion.weights`: (word, weight) of a text, or those of a picture's patches, heat."""

    words: Sequence[tuple[str, float]]
    heat: np.ndarray | None


NO_REASON = Reason((), None)


class Mistake(NamedTuple):
    """An example with its label and prediction, in words; cells are {column: text}.

    picture and tinted are data URIs, or ''; tinted shows what the prediction depends on, mostly what is at the place `where`.
    words are those of a Reason.
    """

    place: str
    label: str
    predicted: str
    detail: str
    picture: str
    cells: Mapping[str, str]
    tinted: str = ''
    where: str = ''
    words: Sequence[tuple[str, float]] = ()


def describe(
    prediction: Prediction, cells: Mapping[str, str], class_names: Sequence[str] | None, reason: Reason = NO_REASON
) -> Mistake:
    """Returns an example, with a label and an outcome, as the page shows it."""
    found, label, image = outcome(prediction.values), prediction.label, prediction.image
    place = place_of(prediction.fields)
    picture = to_data_uri(image) if image is not None and image.ndim == 3 and image.shape[2] in (1, 3) else ''
    if found.value is not None:
        return Mistake(place, number(label), number(found.value), number(found.value - label), picture, cells)
    assert found.class_id is not None
    numbers = int(label), found.class_id
    named, predicted = (name_of(number, class_names) for number in numbers)
    shares = [] if found.probabilities is None else found.probabilities.tolist()
    known = [f'{percent(shares[i])} for {name_of(i, class_names)}' for i in dict.fromkeys(reversed(numbers)) if i < len(shares)]
    mistake = Mistake(place, named, predicted, ', '.join(known), picture, cells, words=reason.words)
    if image is None or reason.heat is None or not reason.heat.any():
        return mistake
    tinted = to_data_uri(occlusion.tinted(image, reason.heat))
    return mistake._replace(tinted=tinted, where=occlusion.strongest(reason.heat))


def place_of(fields: Mapping[str, Any]) -> str:
    """Returns where an example is: its id, its file and line there, or its position in the split."""
    if 'example_id' in fields:
        return str(fields['example_id'])
    others = {name: value for name, value in fields.items() if name not in ('split', 'example', 'file')}
    file = os.path.basename(str(fields.get('file', ''))) if 'record' in others else ''  # One of several.
    where = ', '.join([*filter(None, [file]), *(f'{name} {value}' for name, value in others.items())])
    return where or f'example {fields.get("example", "")}'


def to_data_uri(image: np.ndarray) -> str:
    """Returns an image, uint8 or float in [0, 1] [height, width, 1 or 3], as the data URI of a PNG file."""
    (picture,) = to_pil_images(image[None])
    if max(picture.size) > _SIDE:
        picture.thumbnail((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    picture.save(content, 'png', optimize=True)
    return f'data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}'

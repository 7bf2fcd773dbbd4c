"""Explains an answer by its inputs: how it changes without a column, a word, or a patch of a picture."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from estimator_trainer.common.formats import images
from estimator_trainer.common.inference import occlusion, pictures
from estimator_trainer.common.inference.outcome import outcome
from estimator_trainer.common.serving.batching import Arrays
from estimator_trainer.common.serving.rest import Request, to_body, to_values
from estimator_trainer.common.serving.served import check_pixels
from estimator_trainer.common.targets import FORECAST

_MAX_PARTS = occlusion.GRID**2  # The others stay in all variants.
_SIDE = 256  # Pixels to which a picture is scaled down.


def variants(request: Request, form: Mapping[str, Any]) -> Request:
    """Returns the example of a request, followed by variants that each lack a part of it.

    A column has its typical value, which is in the form. If there is only a text, it lacks a word; if there is only a picture,
    a patch of it has its mean color.

    Raises:
      ValueError: there are several examples, or the form has no field of theirs, or a picture is none.
    """
    if 'targets' in form:
        raise ValueError('what mattered can be told of one target, and this model has several')
    if form.get('task') == FORECAST:
        raise ValueError('what mattered can be told of a class or a single number, and this model forecasts series')
    fields = [field for field in form['fields'] if field['name'] in request.columns]
    if not fields or any(len(values) != 1 for values in request.columns.values()):
        raise ValueError('what mattered can be told of one example, and of a model with a form')
    row, (name, *others) = {key: values[0] for key, values in request.columns.items()}, [field['name'] for field in fields]
    if not others and fields[0]['type'] == 'text':
        words = _words(row[name])
        return Request(request.signature, {name: [row[name], *occlusion.without_each(words, _MAX_PARTS)]}, True, words)
    if not others and fields[0]['type'] == 'picture':
        image = _image(name, row[name])
        copies = occlusion.behind_patches(image)
        # The picture itself has the score of a prediction; decoded and scaled here, it is what the copies compare with.
        return Request(request.signature, {name: [row[name], image, *copies]}, True, [*map(str, range(len(copies)))])
    replaced = {field['name']: _typical(field, row[field['name']]) for field in fields if field['type'] != 'json'}
    tried = [*replaced][:_MAX_PARTS]
    columns = {key: [value, *(replaced[key] if part == key else value for part in tried)] for key, value in row.items()}
    return Request(request.signature, columns, True, [*replaced])


def _words(text):
    words = (text.decode(errors='replace') if isinstance(text, bytes) else str('' if text is None else text)).split()
    if not words:
        raise ValueError('the text has no words')
    return words


def _image(name, value):
    """Returns a picture as uint8 [height, width, 1 or 3], scaled down."""
    check_pixels({name: [value]}, [name])
    try:
        image = images.normalize(images.decode(pictures.to_file(value)))
    except (pictures.PictureError, images.ImageError) as error:
        raise ValueError(f'the input {name}: picture 0 {error}') from None
    image.thumbnail((_SIDE, _SIDE))
    pixels = np.asarray(image)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def _typical(field, value):
    """Returns what takes the place of a value: the mean, the most frequent category, or none; of a picture, its mean color."""
    if field['type'] == 'picture':
        image = _image(field['name'], value)
        return np.full_like(image, image.mean(axis=(0, 1)).astype(np.uint8))
    return field.get('typical', None if field['type'] == 'number' else '')


def write(request: Request, found: Arrays, form: Mapping[str, Any]) -> bytes:
    """Returns the body of the answer, {'explanation': ...}.

    'score' is the probability of the predicted 'class', or the predicted number; 'parts' has {'part', 'score' without it} for
    each word or column, up to 64; 'untried' is the number of further ones. A picture has 'picture' instead, a PNG file, tinted
    where it matters, and 'where' that is most.

    Args:
      request: of `variants`.
      found: the predictions.

    Raises:
      ValueError: they have neither the probabilities of a class nor a single number.
    """
    rows = [outcome({name: array[i] for name, array in found.items()}) for i in range(len(next(iter(found.values()))))]
    chosen, is_class = rows[0].class_id, rows[0].probabilities is not None
    if not is_class and rows[0].value is None:
        raise ValueError('the predictions have neither the probabilities of a class nor a single number, by which to compare')
    values = [row.probabilities[chosen] if is_class else row.value for row in rows]  # type: ignore[index]
    score, *scores = to_values(np.array(values, np.float32))
    facts: dict[str, Any] = {'score': score, **({'class': chosen} if is_class else {})}
    if [field['type'] for field in form['fields']] == ['picture']:
        image = next(iter(request.columns.values()))[1]
        changes = scores[0] - np.array(scores[1:])
        heat = occlusion.weights(0, -changes) if is_class else occlusion.weights(0, -np.abs(changes), least=0)
        picture = images.to_png(Image.fromarray(occlusion.tinted(image, heat)))
        facts |= {'picture': {'b64': base64.b64encode(picture).decode()}, 'where': occlusion.strongest(heat)}
    else:
        facts['parts'] = [{'part': part, 'score': one} for part, one in zip(request.parts, scores)]
        if untried := len(request.parts) - len(scores):
            facts['untried'] = untried
    return to_body({'explanation': facts})

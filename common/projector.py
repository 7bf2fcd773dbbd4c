"""TensorBoard's tab Projector: a layer's values of many examples as points in space, with labels and pictures."""

import csv
import io
import math
import os

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf
from tensorboard.plugins import projector

from common.files import replacing
from common.ops import image_grid

EMBEDDING = 'embedding'
_MAX_POINTS = 1000
_MAX_SPRITE = 8192  # Pixels that the tab takes at most.


def show(evaluator):
    """Writes what a model returns as its prediction `embedding`, float [batch, units], where TensorBoard looks for it.

    Up to 1,000 examples of the evaluator's split are shown, by the weights that it evaluated last: with those of their
    labels and predictions that have one value an example, and with the feature `image`, uint8 or float in [0, 1]
    [batch, height, width, 1 or 3], if there is one. A model without such a prediction has nothing to show.

    Args:
      evaluator: Evaluator.
    """
    if EMBEDDING not in evaluator.prediction_names():
        return
    features, labels, predictions = evaluator.first_examples(_MAX_POINTS)
    config = projector.ProjectorConfig()
    info = config.embeddings.add(tensor_name=EMBEDDING, tensor_path=f'{EMBEDDING}.tsv')
    _write(evaluator.events_dir, info.tensor_path, _to_tsv(predictions[EMBEDDING]))
    columns = {**labels, **{f'predicted {name}': values for name, values in predictions.items()}}
    columns = {name: values for name, values in columns.items() if values.ndim == 1}
    if columns:
        info.metadata_path = f'{EMBEDDING}_labels.tsv'
        _write(evaluator.events_dir, info.metadata_path, _to_table(columns))
    if _is_picture(features.get('image')):
        info.sprite.image_path = f'{EMBEDDING}_images.png'
        sprite, size = _to_sprite(features['image'])
        info.sprite.single_image_dim.extend(size)
        _write(evaluator.events_dir, info.sprite.image_path, sprite)
    projector.visualize_embeddings(evaluator.events_dir, config)


def _write(directory, name, content):
    with replacing(os.path.join(directory, name)) as part, tf.io.gfile.GFile(part, 'wb') as file:
        file.write(content)


def _to_tsv(values):
    text = io.StringIO()
    np.savetxt(text, values.reshape(len(values), -1).astype(np.float32), '%.6g', delimiter='\t')
    return text.getvalue().encode()


def _to_table(columns):
    text = io.StringIO()
    writer = csv.writer(text, delimiter='\t', quoting=csv.QUOTE_NONE, quotechar=None, lineterminator='\n')
    if len(columns) > 1:  # What the tab takes for a heading; one column has none.
        writer.writerow(columns)
    writer.writerows([_to_text(value) for value in row] for row in zip(*columns.values()))
    return text.getvalue().encode()


def _to_text(value):
    text = value.decode(errors='replace') if isinstance(value, bytes) else str(value)
    return ' '.join(text.split())


def _is_picture(images):
    return images is not None and images.ndim == 4 and images.shape[3] in (1, 3)


def _to_sprite(images):
    """Returns all pictures as one, the bytes of a PNG file, and [width, height] of each there."""
    columns = math.ceil(math.sqrt(len(images)))
    shrink = math.ceil(columns * max(images.shape[1:3]) / _MAX_SPRITE)
    images = images[:, ::shrink, ::shrink]
    content = io.BytesIO()
    Image.fromarray(image_grid.draw(images, columns, gap=0)[0]).save(content, 'png')
    return content.getvalue(), [images.shape[2], images.shape[1]]

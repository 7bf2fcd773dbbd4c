"""TensorBoard's tab Projector: a layer's values of many examples as points in space, with labels and pictures."""

import contextlib
import io
import math
import os

import numpy as np
from PIL import Image
from tensorboard.plugins import projector
import tensorflow.compat.v1 as tf

from common.files import write
from common.ops import image_grid

_EMBEDDING = 'embedding'
_IMAGE = 'image of each'  # Not a title of the table.
_MAX_POINTS = 1000
_MAX_SIDE = 64  # Pixels of a picture; the tab takes 8,192 for all of them, in 32 rows and columns.


def show(evaluator):
    """Writes what a model returns as its prediction `embedding`, float [batch, units], where TensorBoard looks for it.

    Up to 1,000 examples that the evaluator evaluates are shown, by the weights that it evaluated last: with those of their
    labels and predictions that have one value an example, and with the feature `image`, uint8 or float in [0, 1]
    [batch, height, width, 1 or 3], if there is one. A model without such a prediction has nothing to show.

    Args:
      evaluator: Evaluator.
    """
    examples = _first_examples(evaluator)
    if not examples:
        return
    embedding, image = examples.pop(_EMBEDDING), examples.pop(_IMAGE, None)
    config = projector.ProjectorConfig()
    info = config.embeddings.add(
        tensor_name=_EMBEDDING, tensor_path=f'{_EMBEDDING}.tsv', metadata_path=f'{_EMBEDDING}_labels.tsv'
    )
    write(os.path.join(evaluator.events_dir, info.tensor_path), _to_tsv(embedding))
    # Numbers, so that no line is empty, and that there are several columns: the tab takes the first line of one for a label.
    table = _to_table({'example': np.arange(len(embedding)), **examples})
    write(os.path.join(evaluator.events_dir, info.metadata_path), table)
    if image is not None:
        info.sprite.image_path = f'{_EMBEDDING}_images.png'
        info.sprite.single_image_dim.extend([image.shape[2], image.shape[1]])
        write(os.path.join(evaluator.events_dir, info.sprite.image_path), _to_sprite(image))
    projector.visualize_embeddings(evaluator.events_dir, config)


def _first_examples(evaluator):
    batches = []
    with contextlib.closing(evaluator.batches(_choose)) as found:
        for batch in found:
            batch[_EMBEDDING] = batch[_EMBEDDING].reshape(len(batch[_EMBEDDING]), -1)
            if _IMAGE in batch:  # Made small at once, so that no large ones are kept.
                stride = math.ceil(max(batch[_IMAGE].shape[1:3]) / _MAX_SIDE)
                batch[_IMAGE] = batch[_IMAGE][:, ::stride, ::stride].copy()
            batches.append(batch)
            if sum(len(batch[_EMBEDDING]) for batch in batches) >= _MAX_POINTS:
                break
    return {name: np.concatenate([batch[name] for batch in batches])[:_MAX_POINTS] for name in batches[0]} if batches else {}


def _choose(features, labels, predictions):
    """Returns the embedding, the image, and the columns of the table by their titles: what surely can be joined."""
    embedding = predictions.get(_EMBEDDING)
    if not _has_shape(embedding):
        return {}
    columns = {**labels, **{f'predicted {name}': values for name, values in predictions.items()}}
    chosen = {name: values for name, values in columns.items() if _has_shape(values) and values.shape.rank == 1}
    chosen[_EMBEDDING] = embedding
    image = features.get('image') if isinstance(features, dict) else None
    if _has_shape(image) and image.shape.rank == 4 and image.shape[3] in (1, 3):
        chosen[_IMAGE] = image
    return chosen


def _has_shape(tensor):
    """Whether its shape is known, but for the batch."""
    return isinstance(tensor, tf.Tensor) and tensor.shape.rank and tensor.shape[1:].is_fully_defined()


def _to_tsv(values):
    text = io.StringIO()
    np.savetxt(text, values.astype(np.float32), '%.6g', delimiter='\t')
    return text.getvalue()


def _to_table(columns):
    lines = [columns, *zip(*columns.values())]
    return ''.join('\t'.join(map(_to_text, line)) + '\n' for line in lines)


def _to_text(value):
    text = value.decode(errors='replace') if isinstance(value, bytes) else str(value)
    return ' '.join(text.split())


def _to_sprite(images):
    """Returns all pictures as one, the bytes of a PNG file."""
    content = io.BytesIO()
    Image.fromarray(image_grid.draw(images, gap=0)[0]).save(content, 'png')
    return content.getvalue()

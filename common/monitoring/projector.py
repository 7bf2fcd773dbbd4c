"""TensorBoard's Projector tab: embeddings of examples as points in space, with labels and images."""

import contextlib
import io
import math
import os

import numpy as np
from PIL import Image
from tensorboard.plugins import projector
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import write
from estimator_trainer.common.ops.images import draw_grid

_EMBEDDING = 'embedding'
_IMAGE = 'image of each'  # Cannot collide with a column name.
_MAX_POINTS = 1000
_MAX_SIDE = 64  # Pixels per image: the tab limits the sprite of 32 by 32 images to 8,192 pixels a side.


def show(evaluator) -> None:
    """Writes the prediction `embedding` of a model, float [batch, units], for TensorBoard's Projector.

    Up to 1,000 of the evaluator's examples are written, computed with its last evaluated weights. They include labels and
    predictions with one value per example, and, if present, the feature `image`, uint8 or float in [0, 1] [batch, height,
    width, 1 or 3]. Without this prediction, nothing is written.

    Args:
      evaluator: estimator_trainer.common.inference.evaluator.Evaluator.
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
    # Row numbers, so that no line is empty and there are several columns: with a single one, the tab reads the header as a
    # label.
    table = _to_table({'example': np.arange(len(embedding)), **examples})
    write(os.path.join(evaluator.events_dir, info.metadata_path), table)
    if image is not None:
        info.sprite.image_path = f'{_EMBEDDING}_images.png'
        info.sprite.single_image_dim.extend([image.shape[2], image.shape[1]])
        write(os.path.join(evaluator.events_dir, info.sprite.image_path), _to_sprite(image))
    projector.visualize_embeddings(evaluator.events_dir, config)


def _first_examples(evaluator):
    batches = []
    with contextlib.closing(evaluator.batches(_select)) as found:
        for batch in found:
            batch[_EMBEDDING] = batch[_EMBEDDING].reshape(len(batch[_EMBEDDING]), -1)
            if _IMAGE in batch:  # Downsampled immediately, to save memory.
                stride = math.ceil(max(batch[_IMAGE].shape[1:3]) / _MAX_SIDE)
                batch[_IMAGE] = batch[_IMAGE][:, ::stride, ::stride].copy()
            batches.append(batch)
            if sum(len(batch[_EMBEDDING]) for batch in batches) >= _MAX_POINTS:
                break
    return {name: np.concatenate([batch[name] for batch in batches])[:_MAX_POINTS] for name in batches[0]} if batches else {}


def _select(features, labels, predictions):
    """Returns the embedding, the image, and the table's columns by name: tensors whose batches can be concatenated."""
    embedding = predictions.get(_EMBEDDING)
    if not _has_static_shape(embedding):
        return {}
    columns = {**labels, **{f'predicted {name}': values for name, values in predictions.items()}}
    selected = {name: values for name, values in columns.items() if _has_static_shape(values) and values.shape.rank == 1}
    selected[_EMBEDDING] = embedding
    image: tf.Tensor = features.get('image') if isinstance(features, dict) else None
    if _has_static_shape(image) and image.shape.rank == 4 and image.shape[3] in (1, 3):
        selected[_IMAGE] = image
    return selected


def _has_static_shape(tensor):
    """Whether a value is a tensor with a static shape, except for the batch."""
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
    """Returns a PNG file with all images in a grid, as bytes."""
    content = io.BytesIO()
    Image.fromarray(draw_grid(images, gap=0)[0]).save(content, 'png')
    return content.getvalue()

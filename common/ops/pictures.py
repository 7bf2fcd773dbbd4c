"""Pictures that Pillow draws for TensorBoard."""

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

# What is right is green, what is wrong red, in every picture.
RIGHT, WRONG = (0, 110, 0), (200, 0, 0)


def picture_summary(name, draw, tensors, max_outputs=1):
    """Adds an image summary that a Python function draws: only at the steps that save summaries.

    Args:
      name: str; the tag in TensorBoard is NAME/image, or NAME/image/I for several, whatever name scopes are open.
      draw: function of arrays that returns uint8 [pictures, height, width, 3].
      tensors: list of the tensors that `draw` gets the values of.
      max_outputs: int.
    """
    with tf.name_scope(None):
        drawn = tf.numpy_function(draw, tensors, tf.uint8)
        drawn.set_shape([None, None, None, 3])
        tf.summary.image(name, drawn, max_outputs=max_outputs)


def to_pictures(images):
    """Returns Pillow's RGB images of an array [batch, height, width, 1 or 3], uint8, or float in [0, 1]."""
    if images.dtype != np.uint8:
        images = np.uint8(np.clip(images, 0, 1) * 255 + 0.5)
    return [Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).convert('RGB') for image in images]


def enlarge(picture, smallest_side):
    """Returns a Pillow image a whole number of times as large, at least smallest_side pixels, without smoothing."""
    scale = max(1, -(-smallest_side // min(picture.size)))
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)

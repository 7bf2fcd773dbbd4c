"""The files of predicted masks."""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import itertools
import json
import os
from typing import Any

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import write
from estimator_trainer.common.formats import masks
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.ops.segmentation import palette
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.unicode_forms import composed


class MaskFiles:
    """Writes predicted masks as palette PNG files with the numbers and names of files of the masks of training.

    Args:
      predictions: the path of the file of predictions; the folder of the masks is beside it, NAME_masks.
      metadata: of the dataset.

    Attributes:
      directory: the folder.
    """

    def __init__(self, predictions: str, metadata: Mapping[str, Any]):
        self.directory = f'{os.path.splitext(predictions)[0]}_masks'
        self._metadata = metadata
        self._names: set[str] = set()
        self._numbers: dict[str, Iterator[int]] = {}  # Those that names with the same stem may end with.
        if tf.io.gfile.exists(self.directory) and tf.io.gfile.listdir(self.directory):
            tf.logging.warning('%s: earlier masks with the same names will be replaced, others stay.', self.directory)
        tf.io.gfile.makedirs(self.directory)

    def save(self, prediction: Prediction) -> Prediction:
        """Writes a mask in the size of its picture, or that of the model if it is unknown.

        Returns:
          The prediction with the 'mask', the path of the file, and the 'shares' of the classes, for its line; as it is if its
          'class' is no mask.
        """
        classes, fields = prediction.values.get('class'), dict(prediction.fields)
        if classes is None or classes.ndim != 2:  # A model of the user's own may name it otherwise.
            return prediction
        height, width = (int(fields.get(name, size)) for name, size in zip(('height', 'width'), classes.shape))
        values = self._metadata.get('mask_values') or [*range(self._metadata['num_classes'])]
        path = os.path.join(self.directory, self._name(fields))
        write(path, masks.to_file(classes, height, width, values, palette()))
        found = {name: round(share, 6) for name, share in shares_of(classes, self._metadata).items()}
        return dataclasses.replace(prediction, fields={**fields, 'mask': path, 'shares': found}, values={}, label=None)

    def _name(self, fields):
        """Returns the name of a file, that of the picture or its number, which no other has."""
        known = str(fields.get(EXAMPLE_ID) or fields.get('input') or f'{fields.get("example", 0):06}')
        stem = os.path.splitext(os.path.basename(known))[0]
        name, numbers = f'{stem}.png', self._numbers.setdefault(stem, itertools.count(2))
        while (folded := composed(name).casefold()) in self._names:  # Not all file systems tell them apart.
            name = f'{stem}_{next(numbers)}.png'
        self._names.add(folded)
        return name


def shares_of(classes: np.ndarray, metadata: Mapping[str, Any]) -> dict[str, float]:
    """Returns the share of each class, by name, in the pixels of a mask, int [height, width]; those without a class count."""
    names: Sequence[str] = metadata.get('class_names') or [*map(str, range(metadata['num_classes']))]
    counts = np.bincount(classes[classes < len(names)], minlength=len(names))
    return dict(zip(names, (counts / max(classes.size, 1)).tolist()))


def read_lines(path: str, are_kept: bool) -> list[dict[str, Any]]:
    """Returns the lines of a file of predictions; unless the files of their masks are kept, these are arrays in their place."""
    with tf.io.gfile.GFile(path) as file:
        lines = [json.loads(line) for line in file]
    return lines if are_kept else [_with_array(line) for line in lines]


def _with_array(line):
    path = line.get('mask')
    if not isinstance(path, str) or 'shares' not in line:
        return line
    with Image.open(path) as mask:
        return {**line, 'mask': np.array(mask)}

"""Pictures in folders named after their classes, with labels, for datasets of images that read no files themselves."""

import dataclasses
import types
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.formats import class_folders, images
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import get_specs
from estimator_trainer.common.pipeline.specs import Specs


def with_pictures(source: DataSource) -> DataSource:
    """Returns a dataset whose records are pictures and their classes, instead of those of a module with `image_features`.

    The features are the module's; the label is {'label': int32 [batch]}.
    """
    params, image_features = source.params, source.module.image_features
    names = params.metadata.get('class_names') or [str(number) for number in range(params.get('num_classes', 0))]

    def read_labeled(path, params):
        label = class_folders.label_of(path, names)
        try:
            pixels = images.to_pixels(images.decode(images.read(path)), params.image_size, params.num_channels)
        except images.ImageError as error:
            raise RunError(f'{path} {error}') from None
        yield {}, {'image': pixels, 'label': np.int32(label)}

    def parse_batch(mode, params, record):
        del mode
        return image_features(params, record['image']), {'label': record['label']}

    patterns = tuple(f'*{suffix}' for suffix in images.SUFFIXES)
    module: Any = types.SimpleNamespace(read_labeled=read_labeled, parse_batch=parse_batch, INPUT_PATTERNS=patterns)
    records = {'image': tf.TensorSpec(source.image_shape(), tf.uint8), 'label': tf.TensorSpec([], tf.int32)}
    return dataclasses.replace(source, module=module, specs=Specs(records, get_specs(source).features))

"""The files of --input: a stream of images or records, and the ops that make features of them."""

from collections.abc import Callable, Iterable, Iterator
import functools
import os
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from common.data import manifest, tfrecord
from common.data.input_pipeline import get_specs
from common.data.source import DataSource
from common.errors import RunError, UsageError
from common.formats import images
from common.inference.serving import parse_records

# What identifies an example, and the example itself or what is wrong with it.
Entry = tuple[dict[str, Any], Any]


class InputFiles(NamedTuple):
    """entries yields the examples of all files; to_features makes the features of a batch of them, in a graph.

    spec is the nest of tf.TensorSpec of an example.
    """

    entries: Iterator[Entry]
    spec: Any
    to_features: Callable[[Any], dict[str, tf.Tensor]]


def open_files(source: DataSource, pattern: str) -> InputFiles:
    """Finds the files of a glob pattern, to be read as the dataset reads such files.

    Dataset modules with `read_input` read any files. Other modules take image files if they have `image_features`, and
    TFRecord files if their records are serialized tf.train.Example.

    Raises:
      UsageError: there are no files, or the dataset takes none.
    """
    try:
        paths = sorted(tf.io.gfile.glob(pattern))
    except UnicodeDecodeError as error:
        raise UsageError(f'--input={pattern}: the name of a file is not UTF-8: {error.object!r}') from None
    if not paths:
        raise UsageError(f'--input={pattern}: no such file')
    params, are_records = source.params, all('.tfrecord' in os.path.basename(path) for path in paths)
    if source.has_images() and not are_records and not source.reads_input():
        spec = tf.TensorSpec([params.image_size, params.image_size, params.num_channels], tf.uint8)
        return InputFiles(
            _entries(_files(paths), lambda path: [({}, _image(path, params))]),
            spec,
            lambda batch: source.module.image_features(params, batch),
        )
    specs = get_specs(source)
    is_serialized = getattr(specs.records, 'dtype', None) == tf.string and specs.records.shape.rank == 0
    read: Callable[[str], Iterable[Entry]]
    if source.reads_input():
        read = functools.partial(_read_input, source)
    elif are_records and is_serialized:
        read = _records
    else:
        kinds = ' other than *.tfrecord' if is_serialized else ''
        raise UsageError(f'--input={pattern}: --dataset={params.dataset} takes no files{kinds}: it has no read_input()')
    return InputFiles(_entries(paths, read), specs.records, lambda records: parse_records(source, specs.features, records))


def _read_input(source, path):
    return source.module.read_input(path, source.params)


def _entries(paths, read):
    """Yields the entries of all files; a file that cannot be read is one entry."""
    for path in paths:
        try:
            for fields, example in read(path):
                yield {'input': path, **fields}, example
        except (UsageError, RunError) as error:
            yield {'input': path}, error
        except tf.errors.OpError as error:
            yield {'input': path}, RunError(f'{path}: cannot be read: {error.message}')


def _files(paths):
    """Yields the paths, and in place of directories those of the files in them, sorted."""
    for path in paths:
        if tf.io.gfile.isdir(path):
            for directory, _, names in sorted(tf.io.gfile.walk(path)):
                yield from (os.path.join(directory, name) for name in sorted(names) if not name.startswith('.'))
        else:
            yield path


def _records(path):
    """Yields the records of a TFRecord file; raises RunError if it is corrupt."""
    for number, record in enumerate(tfrecord.read(path, manifest.check_alone(path))):
        yield {'record': number}, record


def _image(path, params):
    """Returns the pixels of an image, uint8 [image_size, image_size, num_channels], or a UsageError."""
    try:
        image = images.normalize(images.decode(images.read(path)), params.num_channels)
    except images.ImageError as error:
        return UsageError(f'{path} {error}')
    image = image.resize((params.image_size, params.image_size), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(params.image_size, params.image_size, params.num_channels)

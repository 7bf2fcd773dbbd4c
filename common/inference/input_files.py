"""The files of --input: a stream of images or records, and the ops that convert them to features."""

from collections.abc import Callable, Iterable, Iterator, Sequence
import fnmatch
import os
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.foreign_files import is_foreign
from estimator_trainer.common.formats import images
from estimator_trainer.common.inference.signatures import parse_records
from estimator_trainer.common.paths import identify, is_remote
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import get_specs
from estimator_trainer.common.records import manifest, tfrecord

_ANY = ('*',)
_RECORDS = '*.tfrecord*'

# The identity of an example, and the example itself or its error.
Entry = tuple[dict[str, Any], Any]


class InputFiles(NamedTuple):
    """entries yields the examples of all files; to_features converts a batch of them to features, in a graph.

    spec is the nest of tf.TensorSpec of an example.
    """

    entries: Iterator[Entry]
    spec: Any
    to_features: Callable[[Any], dict[str, tf.Tensor]]


def open_files(source: DataSource, pattern: str) -> InputFiles:
    """Finds the file of this name, or the files of a glob pattern, to be read by the dataset.

    A folder stands for the files beneath it that match the INPUT_PATTERNS of a dataset module with `read_input`, by default all
    but hidden ones.

    Dataset modules with `read_input` read any files. Other modules take image files if they have `image_features`, and
    TFRecord files if their records are serialized tf.train.Example.

    Raises:
      UsageError: there are no files, or the dataset does not take any.
    """
    paths = _find(pattern)
    params, are_records = source.params, all(map(_is_records, paths))
    if source.has_images() and not are_records and not source.reads_input():
        spec = tf.TensorSpec(source.image_shape(), tf.uint8)
        return InputFiles(
            _entries(paths, _ANY, lambda path: [({}, _image(path, params))]),
            spec,
            lambda batch: source.module.image_features(params, batch),
        )
    specs = get_specs(source)
    read, patterns = _reader(source, 'read_input', pattern, paths)
    return InputFiles(
        _entries(paths, patterns, read), specs.records, lambda records: parse_records(source, specs.features, records)
    )


def open_labeled(source: DataSource, pattern: str) -> Callable[[], Iterator[Entry]]:
    """Finds files, as `open_files` does, whose examples have labels; returns a function that yields their entries.

    Dataset modules with `read_labeled` read any files; others take TFRecord files if their records are serialized
    tf.train.Example.

    Raises:
      UsageError: there are no files, or the dataset does not take any.
    """
    paths = _find(pattern)
    read, patterns = _reader(source, 'read_labeled', pattern, paths, ' to evaluate')
    return lambda: _entries(paths, patterns, read)


def _reader(source, name, pattern, paths, purpose='') -> tuple[Callable[[str], Iterable[Entry]], Sequence[str]]:
    """Returns the function that reads a file, the module's of this name or that of TFRecord files, and patterns of files."""
    if hasattr(source.module, name):
        read = getattr(source.module, name)
        return lambda path: read(path, source.params), getattr(source.module, 'INPUT_PATTERNS', _ANY)
    records = get_specs(source).records
    is_serialized = getattr(records, 'dtype', None) == tf.string and records.shape.rank == 0
    if is_serialized and all(_is_records(path) or tf.io.gfile.isdir(path) for path in paths):
        return _records, (_RECORDS,)
    kinds = ' other than *.tfrecord' if is_serialized else ''
    raise UsageError(f'--input={pattern}: --dataset={source.params.dataset} takes no files{kinds}{purpose}: it has no {name}()')


def are_records(pattern: str) -> bool:
    """Whether a name or pattern stands for TFRecord files alone; raises UsageError if there are no files."""
    return all(map(_is_records, _find(pattern)))


def _find(pattern):
    """Returns the paths of a name or pattern; raises UsageError if there are none."""
    try:
        # A name may contain pattern characters, such as [1].
        paths = [pattern] if tf.io.gfile.exists(pattern) else sorted(tf.io.gfile.glob(pattern))
        if not pattern.startswith('./'):  # TensorFlow adds it to a pattern without a folder.
            paths = [path.removeprefix('./') for path in paths]
    except UnicodeDecodeError as error:
        raise UsageError(f'--input={pattern}: the name of a file is not UTF-8: {error.object!r}') from None
    if not paths:
        raise UsageError(f'--input={pattern}: no such file')
    for path in paths:
        if not is_remote(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise UsageError(f'--input={path}: is neither a file nor a folder: write its content to a file')
    return paths


def _is_records(path):
    return fnmatch.fnmatchcase(os.path.basename(path), _RECORDS)


def _entries(paths, patterns, read):
    """Yields the entries of all files and folders; one that cannot be read, or is a folder without files, is one entry."""
    for path in paths:
        try:
            for file in _files_in(path, patterns) if tf.io.gfile.isdir(path) else [path]:
                yield from _entries_of(file, read)
        except UsageError as error:
            yield {'input': path}, error
        except OSError as error:
            yield {'input': path}, RunError(f'{error.filename}: cannot be read: {error.strerror}')


def _entries_of(path, read):
    try:
        for fields, example in read(path):
            yield {'input': path, **fields}, example
    except (UsageError, RunError) as error:
        yield {'input': path}, error
    except tf.errors.OpError as error:
        yield {'input': path}, RunError(f'{path}: cannot be read: {error.message}')
    except OSError as error:  # Of a reader of the user's own.
        yield {'input': path}, RunError(f'{error.filename or path}: cannot be read: {error.strerror or error}')


def _files_in(folder, patterns):
    """Returns the paths of the files beneath a folder that match a pattern, sorted, except hidden ones."""
    found, seen = [], {identify(folder)}
    walk = tf.io.gfile.walk(folder) if is_remote(folder) else os.walk(folder, onerror=_raise, followlinks=True)
    for directory, folders, names in walk:
        folders[:] = [name for name in folders if not is_foreign(name)]
        for name in list(folders):
            identity = identify(os.path.join(directory, name))
            if identity and identity in seen:  # A link to a folder that contains it.
                folders.remove(name)
            seen.add(identity)
        for name in names:
            path = os.path.join(directory, name)
            is_wanted = not is_foreign(name) and any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in patterns)
            if is_wanted and (is_remote(folder) or os.path.isfile(path)):
                found.append(path)
    if not found:
        raise UsageError(f'{folder}: has no files' + (f' named {", ".join(patterns)}' if patterns != _ANY else ''))
    return sorted(found)


def _raise(error):
    raise error


def _records(path):
    """Yields the records of a TFRecord file; raises RunError if it is corrupt."""
    for number, record in enumerate(tfrecord.read(path, manifest.check_alone(path))):
        yield {'record': number}, record


def _image(path, params):
    """Returns the pixels of an image, uint8 [image_size, image_size, num_channels], or a UsageError."""
    try:
        return images.to_pixels(images.decode(images.read(path)), params.image_size, params.num_channels)
    except images.ImageError as error:
        return UsageError(f'{path} {error}')

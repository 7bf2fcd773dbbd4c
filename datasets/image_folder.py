"""Your own pictures: a directory with a folder per class, or with folders such as train and val that contain those.

    python trainer.py --model=alexnet --dataset=image_folder --hparams=image_dir=PATH

Pictures may be of any size, in color or gray. They are squashed to squares, without cropping, of 64 pixels by default: enough
to recognize most objects, and a tenth of the work of 224 pixels.
"""

import collections
from collections.abc import Iterator
import functools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, check_range, listed
from estimator_trainer.common.formats import class_folders, encoded, image_records, images, stored_pictures
from estimator_trainer.common.formats.picture_files import FileList, Pictures, read_picture
from estimator_trainer.common.own_data.description import log_classes
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

image_features = image_records.image_features
feature_columns = image_records.feature_columns
INPUT_PATTERNS = tuple(f'*{suffix}' for suffix in images.SUFFIXES)
OWN_FOLDS = True
_DARK = (
    'have 16 bits, but so small values that 8 bits leave them black or nearly so: multiply the values of all pictures, those '
    'to predict too, by the same factor'
)
_MAX_LOGGED = 5
_MAX_SHOWN = 50  # Classes of the summary.
_VERSION = 2  # Of the converted pictures: a change converts them anew.


def get_params() -> dict[str, Any]:
    return {
        'image_dir': '',  # A directory with a folder for each class.
        'image_size': 64,
        'num_channels': 3,  # Or 1, for gray.
        'num_classes': 0,  # Set by the metadata.
        'eval_share': 0.2,  # Of the pictures of each class, held out for evaluation if there is no folder for it.
        'max_bad_share': 0.01,  # Maximum share of unreadable pictures.
        'shuffle_buffer': 1000,  # Converted pictures are already in random order.
        'eval_batch_size': 250,
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the pictures to TFRecord files, once; again if files were added, removed or changed.

    Skips unreadable pictures and lists them in unreadable.txt beside the TFRecord files, and those of 16 bits that are dark in
    dark.txt.
    """
    _check(params)
    _scanned.cache_clear()
    folders = _scan(params)
    directory = _directory(data_dir, folders)
    unreadable, dark = (FileList(os.path.join(directory, name)) for name in ('unreadable.txt', 'dark.txt'))
    _log(folders, params.train_split)
    _warn_of_few(folders, params)
    if not records.is_written(directory):
        tf.logging.info('Converting the pictures to %s', directory)
        tf.io.gfile.makedirs(directory)
        splits = {name: Pictures(folders, name, unreadable, dark) for name in folders.splits}
        records.write(directory, splits, fingerprint=os.path.basename(directory))
    total = sum(map(len, folders.splits.values()))
    _check_unreadable(unreadable, params, total)
    for split, names in folders.unlabeled.items():
        tf.logging.warning('%s: %s.', os.path.join(folders.root, split), _unlabeled(folders, split, names))
    if dark.count():
        tf.logging.warning('%d of %d pictures, listed in %s, %s.', dark.count(), total, dark.path, _DARK)


def _check(params):
    check_range(params, 'image_size', 1, 10000)
    if params.num_channels not in (1, 3):
        raise UsageError(f'num_channels={params.num_channels} must be 1, for gray, or 3, for color')
    check_range(params, 'num_classes', 0)
    check_range(params, 'max_bad_share', 0, 1)
    if not 0 < params.eval_share < 1:
        raise UsageError(f'eval_share={params.eval_share} must be greater than 0 and less than 1')
    if not params.image_dir:
        raise UsageError('--dataset=image_folder needs a directory of pictures: give it with --hparams=image_dir=PATH')


def _scan(params):
    try:
        root = params.image_dir if is_remote(params.image_dir) else os.path.abspath(params.image_dir)
        return _scanned(
            root, params.get('train_split', 'train'), params.eval_share, params.get('folds', 0), params.get('fold', 1)
        )
    except UsageError as error:
        raise UsageError(f'image_dir: {error}') from None


@functools.cache
def _scanned(root, train_split, eval_share, folds, fold):
    """Returns the ClassFolders, cached within a run."""
    return class_folders.scan(root, images.SUFFIXES, train_split, eval_share, folds, fold)


def _directory(data_dir, folders):
    return os.path.join(data_dir, f'image_folder-{_VERSION}-{folders.fingerprint()}')


def _warn_of_few(folders, params):
    """Warns of classes of which some folds have no picture."""
    if not params.get('folds'):
        return
    files = [file for split in (params.train_split, 'eval') for file in folders.splits[split]]
    counts = collections.Counter(file.label for file in files)
    if few := [f'{folders.class_names[label]} has {counts[label]}' for label in sorted(counts) if counts[label] < params.folds]:
        tf.logging.warning(
            '%s: folds lack classes, of fewer pictures than %d: %s.', folders.root, params.folds, listed(few, 10)
        )


def _unlabeled(folders, split, names):
    path = os.path.join(folders.root, split)
    return f'has no folder of a class, but {", ".join(names[:_MAX_LOGGED])}: predict its pictures with --input={path}'


def _log(folders, trained):
    counts = ', '.join(f'{split}: {len(files)}' for split, files in folders.splits.items())
    tf.logging.info('%s: %d classes; pictures in %s', folders.root, len(folders.class_names), counts)
    names = folders.class_names
    by_class = {
        split: collections.Counter(names[file.label] for file in files if file.label in range(len(names)))
        for split, files in folders.splits.items()
    }
    log_classes(folders.root, names, by_class, trained)
    if folders.ignored:
        kinds = ', '.join(f'{count} {kind}' for kind, count in sorted(folders.ignored.items()))
        tf.logging.info('%s: ignored %d other files: %s', folders.root, sum(folders.ignored.values()), kinds)


def _check_unreadable(unreadable, params, total):
    """Logs the number of unreadable pictures; raises RunError if there are too many."""
    count = unreadable.count()
    text = f'{count} of {total} pictures are unreadable, listed in {unreadable.path}'
    if count > params.max_bad_share * total:
        raise RunError(f'{text}: repair or remove them, or raise max_bad_share={params.max_bad_share:g}')
    if count:
        tf.logging.warning('%s: they are skipped.', text)


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns {'num_classes': int, 'class_names': list}."""
    del data_dir
    names = list(_scan(params).class_names)
    if params.num_classes not in (0, len(names)):
        raise UsageError(f'num_classes={params.num_classes}, but image_dir={params.image_dir} has {len(names)} classes')
    return {'num_classes': len(names), 'class_names': names}


def summary(data_dir: str, params: HParams) -> str:
    """Returns the number of pictures of each class and split."""
    del data_dir
    folders = _scan(params)
    counts = {split: collections.Counter(file.label for file in files) for split, files in folders.splits.items()}
    lines = [f'{folders.root}: {len(folders.class_names)} classes, pictures in {", ".join(counts)}:']
    for label, name in enumerate(folders.class_names[:_MAX_SHOWN]):
        lines.append(f'{name}: {", ".join(f"{found[label]:,}" for found in counts.values())}')
    if len(folders.class_names) > _MAX_SHOWN:
        lines.append(f'... and {len(folders.class_names) - _MAX_SHOWN:,} more classes')
    return '\n'.join([*lines, ''])


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples.

    They are 'image', a JPEG or PNG file; its 'height', 'width' and EXIF 'orientation', int64; 'label', int64; and 'id', the
    picture's path relative to image_dir.
    """
    folders = _scan(params)
    trained = params.metadata.get('class_names', folders.class_names)
    if list(trained) != list(folders.class_names):
        raise UsageError(
            f'image_dir={params.image_dir}: the classes are {", ".join(folders.class_names)}, but the model was trained with '
            f'{", ".join(trained)}'
        )
    if split in folders.unlabeled:
        raise UsageError(f'the split {split} {_unlabeled(folders, split, folders.unlabeled[split])}')
    return records.read(_directory(data_dir, folders), folders.find_split(split, params.train_split))


def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns {'image': float32 [image_size, image_size, num_channels] in [0, 1], 'example_id': string}, {'label': int32}.

    In PREDICT there are no labels, and only 'image' is required.
    """
    spec = {**stored_pictures.spec(), 'id': tf.io.FixedLenFeature([], tf.string, '')}
    if mode != tf.estimator.ModeKeys.PREDICT:
        spec['label'] = tf.io.FixedLenFeature([], tf.int64)
    example = tf.io.parse_single_example(serialized, spec)
    image = stored_pictures.to_square(example, params.image_size, params.num_channels)
    features = {'image': image, 'example_id': example['id']}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return features, None
    return features, {'label': tf.cast(example['label'], tf.int32)}


def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {'image': string [batch]}, the contents of image files of any size."""
    del params
    return {'image': tf.TensorSpec([None], tf.string, encoded.PICTURE)}


def from_raw(params: HParams, raw: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns {'image': float32 [batch, image_size, image_size, num_channels] in [0, 1]} of image files, as `parse` does."""
    return {'image': stored_pictures.files_to_squares(raw['image'], params.image_size, params.num_channels)}


@functools.cache
def _warn_of_dark():
    tf.logging.warning('Pictures of the input %s.', _DARK)


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yields ({}, record) for a picture.

    Raises:
      UsageError: it cannot be read.
    """
    del params
    try:
        yield {}, records.encode({**read_picture(path, lambda text: _warn_of_dark()), 'id': os.fsencode(path)})
    except images.ImageError as error:
        raise UsageError(f'{path} {error}') from None


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yields ({}, record) for a picture in a folder that is named after its class.

    Raises:
      RunError: the folder is not.
      UsageError: the picture cannot be read.
    """
    label = class_folders.label_of(path, params.metadata['class_names'])
    try:
        yield {}, records.encode({**read_picture(path, lambda text: _warn_of_dark()), 'label': label, 'id': os.fsencode(path)})
    except images.ImageError as error:
        raise UsageError(f'{path} {error}') from None

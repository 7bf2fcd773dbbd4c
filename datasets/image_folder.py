"""Your own pictures: a directory with a folder per class, or with folders such as train and val that contain those.

    python trainer.py --model=alexnet --dataset=image_folder --hparams=image_dir=PATH
    python trainer.py --model=unet --dataset=image_folder --hparams=image_dir=PATH

The second is for segmentation, of a directory with the folders images and masks, whose PNG files have a class for each pixel.
Pictures may be of any size, in color or gray. They are squashed to squares, without cropping, of 64 pixels by default: enough
to recognize most objects, and a tenth of the work of 224 pixels.
"""

import collections
from collections.abc import Iterator
import functools
import itertools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, check_range, listed
from estimator_trainer.common.formats import (
    class_folders,
    image_records,
    images,
    mask_folders,
    masks,
    stored_pictures,
)
from estimator_trainer.common.formats.folders import LOST
from estimator_trainer.common.formats.picture_files import FileList, Pictures, read_picture
from estimator_trainer.common.own_data import mask_classes
from estimator_trainer.common.own_data.description import log_classes
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.records import elements, records
from estimator_trainer.common.targets import IGNORED, is_segmentation
from estimator_trainer.hparams.build import HParams

image_features = image_records.image_features
feature_columns = image_records.feature_columns
raw_specs = image_records.raw_specs
INPUT_PATTERNS = tuple(f'*{suffix}' for suffix in images.SUFFIXES)
OWN_FOLDS = True
_DARK = (
    'have 16 bits, but so small values that 8 bits leave them black or nearly so: multiply the values of all pictures, those '
    'to predict too, by the same factor'
)
_BATCH = 256
_MAX_LOGGED = 5
_MAX_SHOWN = 50  # Classes of the summary.
_UNREADABLE = 'unreadable.txt'
_VERSION = 2  # Of the converted pictures: a change converts them anew.


def get_params() -> dict[str, Any]:
    return {
        'image_dir': '',  # A directory with a folder for each class, or with the folders images and masks.
        'image_size': 64,
        'num_channels': 3,  # Or 1, for gray.
        'num_classes': 0,  # Set by the metadata.
        'eval_share': 0.2,  # Of the pictures of each class, held out for evaluation if there is no folder for it.
        'max_bad_share': 0.01,  # Maximum share of unreadable pictures, and of those without a mask.
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
    unreadable, dark = (FileList(os.path.join(directory, name), folders.root) for name in (_UNREADABLE, 'dark.txt'))
    _log(folders)
    _check_lost(folders, params)
    _warn_of_few(folders, params)
    if not records.is_written(directory):
        tf.logging.info('Converting the pictures to %s', directory)
        tf.io.gfile.makedirs(directory)
        for path, reason in folders.unmatched.items():
            unreadable.add(path, reason)
        splits = {name: Pictures(folders, name, unreadable, dark) for name in folders.splits}
        records.write(directory, splits, fingerprint=os.path.basename(directory))
    total = sum(map(len, folders.splits.values())) + len(folders.unmatched)
    _check_unreadable(unreadable, params, total, folders)
    for split in folders.unlabeled:
        tf.logging.warning('%s: the split %s %s.', folders.root, split, _unlabeled(folders, split))
    if count := len(dark.lines()):
        tf.logging.warning('%d of %d pictures, listed in %s, %s.', count, total, dark.path, _DARK)
    if folders.has_masks:
        found, described = _masks(data_dir, params, folders)
        mask_classes.log(folders.root, found, described, params.train_split)
    else:
        names = dict(enumerate(folders.class_names))
        counts = {
            split: {names[label]: count for label, count in found.items() if label in names}
            for split, found in _counts(folders).items()
        }
        log_classes(folders.root, folders.class_names, counts, params.train_split)


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
    arguments = root, images.SUFFIXES, train_split, eval_share, folds, fold
    found = mask_folders.scan(*arguments) or class_folders.scan(*arguments)
    if train_split not in found.splits:
        splits = ', '.join(found.splits)
        raise UsageError(f'{root}: has no split {train_split} to train on: name one with --hparams=train_split: {splits}')
    return found


def _masks(data_dir, params, folders):
    """Returns what the masks of converted splits have, and their metadata."""
    found = mask_classes.survey(_directory(data_dir, folders), [*folders.splits])
    names = mask_classes.read_names(folders.root)
    needed = {params.train_split, 'train', *class_folders.eval_names(params.train_split)}
    return found, mask_classes.describe(folders.root, found, _num_classes(params, found, names), names, needed)


def _num_classes(params, found, names):
    """Returns the number of classes of masks as given; that of the model, unless masks have others; 0 if they tell it."""
    known = params.metadata.get('mask_values')
    if known is None:
        return params.num_classes
    # The metadata's is merged into the hyper-parameters: whether it was given is unknown.
    has_others = any({*pixels} - {*known, IGNORED} for pixels in found.values())
    return 0 if names or has_others else len(known)


def _directory(data_dir, folders):
    return os.path.join(data_dir, f'image_folder-{_VERSION}-{folders.fingerprint()}')


def _warn_of_few(folders, params):
    """Warns of classes of which some folds have no picture."""
    if not params.get('folds') or folders.has_masks:
        return
    found = _counts(folders)
    counts = found[params.train_split] + found['eval']
    if few := [f'{folders.class_names[label]} has {counts[label]}' for label in sorted(counts) if counts[label] < params.folds]:
        tf.logging.warning(
            '%s: folds lack classes, of fewer pictures than %d: %s.', folders.root, params.folds, listed(few, 10)
        )


def _unlabeled(folders, split):
    names = folders.unlabeled[split]
    lacking = 'masks' if folders.has_masks else f'folder of a class, but {", ".join(names[:_MAX_LOGGED])}'
    path = os.path.join(folders.root, names[0] if folders.has_masks else split)
    return f'has no {lacking}: predict its pictures with --input={path}'


def _log(folders):
    counts = ', '.join(f'{split}: {len(files)}' for split, files in folders.splits.items())
    kind = 'masks' if folders.has_masks else f'{len(folders.class_names)} classes'
    tf.logging.info('%s: %s; pictures in %s', folders.root, kind, counts)
    if folders.ignored:
        kinds = ', '.join(f'{count} {kind}' for kind, count in sorted(folders.ignored.items()))
        tf.logging.info('%s: ignored %d other files: %s', folders.root, sum(folders.ignored.values()), kinds)


def _counts(folders):
    """Returns {split: {number of a class: pictures}}."""
    return {split: collections.Counter(file.label for file in files) for split, files in folders.splits.items()}


def _check_lost(folders, params):
    """Warns of pictures that are broken links, or no files; raises RunError if there are too many."""
    kinds = [f'{suffix}{LOST}' for suffix in images.SUFFIXES]
    lost = sum(folders.ignored.get(kind, 0) for kind in kinds)
    total = sum(map(len, folders.splits.values())) + lost
    text = f'{folders.root}: {lost} of {total} pictures are broken links, or no files'
    if lost > params.max_bad_share * total:
        raise RunError(f'{text}: restore or remove them, or raise max_bad_share={params.max_bad_share:g}')
    if lost:
        tf.logging.warning('%s: they are skipped.', text)


def _check_unreadable(unreadable, params, total, folders):
    """Logs the number of unreadable pictures; raises RunError if there are too many."""
    found = unreadable.lines()
    # Neither changes the files, so their conversion stays, with what was unreadable. Runs that are under way may be reading it.
    again = f'after installing a package or changing permissions, delete {os.path.dirname(unreadable.path)} to read them again'
    lacking = ' or have no sound mask' if folders.has_masks else ''
    text = f'{len(found)} of {total} pictures are unreadable{lacking}, listed in {unreadable.path}'
    if len(found) > params.max_bad_share * total:
        text += f', such as {os.path.join(folders.root, found[0])}' if folders.has_masks else ''
        raise RunError(f'{text}: repair or remove them, or raise max_bad_share={params.max_bad_share:g}; {again}')
    if found:
        tf.logging.warning('%s: they are skipped; %s.', text, again)


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns {'num_classes': int, 'class_names': list}; of masks what `mask_classes.describe` does."""
    folders = _scan(params)
    if folders.has_masks:
        return _masks(data_dir, params, folders)[1]
    names = list(folders.class_names)
    if params.num_classes not in (0, len(names)):
        raise UsageError(f'num_classes={params.num_classes}, but image_dir={params.image_dir} has {len(names)} classes')
    return {'num_classes': len(names), 'class_names': names}


def summary(data_dir: str, params: HParams) -> str:
    """Returns the number of pictures of each class and split, or the pixels of each class in masks."""
    folders = _scan(params)
    if folders.has_masks:
        found, described = _masks(data_dir, params, folders)
        return mask_classes.summary(folders.root, found, described)
    counts = _counts(folders)
    lines = [f'{folders.root}: {len(folders.class_names)} classes, pictures in {", ".join(counts)}:']
    for label, name in enumerate(folders.class_names[:_MAX_SHOWN]):
        lines.append(f'{name}: {", ".join(f"{found[label]:,}" for found in counts.values())}')
    if len(folders.class_names) > _MAX_SHOWN:
        lines.append(f'... and {len(folders.class_names) - _MAX_SHOWN:,} more classes')
    return '\n'.join([*lines, ''])


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples.

    They are 'image', a JPEG or PNG file; its 'height', 'width' and EXIF 'orientation', int64; 'label', int64, or 'mask', a PNG
    file; and 'id', the picture's path relative to image_dir.
    """
    folders = _scan(params)
    if params.metadata:
        _check_trained(folders, data_dir, params)
    if split in folders.unlabeled:
        raise UsageError(f'the split {split} {_unlabeled(folders, split)}')
    return records.read(_directory(data_dir, folders), folders.find_split(split, params.train_split))


def _check_trained(folders, data_dir, params):
    """Raises UsageError if the classes are not those with which the model was trained."""
    metadata, names = params.metadata, folders.class_names
    if folders.has_masks != is_segmentation(metadata):
        now, before = ('masks', 'folders of classes')[:: 1 if folders.has_masks else -1]
        raise UsageError(f'image_dir={params.image_dir}: has {now}, but the model was trained with {before}')
    if folders.has_masks:
        names = mask_classes.read_names(folders.root)
        for pixels in mask_classes.survey(_directory(data_dir, folders), [*folders.splits]).values():
            for number, (_, mask) in pixels.items():
                mask_classes.check_known(os.path.join(folders.root, mask), [number], metadata['mask_values'])
            mask_classes.warn_of_ignored(folders.root, pixels, metadata['mask_values'])
    trained = metadata.get('class_names', names)
    if list(trained) != list(names):
        raise UsageError(
            f'image_dir={params.image_dir}: the classes are {", ".join(names) or "without names"}, but the model was trained '
            f'with {", ".join(trained)}'
        )


def places(split: str, data_dir: str, params: HParams) -> Iterator[dict[str, Any]]:
    """Yields the file of each picture of a split; with masks, also its 'height' and 'width', upright."""
    folders = _scan(params)
    directory, name = _directory(data_dir, folders), folders.find_split(split, params.train_split)
    unreadable = FileList(os.path.join(directory, _UNREADABLE), folders.root).paths()
    files = folders.splits[name]
    numbers = records.kept(directory, name, [unreadable.isdisjoint((file.path, file.mask)) for file in files])
    # The list does not tell which are skipped if an older version wrote it and the directory was moved since: the records do.
    paths = _ids(split, data_dir, params) if numbers is None else (files[number].path for number in numbers)
    sizes = _sizes(split, data_dir, params) if is_segmentation(params.metadata) else itertools.repeat({})
    for path, size in zip(paths, sizes):
        yield {'file': os.path.join(folders.root, path), **size}


def _ids(split, data_dir, params):
    for values in _stored(split, data_dir, params, {'id': tf.io.FixedLenFeature([], tf.string)}):
        yield os.fsdecode(values['id'])


def _sizes(split, data_dir, params):
    for values in _stored(split, data_dir, params, stored_pictures.SIZES):
        height, width = masks.upright_size({name: int(value) for name, value in values.items()})
        yield {'height': height, 'width': width}


def _stored(split, data_dir, params, spec):
    """Yields {name: value} of the features of a spec that each record of a split has."""

    def make():
        serialized = read(split, data_dir, params).batch(_BATCH)
        return serialized.map(lambda examples: tf.io.parse_example(examples, spec))

    for batch in elements.elements(make):
        for values in zip(*batch.values()):
            yield dict(zip(batch, values))


def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns {'image': float32 [image_size, image_size, num_channels] in [0, 1], 'example_id': string}, {'label': int32}.

    The label of a mask is [image_size, image_size]. In PREDICT there are no labels, and only 'image' is required.
    """
    spec = {**stored_pictures.spec(), 'id': tf.io.FixedLenFeature([], tf.string, '')}
    has_masks = is_segmentation(params.metadata)
    if mode != tf.estimator.ModeKeys.PREDICT:
        spec |= {'mask': tf.io.FixedLenFeature([], tf.string)} if has_masks else {'label': tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(serialized, spec)
    image = stored_pictures.to_square(example, params.image_size, params.num_channels)
    features = {'image': image, 'example_id': example['id']}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return features, None
    if has_masks:
        return features, {'label': masks.to_square(example['mask'], params.image_size, params.metadata['mask_values'])}
    return features, {'label': tf.cast(example['label'], tf.int32)}


def from_raw(params: HParams, raw: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns {'image': float32 [batch, image_size, image_size, num_channels] in [0, 1]} of image files, as `parse` does."""
    return {'image': stored_pictures.files_to_squares(raw['image'], params.image_size, params.num_channels)}


@functools.cache
def _warn_of_dark():
    tf.logging.warning('Pictures of the input %s.', _DARK)


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yields ({}, record) for a picture, with its 'height' and 'width' for a model of masks; nothing for a mask beside one.

    Raises:
      UsageError: it cannot be read.
    """
    has_masks = is_segmentation(params.metadata)
    if has_masks and mask_folders.is_mask(path):
        return
    picture = _read(path)
    size = dict(zip(('height', 'width'), masks.upright_size(picture))) if has_masks else {}
    yield size, records.encode({**picture, 'id': os.fsencode(path)})


def _read(path):
    """Returns what `read_picture` does; raises UsageError, with the path, for a picture that cannot be read."""
    try:
        return read_picture(path, lambda text: _warn_of_dark())
    except images.ImageError as error:
        raise UsageError(f'{path} {error}') from None


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yields ({}, record) for a picture in a folder that is named after its class, or in a folder images beside one of masks.

    Raises:
      RunError: the folder is not, or there is no mask.
      UsageError: the picture cannot be read.
    """
    if not is_segmentation(params.metadata):
        label = class_folders.label_of(path, params.metadata['class_names'])
        yield {}, records.encode({**_read(path), 'label': label, 'id': os.fsencode(path)})
    elif not mask_folders.is_mask(path):
        yield {}, records.encode({**_read_with_mask(path, params.metadata['mask_values']), 'id': os.fsencode(path)})


def _read_with_mask(path, values):
    mask, picture = mask_folders.mask_of(path), _read(path)
    try:
        pixels = masks.read_mask(mask, *masks.upright_size(picture))
    except images.ImageError as error:
        raise RunError(f'{mask} {error}') from None
    record = masks.to_record(pixels)
    numbers = record['mask_pixels'].nonzero()[0].tolist()
    mask_classes.check_known(mask, numbers, values)
    mask_classes.warn_of_ignored(os.path.dirname(mask), numbers, values)
    return {**picture, **record}

"""A directory with pictures in images/ and their masks in masks/; or with such folders for each split."""

import collections
from collections.abc import Collection
import os
import unicodedata

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.formats import class_folders
from estimator_trainer.common.formats.class_folders import ClassFolders, File
from estimator_trainer.common.formats.folders import files_of, folders_of
from estimator_trainer.common.unicode_forms import composed

IMAGES, MASKS = 'images', 'masks'
_VOC = {'JPEGImages', 'SegmentationClass'}


def find(root: str, train_split: str) -> dict[str, tuple[str, str]]:
    """Returns {split: (folder of pictures, folder of masks)}, relative to a directory; {} if it has no masks.

    The splits' folders may be above images and masks, as train/images, or below them, as images/train. Without any, the only
    split is ''.

    Raises:
      UsageError: the directory is laid out as Pascal VOC, whose folders are no classes; or masks of an evaluation's split have
        no folder of pictures.
    """
    if not os.path.isdir(root):
        return {}
    pair, folders = {IMAGES, MASKS}, folders_of(root)
    if pair <= {*folders}:
        below = folders_of(os.path.join(root, IMAGES))
        if train_split not in below or train_split not in folders_of(os.path.join(root, MASKS)):
            return {'': (IMAGES, MASKS)}
        return _places(root, train_split, below, '{kind}/{split}')
    if {*folders} >= _VOC:
        raise UsageError(
            f'{root}: is laid out as Pascal VOC: link its pictures and masks to train/images, train/masks, val/images and '
            'val/masks of another directory, as docs/segmentation.md shows'
        )
    if train_split not in folders or not pair <= {*folders_of(os.path.join(root, train_split))}:
        return {}
    splits = [name for name in folders if IMAGES in folders_of(os.path.join(root, name))]
    return _places(root, train_split, splits, '{split}/{kind}')


def _places(root, train_split, splits, layout):
    """Returns {split: (folder of pictures, folder of masks)}; raises UsageError if an evaluation's split has masks alone."""

    def place(split):
        return layout.format(split=split, kind=IMAGES), layout.format(split=split, kind=MASKS)

    for images, masks in map(place, {*class_folders.eval_names(train_split)} - {*splits}):
        if os.path.isdir(os.path.join(root, masks)):
            raise UsageError(f'{root}: has the folder {masks}, but not {images} with the pictures: add it, or remove {masks}')
    return {split: place(split) for split in splits}


def scan(
    root: str, suffixes: Collection[str], train_split: str, eval_share: float, folds: int = 0, fold: int = 1
) -> ClassFolders | None:
    """Lists the pictures of a directory with their masks, which have the same names up to the suffix; None if it has no masks.

    Args, splits and errors are those of `class_folders.scan`, without classes.
    """
    found = find(root, train_split)
    if not found:
        return None
    ignored: collections.Counter[str] = collections.Counter()
    splits: dict[str, list[File]] = {}
    unlabeled: dict[str, list[str]] = {}
    unmatched: dict[str, str] = {}
    if '' not in found:
        for folder in (IMAGES, MASKS):  # Above the folders of splits, if these are there.
            if os.path.isdir(os.path.join(root, folder)):
                folders_of(os.path.join(root, folder), ignored, ' outside of splits')
    for split, (images, masks) in found.items():
        if os.path.isdir(os.path.join(root, masks)):
            splits[split or 'train'], others = _pairs(root, images, masks, suffixes, ignored)
            unmatched |= others
        else:  # As in some test splits.
            unlabeled[split] = [images]
    trained = train_split if train_split in splits else 'train'
    held_out = next((name for name in class_folders.eval_names(train_split) if name in splits), None)
    if held_out:
        class_folders.check_no_folds(os.path.join(root, held_out), train_split, folds)
    elif len(splits[trained]) < max(folds, 2):
        others = ', or use fewer folds' if folds else ''
        raise UsageError(
            f'{root}: has {len(splits[trained])} pictures with a mask, but needs {max(folds, 2)}: add some{others}'
        )
    else:
        splits[trained], splits['eval'] = class_folders.hold_out(root, splits[trained], eval_share, folds, fold)
    return ClassFolders(root, (), splits, ignored, unlabeled, unmatched)


def _pairs(root, images, masks, suffixes, ignored):
    """Returns the pictures with a mask, and {path: reason} of the others and of masks without a picture, one of each name."""
    (pictures, lost), (drawn, lost_masks) = (_by_name(root, folder, suffixes, ignored) for folder in (images, masks))
    lost = lost_masks | lost
    both = pictures.keys() & drawn.keys()
    if not both:
        picture, mask = (next(iter(found)) for found in (pictures, drawn))
        raise UsageError(
            f'{root}: no picture has a mask: {os.path.join(images, pictures[picture][0])} needs one named '
            f'{os.path.join(masks, picture)}.png; there is {os.path.join(masks, drawn[mask][0])}'
        )
    files = []
    for name in both:
        (path, stat), (mask, of_mask) = pictures[name], drawn[name]
        path, state = os.path.join(images, path), (of_mask.st_size, of_mask.st_mtime_ns)
        place = class_folders.position_of(path)
        files.append(File(path, 0, stat.st_size, stat.st_mtime_ns, place, os.path.join(masks, mask), state))
    lacking = {
        os.path.join(images, pictures[name][0]): f'has no mask {os.path.join(masks, name)}.png'
        for name in pictures.keys() - both - lost.keys()
    }
    alone = drawn.keys() - both - lost.keys()
    lacking |= {os.path.join(masks, drawn[name][0]): f'has no picture in {images}' for name in alone}
    lacking |= dict.fromkeys(lost.values(), 'is a broken link, or no file')
    return class_folders.in_order(files), dict(sorted(lacking.items()))


def _by_name(root, folder, suffixes, ignored):
    """Returns the files in a folder and those that are lost, below the root.

    They are {path in the folder, composed and without suffix: (path there, stat)}, and {the same: path below the root}.
    """
    found: dict[str, tuple[str, os.stat_result]] = {}
    lost: list[str] = []
    directory = os.path.join(root, folder)
    for path, stat in files_of(directory, suffixes, ignored, lost):
        path = os.path.relpath(path, directory)
        name = _name_of(path)
        if name in found:
            raise UsageError(
                f'{directory}: {found[name][0]} and {path} differ in the suffix only, or in how accents are stored, so that '
                'picture and mask cannot be matched: rename one'
            )
        found[name] = path, stat
    if not found:
        links = f' but {len(lost)} broken links: restore what they link to' if lost else ''
        raise UsageError(f'{directory}: has no files named *{", *".join(sorted(suffixes))}{links}')
    return found, {_name_of(os.path.relpath(path, directory)): os.path.relpath(path, root) for path in lost}


def _name_of(path):
    return composed(os.path.splitext(path)[0])


def mask_of(picture: str) -> str:
    """Returns the path of the mask of a picture below a folder images that is beside one named masks.

    Raises:
      RunError: there is none.
    """
    beside = _beside(picture, IMAGES, MASKS)
    if not beside:
        raise RunError(f'{picture}: has no mask: the folder {IMAGES} needs one named {MASKS} beside it')
    for start, name in beside:
        for form in dict.fromkeys([name, *(unicodedata.normalize(form, name) for form in ('NFC', 'NFD'))]):
            for suffix in ('png', 'PNG'):
                mask = os.path.join(start, f'{form}.{suffix}')
                if os.path.isfile(mask):
                    return mask
    raise RunError(f'{picture}: has no mask {os.path.join(*beside[0])}.png')


def is_mask(path: str) -> bool:
    """Whether a file is below a folder masks that is beside one named images."""
    return bool(_beside(path, MASKS, IMAGES))


def _beside(path, folder, other):
    """Returns (folder, path) for each place where a path is below `folder`, beside one named `other`.

    They are the folder `other`, and the path below it, without suffix.
    """
    parts, found = os.path.splitext(os.path.abspath(path))[0].split(os.sep), []
    for i in reversed(range(len(parts) - 1)):
        start = os.sep.join([*parts[:i], other])
        if parts[i] == folder and os.path.isdir(start):
            found.append((start, os.path.join(*parts[i + 1 :])))
    return found

"""A directory with a folder per class, or with a folder per split that contains one per class."""

import collections
from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
import functools
import hashlib
import os
from typing import NamedTuple

import numpy as np

from estimator_trainer.common import folds as folds_of
from estimator_trainer.common.errors import RunError, UsageError, and_more, listed
from estimator_trainer.common.formats.folders import files_of, folders_of
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.unicode_forms import composed

_EVAL = ('eval', 'val', 'valid', 'validation')
_SPLITS = (*_EVAL, 'test')
_MAX_SHOWN = 5  # Names in a message.


class File(NamedTuple):
    """A file of a class.

    path is relative to the directory, size in bytes, time that of the last change in ns. position is a checksum of the path, in
    [0, 1). A picture with a mask, of class 0, has the mask's path, and its size and time.
    """

    path: str
    label: int
    size: int
    time: int
    position: float
    mask: str = ''
    mask_state: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class ClassFolders:
    """The files of a directory.

    Attributes:
      ignored: counts the unlisted files by kind.
      unlabeled: the folders of files beside that of the training split whose folders are no classes: {name: their names};
        of pictures without masks, their own.
      unmatched: {path: reason} of the pictures without a mask, and of the masks without a picture.
    """

    root: str
    class_names: Sequence[str]
    splits: Mapping[str, Sequence[File]]
    ignored: Mapping[str, int]
    unlabeled: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    unmatched: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def has_masks(self) -> bool:
        """Whether the files are pictures with masks, in place of classes."""
        return not self.class_names

    def fingerprint(self) -> str:
        """Returns a hash of the files' paths, sizes, times, labels and splits."""
        states = {split: [file[:4] + file[5:] * bool(file.mask) for file in files] for split, files in self.splits.items()}
        content = repr(sorted(states.items())) + (repr(sorted(self.unmatched)) if self.unmatched else '')
        return hashlib.sha256(content.encode('utf-8', 'surrogateescape')).hexdigest()[:16]

    def find_split(self, split: str, train_split: str) -> str:
        """Returns the name under which a split is listed: eval may be called val, valid or validation."""
        return next((name for name in eval_names(train_split) if name in self.splits), split) if split == 'eval' else split


def scan(
    root: str, suffixes: Collection[str], train_split: str, eval_share: float, folds: int = 0, fold: int = 1
) -> ClassFolders:
    """Lists the files of a directory's classes, including those in nested folders.

    If the directory has a folder of classes named train_split, each of its folders is a split. Otherwise its folders are the
    classes. Without a folder for 'eval', a share of each class is held out for it. Checksums of the paths select these files,
    so that adding files does not move others. The files of a split are in the order of the checksums, which mixes the classes.
    A folder beside those of the splits for training and evaluation may have other folders, such as test/unknown.

    Args:
      root: the directory.
      suffixes: the files to list, such as '.png'; their case does not matter. Others, and those that `is_foreign` knows, are
        ignored.
      train_split: the name of the split to train on.
      eval_share: greater than 0 and less than 1.
      folds, fold: the number of parts of each class, one of which is held out instead, the first is 1; 0 if there are none.

    Raises:
      UsageError: the directory does not have this structure; the message names what is missing.
      OSError: a directory cannot be read.
    """
    if is_remote(root):
        raise UsageError(f'{root}: must be a local directory: mount the bucket as one')
    if not os.path.isdir(root):
        raise UsageError(f'{root}: is not a directory' if os.path.exists(root) else f'{root}: no such directory')

    divide = functools.partial(hold_out, root, eval_share=eval_share, folds=folds, fold=fold)
    ignored: collections.Counter[str] = collections.Counter()
    folders = folders_of(root, ignored)
    train = os.path.join(root, train_split)
    if train_split not in folders or not folders_of(train, collections.Counter()):
        return _with_held_out(root, folders, suffixes, divide, ignored)
    return _with_split_folders(root, folders, suffixes, train_split, divide, ignored, folds)


def _with_held_out(root, class_names, suffixes, divide, ignored):
    """Returns the ClassFolders of a directory whose folders are classes."""
    split = next((name for name in class_names if name in _SPLITS and folders_of(os.path.join(root, name))), None)
    if split:
        raise UsageError(f'{root}: has the folder {split} with folders of classes, but no folder train with some')
    files = _files(root, '', class_names, class_names, suffixes, ignored)
    _check_classes(root, class_names, files, suffixes)
    train, held_out = divide(files)
    return ClassFolders(root, class_names, {'train': train, 'eval': held_out}, ignored)


def _with_split_folders(root, folders, suffixes, train_split, divide, ignored, folds):
    """Returns the ClassFolders of a directory whose folders are splits."""
    class_names = folders_of(os.path.join(root, train_split), ignored)
    labels = _labels(class_names)
    splits, unlabeled = {}, {}
    for split in folders:
        names = class_names if split == train_split else folders_of(os.path.join(root, split), ignored)
        unknown = [name for name in names if composed(name) not in labels]
        if unknown and (len(unknown) < len(names) or split in eval_names(train_split)):
            known = and_more(class_names, _MAX_SHOWN)
            raise UsageError(
                f'{os.path.join(root, split, unknown[0])}: there is no such class in {train_split}, which has {known}'
            )
        if unknown:
            if any(True for _ in files_of(os.path.join(root, split), suffixes)):
                unlabeled[split] = unknown
        elif names:  # Without classes, as in some test splits, evaluation is impossible.
            splits[split] = _files(root, split, names, class_names, suffixes, ignored)
    _check_classes(os.path.join(root, train_split), class_names, splits[train_split], suffixes)
    held_out = next((name for name in eval_names(train_split) if name in splits), None)
    if held_out:
        check_no_folds(os.path.join(root, held_out), train_split, folds)
        _check_classes(os.path.join(root, held_out), class_names, splits[held_out], suffixes)
    else:
        splits[train_split], splits['eval'] = divide(splits[train_split])
    return ClassFolders(root, class_names, splits, ignored, unlabeled)


def check_no_folds(held_out: str, train_split: str, folds: int) -> None:
    """Raises UsageError if there are folds beside a folder of the split eval."""
    if folds:
        raise UsageError(f'{held_out}: folds of {train_split} take the place of the split eval: move it, or rename it to test')


def eval_names(train_split: str) -> list[str]:
    """Returns the possible names of the split 'eval', except that of the training split unless that is 'eval' itself."""
    return [name for name in _EVAL if name != train_split or name == 'eval']


def _check_classes(directory, class_names, files, suffixes):
    """Raises UsageError if there are fewer than two classes, or one has no files."""
    for name in class_names:
        if any('\ud800' <= character <= '\udfff' for character in name):
            raise UsageError(f'{os.path.join(directory, ascii(name))}: the name of a class must be UTF-8: rename the folder')
    if len(class_names) < 2:
        found = f'only one folder, {class_names[0]}' if class_names else 'no folders'
        raise UsageError(
            f'{directory}: has {found}, but needs one for each of at least two classes{_hint(directory, class_names)}'
        )
    counts = collections.Counter(file.label for file in files)
    for label, name in enumerate(class_names):
        if not counts[label]:
            where = os.path.join(directory, name) if files else directory
            found = _contents(where) if os.path.isdir(where) else ''
            raise UsageError(
                f'{where}: has no files named *{", *".join(sorted(suffixes))}' + (f'; it has {found}' if found else '')
            )


def _hint(directory, class_names):
    """Returns what else the message on a directory with fewer than two folders says: the folder that may be meant, or files."""
    inner = [os.path.join(directory, name) for name in class_names]
    if inner and len(folders_of(inner[0])) > 1:
        return f': give {inner[0]}, which has {and_more(folders_of(inner[0]), _MAX_SHOWN)}, if that is meant'
    found = _contents(directory)
    return f'; it has {found}' if found and not inner else ''


def _contents(directory):
    """Returns what a directory contains, with folders by name and files by kind, such as '2 .txt, the folder old'."""
    files: collections.Counter[str] = collections.Counter()
    folders = [f'the folder {name}' for name in folders_of(directory, files, '')]
    return and_more([*(f'{count} {kind}' for kind, count in sorted(files.items())), *folders], _MAX_SHOWN)


def label_of(path: str, class_names: Sequence[str]) -> int:
    """Returns the class of a file, after which its folder is named; raises RunError if it is named otherwise."""
    labels, folder = _labels(class_names), composed(os.path.basename(os.path.dirname(path)))
    if folder not in labels:
        raise RunError(f'{path}: its folder, {folder or "."}, is not named after a class: {listed(class_names, 5)}')
    return labels[folder]


def _labels(class_names):
    """Returns {name: number} of classes, with composed accents; of equal names, the first."""
    return {composed(name): label for label, name in reversed([*enumerate(class_names)])}


def hold_out(root: str, files: Sequence[File], eval_share: float, folds: int, fold: int) -> tuple[list[File], list[File]]:
    """Returns (rest, held out), by `scan`'s share or fold of each class; raises UsageError if a class has only one file."""
    counts = collections.Counter(file.label for file in files)
    if single := next((file for file in files if counts[file.label] < 2), None):
        raise UsageError(f'{os.path.join(root, single.path)}: is the only file of its class: evaluation needs another')
    are_held_out = _in_fold(files, folds, fold) if folds else _by_share(files, eval_share)
    found = [*zip(files, are_held_out)]
    return [file for file, is_held_out in found if not is_held_out], [file for file, is_held_out in found if is_held_out]


def _by_share(files, share):
    """Whether each file is held out: those of each class whose position is below the share, at least one, not all."""
    by_class = collections.defaultdict(list)
    for file in files:
        by_class[file.label].append(file)
    held_out = set()
    for members in by_class.values():
        count = sum(file.position < share for file in members)
        held_out.update(members[: min(max(count, 1), len(members) - 1)])
    return [file in held_out for file in files]


def _in_fold(files, folds, fold):
    """Whether each file is held out: a fold of those of each class, in the order of their positions."""
    labels = np.array([file.label for file in files])
    return folds_of.stratified(np.arange(len(files)), labels, folds) == fold - 1


def _files(root, split, names, class_names, suffixes, ignored):
    """Returns the files of some classes of a split, in the order of their positions."""
    found, labels = [], _labels(class_names)
    for name in names:
        label = class_names.index(name) if name in class_names else labels[composed(name)]
        for path, stat in files_of(os.path.join(root, split, name), suffixes, ignored):
            path = os.path.relpath(path, root)
            found.append(File(path, label, stat.st_size, stat.st_mtime_ns, position_of(path)))
    return in_order(found)


def position_of(path: str) -> float:
    """Returns the position of a file with a relative path."""
    return int.from_bytes(hashlib.sha256(os.fsencode(path)).digest()[:6], 'big') / 2**48


def in_order(files: Iterable[File]) -> list[File]:
    """Returns files in the order of their positions."""
    return sorted(files, key=lambda file: (file.position, file.path))

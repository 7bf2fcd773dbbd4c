"""Finds the TFRecord files of each split of users' own data, by one rule for the names that tools give them."""

import collections
from collections.abc import Iterable, Sequence
import itertools
import os
import re

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, listed
from estimator_trainer.common.files import names_in
from estimator_trainer.common.foreign_files import is_foreign
from estimator_trainer.common.records.compressed import SUFFIXES, without_suffix

PATTERNS = ('*.tfrec*', '*.tfr', '*.record*', '*-of-[0-9]*')  # Of lower-case names.
_COMPRESSED = '|'.join(map(re.escape, SUFFIXES))
_NAME = re.compile(
    rf'([^.].*?)(-\d+(?P<total>-of-\d+)?)?(?P<suffix>\.(tfrec(ord)?s?|tfr|records?))?(?P<end>-\d+-of-\d+)?({_COMPRESSED})?',
    re.IGNORECASE,
)
_MAX_SHOWN = 10


def find_record_files(directory: str) -> dict[str, list[str]]:
    """Returns {split: paths} of the TFRecord files in a directory.

    The names end with .tfrecord, .tfrecords, .tfrec, .tfr or .record, or are numbered, as in train-00000-of-00001, or both;
    the end of a compressed file, such as .gz, may follow. The split is the last part before that, in lower case: that of
    mnist-train.tfrecord and TRAIN.TFRECORD is train. Without such files, those in each folder are the split of its name.

    Raises:
      UsageError: there is no such file or directory, or a file beside its compressed copy.
      RunError: there are train-00000-of-00003 and train-00001-of-00003, but no train-00002-of-00003.
    """
    given = f'--hparams=tfrecord_dir={directory}'
    if not tf.io.gfile.isdir(directory):
        is_file = tf.io.gfile.exists(directory)
        raise UsageError(f'{given}: {"is a file: give its directory" if is_file else "there is no such directory"}')
    named = [(_split_of(path), path) for path in _paths(directory)]
    names = [name for name in names_in(directory) if not is_foreign(name)]
    if not named:
        folders = [name for name in names if tf.io.gfile.isdir(os.path.join(directory, name))]
        named = [(name.lower(), path) for name in folders for path in _paths(os.path.join(directory, name))]
    files: dict[str, list[str]] = {}
    for split, path in named:
        files.setdefault(split, []).append(path)
    if not files:
        raise UsageError(
            f'{given}: there is no file named train.tfrecord, or train-00000-of-00001; '
            f'there are: {listed(names, _MAX_SHOWN) or "no files"}'
        )
    _check_unique(files.values())
    _check_complete(itertools.chain(*files.values()))
    return files


def _paths(directory):
    """Returns the paths of the TFRecord files in a directory."""
    matches = filter(None, map(_NAME.fullmatch, names_in(directory)))
    return [os.path.join(directory, match[0]) for match in matches if match['suffix'] or match['total'] or match['end']]


def _split_of(path):
    stem = _NAME.fullmatch(os.path.basename(path))[1]  # type: ignore[index]
    return re.split('[-.]', stem)[-1].lower()


def _check_unique(splits: Iterable[Sequence[str]]) -> None:
    for paths in splits:
        seen: dict[str, str] = {}
        for path in paths:
            other = seen.setdefault(without_suffix(path), path)
            if other != path:
                raise UsageError(f'{other}: {os.path.basename(path)} seems to be a compressed copy of it: remove one of them')


def _check_complete(paths):
    numbers = collections.defaultdict(set)
    for path in paths:
        if match := re.fullmatch(r'(.*-)(\d+)(-of-(\d+)[^/]*)', path):
            numbers[match[1], len(match[2]), match[3], int(match[4])].add(int(match[2]))
    for (start, digits, end, total), found in numbers.items():
        if len(found) < total:
            first = int(total in found)  # Some count from 1.
            missing = next(number for number in range(first, first + total) if number not in found)
            raise RunError(
                f'{start}{missing:0{digits}}{end}: is missing, but others of the {total} exist: restore it, or rename them'
            )

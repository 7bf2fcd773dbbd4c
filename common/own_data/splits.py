"""Finds the file of each split of users' own data, or holds out a share of a single file."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import functools
import hashlib
import json
import os
import re
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.files import names_in, stamp
from estimator_trainer.common.foreign_files import is_foreign
from estimator_trainer.common.paths import is_remote

EVAL = ('eval', 'val', 'valid', 'validation', 'dev')  # Names of the split eval.
_MAX_SHOWN = 10
VERSION = 1  # Of the converted format: a change converts anew.


@dataclasses.dataclass(frozen=True)
class SplitFile:
    """A file of one split, or of two, the second with a share of the rows.

    Attributes:
      moved: the numbers of the rows that are in the other one of two splits than their checksums say.
    """

    path: str
    splits: tuple[str, ...]
    share: float = 0
    moved: frozenset[int] = frozenset()

    def with_moved(self, metadata: Mapping[str, Any]) -> 'SplitFile':
        """Returns the same file, with the rows that the metadata of its own conversion names."""
        return dataclasses.replace(self, moved=frozenset(metadata.get('moved_rows', ())))

    def name_of(self, split: str) -> str:
        """Returns the name in this file of a split that `Files.find` finds in it."""
        return split if split in self.splits else self.splits[0]

    def split_of(self, row: int) -> str:
        """Returns the split of a row by its number: a checksum decides, so each run holds out the same rows."""
        return self.splits[len(self.splits) > 1 and (checksum(row) < self.share * 2**64) != (row in self.moved)]

    def are_in(self, split: str, first: int, count: int) -> np.ndarray:
        """Returns which of the rows from number `first` on are in a split, bool [count]."""
        if len(self.splits) == 1:
            return np.full(count, split == self.splits[0])
        held_out = _held_out(first, count, self.share).copy()
        begin, end = np.searchsorted(self._moved, [first, first + count])
        held_out[self._moved[begin:end] - first] ^= True
        return held_out if split == self.splits[1] else ~held_out

    @functools.cached_property
    def _moved(self):
        return np.array(sorted(self.moved), np.int64)


def checksum(row: int) -> int:
    """Returns the checksum of a row's number, below 2**64."""
    return int.from_bytes(_digest(row), 'little')


def _digest(row):
    return hashlib.blake2b(row.to_bytes(8, 'little'), digest_size=8).digest()


@functools.lru_cache(1024)  # Each pass over a file asks for the same rows.
def _held_out(first, count, share):
    checksums = np.frombuffer(b''.join(map(_digest, range(first, first + count))), '<u8')
    return checksums < min(int(share * 2**64), 2**64 - 1)


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of users' data; the hyper-parameter `name` gives their path, that of a directory or of a single file.

    Attributes:
      trained: the split that is trained on, which is not another name of the split eval.
    """

    name: str
    path: str
    files: Sequence[SplitFile]
    trained: str = 'train'

    def find(self, split: str) -> SplitFile:
        """Returns the file that contains a split; raises UsageError if there is none.

        The split eval may be called val, valid, validation or dev.
        """
        for name_of_split in (split, *(name for name in EVAL if split == 'eval' and name != self.trained)):
            for file in self.files:
                if name_of_split in file.splits:
                    return file
        wanted = f'{split}{os.path.splitext(self.files[0].path)[1]}'
        cure = f'add {wanted}'
        if split == 'train' and len(self.files) > 1:
            cure += ', or join the other files into one'
        if self.files[0].path == self.path:
            cure = 'raise eval_share' if split == 'eval' else f'give a directory with {wanted}'
        elif split == 'eval':
            trained = next((file.path for file in self.files if self.trained in file.splits), self.files[-1].path)
            cure = f'add {wanted}, give {trained}, a share of which is then held out'
            cure += ', with train_split=train' if self.trained != 'train' else ''
        known = ', '.join(known for file in self.files for known in file.splits)
        raise UsageError(
            f'--hparams={self.name}={self.path}: there is no split {split}: the splits are: {known}: {cure}, or name another '
            'with --eval_splits, --predict_split or --hparams=train_split'
        )

    def directory(self, data_dir: str, kind: str, facts: Any, version: int = VERSION) -> str:
        """Returns that of the conversion of the files; see `fingerprint`."""
        paths = [file.path for file in self.files]
        return os.path.join(data_dir, f'{kind}-{fingerprint(self.path, paths, facts, version)}')


def find_files(
    name: str, path: str, suffixes: tuple[str, ...], eval_share: float, trained: str = 'train', divided: str = ''
) -> Files:
    """Returns the files of a directory, each named by its split, such as train.csv or TRAIN.CSV.gz, or a single file.

    Args:
      name: the hyper-parameter that gives the path, for messages.
      path: its value.
      suffixes: of the files in a directory, such as '.csv'.
      eval_share: of the rows of a single file, held out for evaluation.
      trained: the split that is trained on.
      divided: the split, if any, a fold of which is the split eval; `folds` then finds its rows.

    Raises:
      UsageError: there is no such file, or the directory contains none, or two of one split.
    """
    given = f'--hparams={name}={path}'
    if not path:
        names = f'train{suffixes[0]} and eval{suffixes[0]}'
        raise UsageError(f'--hparams={name}=PATH is required: a file, or a directory of {names}')
    if not tf.io.gfile.exists(path):
        where = '' if os.path.isabs(path) or is_remote(path) else f' in the current directory, {os.getcwd()}'
        raise UsageError(f'{given}: there is no such file or directory{where}')
    if not tf.io.gfile.isdir(path):
        splits, share = ('train', 'eval') if divided or eval_share else ('train',), 0 if divided else eval_share
        return Files(name, path, [SplitFile(path, splits, share)], trained)
    files: dict[str, str] = {}
    entries = [entry for entry in names_in(path) if not is_foreign(entry)]
    for entry in entries:
        split, suffix = os.path.splitext(re.sub(r'\.gz$', '', entry.lower()))
        if suffix in suffixes:
            if split in files:
                both = f'{os.path.basename(files[split])} and {entry}'
                raise UsageError(f'{given}: both {both} are of the split {split}: remove one')
            files[split] = os.path.join(path, entry)
    if not files:
        there = listed(entries, _MAX_SHOWN) or 'no files'
        raise UsageError(f'{given}: the directory has no file named train{suffixes[0]}; it has: {there}')
    if divided and (held_out := [split for split in EVAL if split in files and split != divided]):
        raise UsageError(
            f'{given}: folds of {divided} take the place of the split eval, but there is '
            f'{os.path.basename(files[held_out[0]])}: move it, or rename it to test'
        )
    found = [SplitFile(file, (split, 'eval') if split == divided else (split,)) for split, file in files.items()]
    return Files(name, path, found, trained)


def fingerprint(source: str, paths: Iterable[str], facts: Any, version: int = VERSION) -> str:
    """Returns KEY-STATE: a hash of the source and the options, and one of the state of the files and of the converter.

    Args:
      source: the user's path, a file or a directory.
      paths: of its files.
      facts: further inputs of the conversion, as JSON values.
      version: of the converter.
    """
    return f'{_hash([source, facts])}-{_hash([version, [(path, *stamp(path)) for path in paths]])}'


def _hash(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def log_outdated(directory: str, source: str) -> None:
    """Logs outdated conversions of the same source beside a directory named by `fingerprint`.

    They are not deleted: another run may be reading them.
    """
    parent, name = os.path.split(directory)
    same_source = f'{name.rpartition("-")[0]}-'
    others = [other for other in names_in(parent or '.') if other.startswith(same_source) and other != name]
    if others:
        tf.logging.info(
            '%s: earlier conversions, which can be deleted unless a run is reading them: %s',
            source,
            ' '.join(os.path.join(parent, other) for other in others),
        )

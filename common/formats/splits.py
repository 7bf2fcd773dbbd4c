"""Finds the file of each split of a user's own data, or holds out a share of a single file."""

from collections.abc import Callable, Iterable, Mapping
import hashlib
import json
import os
from typing import Any

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.file_systems import stamp

VERSION = 1  # Of what is converted to: another one converts anew.


def find_files(name: str, path: str, suffixes: Iterable[str]) -> dict[str, str]:
    """Returns {split: path} of the files of a directory, such as train.csv; or {'': path} if the path is a file.

    Args:
      name: the hyper-parameter that gives the path, for messages.
      path: what it gives.
      suffixes: of the files in a directory, such as '.csv'.

    Raises:
      UsageError: there is no such file, or the directory contains none, or two of one split.
    """
    suffixes = tuple(suffixes)
    if not path:
        names = f'train{suffixes[0]} and eval{suffixes[0]}'
        raise UsageError(f'--hparams={name}=PATH is required: a file, or a directory of {names}')
    if not tf.io.gfile.exists(path):
        raise UsageError(f'--hparams={name}={path}: there is no such file or directory')
    if not tf.io.gfile.isdir(path):
        return {'': path}
    files: dict[str, str] = {}
    for entry in sorted(tf.io.gfile.listdir(path)):
        split, suffix = os.path.splitext(entry)
        if suffix in suffixes and not split.startswith('.'):
            if split in files:
                both = f'{os.path.basename(files[split])} and {entry}'
                raise UsageError(f'--hparams={name}={path}: both {both} are of the split {split}: remove one')
            files[split] = os.path.join(path, entry)
    if not files:
        raise UsageError(f'--hparams={name}={path}: the directory has no file named train{suffixes[0]}')
    return files


def file_of(split: str, name: str, path: str, files: Mapping[str, str], eval_share: float) -> str:
    """Returns the file that contains a split.

    Args:
      split: its name.
      name: the hyper-parameter that gives the path, for messages.
      path: what it gives.
      files: from `find_files`.
      eval_share: as for `splits_of`.

    Raises:
      UsageError: there is no such split.
    """
    known = [known for file_split in files for known in splits_of(file_split, eval_share)[0]]
    if split not in known:
        wanted = f'{split}{os.path.splitext(next(iter(files.values())))[1]}'
        if '' in files:
            cure = 'raise eval_share' if split == 'eval' else f'give a directory with {wanted}'
        else:
            cure = f'add {wanted}'
        raise UsageError(
            f'--hparams={name}={path}: there is no split {split}: the splits are: {", ".join(known)}: {cure}, or name another '
            'with --eval_splits, --predict_split or --hparams=train_split'
        )
    return files[''] if '' in files else files[split]


def splits_of(file_split: str, eval_share: float) -> tuple[list[str], Callable[[int], str]]:
    """Returns the splits in a file, and a function from the number of a row to its split.

    Args:
      file_split: key of the file in what `find_files` returned.
      eval_share: of the rows held out for evaluation, if the key is ''.
    """
    if file_split or not eval_share:
        split = file_split or 'train'
        return [split], lambda row: split
    return ['train', 'eval'], lambda row: 'eval' if is_held_out(row, eval_share) else 'train'


def is_held_out(row: int, share: float) -> bool:
    """Whether a row is held out for evaluation: a checksum of its number decides, so that each run holds out the same."""
    checksum = hashlib.blake2b(row.to_bytes(8, 'little'), digest_size=8).digest()
    return int.from_bytes(checksum, 'little') < share * 2**64


def fingerprint(source: str, paths: Iterable[str], facts: Any, version: int = VERSION) -> str:
    """Returns KEY-STATE: a hash of what is converted and how, and one of the state of the files and of the converter.

    Args:
      source: what the user gives, a file or a directory.
      paths: of its files.
      facts: what else the conversion depends on, in a form that JSON can represent.
      version: of the converter.
    """
    return f'{_hash([source, facts])}-{_hash([version, [(path, *stamp(path)) for path in paths]])}'


def _hash(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def log_outdated(directory: str, source: str) -> None:
    """Logs which conversions beside that in a directory, named by `fingerprint`, are of earlier states of its source.

    They are not deleted: another training may be reading them.
    """
    found = tf.io.gfile.glob(f'{directory.rpartition("-")[0]}-*')
    outdated = sorted(path for path in found if os.path.basename(path) != os.path.basename(directory))
    if outdated:
        tf.logging.info(
            '%s: earlier conversions, which can be deleted unless a training is reading them: %s', source, ' '.join(outdated)
        )

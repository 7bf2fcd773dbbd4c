"""Which data a dataset of a user's own files consists of: a file of each split, or one of which a share is held out."""

from collections.abc import Callable, Iterable, Mapping
import hashlib
import json
import os
from typing import Any

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.paths import stamp


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


def split_trained_on(params: Mapping[str, Any]) -> str:
    """Returns the name of the split whose statistics count."""
    return params.get('train_split', 'train')


def file_trained_on(name: str, files: Mapping[str, str], split: str) -> str:
    """Returns the file that contains the split that is trained on; raises UsageError if there is none."""
    path = files.get('' if '' in files and split in ('train', 'eval') else split)
    if path is None:
        found = 'train, eval' if '' in files else ', '.join(files)
        raise UsageError(f'--hparams={name}: there is no split {split}: the splits are: {found}')
    return path


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


def fingerprint(paths: Iterable[str], facts: Any) -> str:
    """Returns a hash of the paths and stamps of files, and of facts that JSON can represent."""
    stats = [(path, *stamp(path)) for path in paths]
    return hashlib.sha256(json.dumps([stats, facts], sort_keys=True).encode()).hexdigest()[:12]

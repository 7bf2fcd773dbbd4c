"""manifest.json, next to TFRecord files: their names, sizes and checksums at the time of writing."""

from collections.abc import Iterator, Mapping, Sequence
import concurrent.futures
import contextlib
import itertools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import memory
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import names_in, read_json, write_json
from estimator_trainer.common.paths import is_remote, resolve
from estimator_trainer.common.records import compressed, tfrecord, verified

_NAME = 'manifest.json'
_DECOMPRESS = {  # Commands.
    compressed.GZIP: 'gunzip',
    compressed.ZLIB: "python -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))'",
}
_LARGE = 10**9  # Bytes verified in about a second.
_verified: dict[str, Any] = {}  # {path: its `remembered.state`} of the files verified or trusted by this process.
_trusts = True  # Whether to trust the verification of an earlier process.


def exists(directory: str) -> bool:
    return tf.io.gfile.exists(_path(directory))


def save(
    directory: str, splits: Mapping[str, Sequence[Mapping[str, Any]]], interleaved: Mapping[str, int], fingerprint: str | None
) -> None:
    """Writes the manifest.

    Args:
      splits: {split: list of `describe` of its files}.
      interleaved: {split: number of consecutive files over which consecutive records are distributed}; by default all.
      fingerprint: see `fingerprint`.
    """
    entries = {
        split: {
            'count': sum(item['count'] for item in items),
            **({'interleaved': interleaved[split]} if split in interleaved else {}),
            'files': items,
        }
        for split, items in splits.items()
    }
    write_json(_path(directory), {**({} if fingerprint is None else {'fingerprint': fingerprint}), 'splits': entries})


def describe(name: str, found: tfrecord.Scan) -> dict[str, Any]:
    """Returns the entry of a file."""
    return {
        'name': name,
        'count': found.count,
        'bytes': found.bytes,
        'sha256': found.sha256,
        'crc32': found.crc32,
        'index': tfrecord.make_index(found.offsets, found.bytes),
    }


def fingerprint(directory: str) -> str | None:
    """Returns the fingerprint given to `records.write`; None if unknown."""
    try:
        return read_json(_path(directory)).get('fingerprint')
    except ValueError:
        return None


def remove(directory: str) -> list[str]:
    """Deletes the manifest, which makes the files invalid, and returns their names; none if it is missing or corrupt.

    Files elsewhere are not named.
    """
    names = []
    if exists(directory):
        try:
            names = [item['name'] for entry in _load(directory).values() for item in entry['files']]
            names = [name for name in names if not _is_elsewhere(name)]
        except RunError:
            pass
        tf.io.gfile.remove(_path(directory))
    return names


def load(directory: str, split: str) -> dict[str, Any]:
    """Returns {'count': int, 'files': list, 'interleaved': int} of a split, as `save` wrote it.

    Raises:
      UsageError: there is no such split.
      RunError: the manifest is corrupt.
    """
    splits = _load(directory)
    if split not in splits:
        raise UsageError(
            f'{directory}: there is no split {split}: the splits are: {", ".join(splits)}: name one with --eval_splits, '
            '--predict_split or --hparams=train_split'
        )
    return {'interleaved': len(splits[split]['files']), **splits[split]}


def check(directory: str, items: Sequence[Mapping[str, Any]]) -> None:
    """Verifies files against their entries in the manifest.

    Each file is read once, unless it changes: its verification is also recorded beside it, for later processes.

    Raises:
      RunError: a file is missing, or differs from what was written.
    """
    paths = {resolve(directory, item['name']): item for item in items}
    states = {path: verified.state(path, item) for path, item in paths.items()}
    known = {**(verified.load(directory) if _trusts else {}), **_verified}
    pending = [path for path, state in states.items() if state is None or known.get(path) != state]
    size = sum(paths[path]['bytes'] for path in pending)
    if size >= _LARGE:
        tf.logging.info('Verifying %d files, %s, in %s.', len(pending), memory.to_text(size), directory)
    with _pool() as pool:
        for path, defect in zip(pending, pool.map(lambda path: _find_defect(path, paths[path]), pending)):
            if defect:
                verified.forget(directory, path)
                is_own = not _is_elsewhere(paths[path]['name'])
                cure = f'delete {directory} to convert the data again' if is_own else 'restore it'
                raise RunError(f'{path}: {defect}: {cure}')
    _verified.update(states)
    if pending:
        verified.add(directory, {path: states[path] for path in pending})


@contextlib.contextmanager
def _pool():
    """Yields a pool of threads that begins nothing more once the block has failed."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def clear_cache(trusts: bool = False) -> None:
    """Makes `check` read every file again, even those verified by an earlier process, unless `trusts`."""
    global _trusts
    _trusts = trusts
    _verified.clear()


def _find_defect(path, written):
    try:
        if written or not compressed.compression_of(path):
            return tfrecord.find_damage(path, tfrecord.scan(path), written)
    except tf.errors.OpError as error:
        return 'is missing' if isinstance(error, tf.errors.NotFoundError) else f'cannot be read: {error.message}'
    try:
        with compressed.plain(path):
            return None  # Its records are verified as they are decompressed.
    except RunError as error:
        return str(error).removeprefix(f'{path}: ')


def locate_record(record: bytes) -> str | None:
    """Locates a serialized tf.train.Example in the verified files; returns None if it is in none."""
    for path in reversed(_verified):
        with contextlib.suppress(tf.errors.OpError):  # It may have been deleted since.
            offsets = tfrecord.scan(path).offsets
            for number, found in enumerate(tfrecord.read(path, len(offsets))):
                if found == record:
                    return f'{path}: record {number}, at byte {offsets[number]}'
    return None


def index(directory: str, splits: Mapping[str, Sequence[str]]) -> None:
    """Verifies files written by others by their records' checksums, and writes their manifest.

    Compressed files are decompressed to the directory, numbered if some have the same name; the other ones may be anywhere.

    Args:
      splits: {split: paths}.

    Raises:
      RunError: a file is missing or corrupt.
    """
    files = {split: [path if is_remote(path) else os.path.abspath(path) for path in paths] for split, paths in splits.items()}
    paths = list(itertools.chain(*files.values()))
    names = [compressed.without_suffix(os.path.basename(path)) for path in paths]
    if len({*names}) < len(names):  # As in the folders of splits.
        names = [f'{number}-{name}' for number, name in enumerate(names)]
    with _pool() as pool:
        items = dict(zip(paths, pool.map(lambda path, name: _describe_intact(directory, path, name), paths, names)))
    save(directory, {split: [items[path] for path in paths] for split, paths in files.items()}, dict.fromkeys(files, 1), None)
    found = {resolve(directory, item['name']): item for item in items.values()}
    states = {path: verified.state(path, item) for path, item in found.items()}
    _verified.update(states)
    verified.add(directory, states)


def _describe_intact(directory, path, name):
    """Returns the entry of a file, or of its decompressed copy, which belongs to the directory and gets the name."""
    try:
        kind = compressed.compression_of(path)
    except tf.errors.OpError as error:
        raise RunError(f'{path}: cannot be read: {error.message}') from None
    if not kind:
        return describe(path, _scan_intact(path))
    tf.logging.info('%s: is compressed with %s: decompressing it to %s.', path, kind, os.path.join(directory, name))
    return describe(name, compressed.decompress(path, os.path.join(directory, name)))


def check_alone(path: str) -> int:
    """Verifies a file without a manifest by its records' checksums; returns the number of records.

    Raises:
      RunError: the file is missing, compressed or corrupt.
    """
    found = _scan_intact(path)
    _verified[path] = None
    return found.count


def _scan_intact(path):
    """Returns the Scan of a file; raises RunError if a record's checksum is wrong."""
    try:
        found, defect = tfrecord.scan_intact(path)
        if defect:
            if kind := compressed.compression_of(path):
                raise RunError(f'{path}: is compressed with {kind}: decompress it: {_DECOMPRESS[kind]} < {path} > NEW')
            raise RunError(f'{path}: {defect}: restore it')
    except OSError as error:
        raise RunError(f'{path}: cannot be read: {error.strerror}') from None
    except tf.errors.OpError as error:
        raise RunError(f'{path}: cannot be read: {error.message}') from None
    return found


def verify(directory: str) -> Iterator[str]:
    """Yields a line for each file of a directory that says whether it is as written.

    Without a manifest, verifies all files named *.tfrecord by their records' checksums.

    Raises:
      UsageError: there are no files.
      RunError: the manifest is corrupt; or files are, after all lines have been yielded.
    """
    files: dict[str, dict[str, Any] | None]
    if exists(directory):
        files = {resolve(directory, item['name']): item for entry in _load(directory).values() for item in entry['files']}
    else:
        files = {
            os.path.join(directory, name): None
            for name in names_in(directory)
            if compressed.without_suffix(name).endswith('.tfrecord')
        }
    if not files:
        raise UsageError(
            f'{directory}: contains neither {_NAME} nor *.tfrecord files'
            if tf.io.gfile.isdir(directory)
            else f'{directory}: is not a directory'
        )
    corrupt = 0
    for path, item in files.items():
        defect = _find_defect(path, item)
        corrupt += defect is not None
        if defect:
            verified.forget(directory, path)
        yield f'{path}: {defect or ("as written" if item else "intact")}'
    if corrupt:
        raise RunError(f'{directory}: {corrupt} of {len(files)} files are corrupt')


def _load(directory):
    path = _path(directory)
    reason: str | ValueError = f'{path}: does not describe the data'
    try:
        splits = read_json(path)['splits']
        if splits and all(_is_valid(entry) for entry in splits.values()):
            return splits
    except ValueError as error:
        reason = error
    except (KeyError, TypeError, AttributeError):
        pass
    if not exists(directory):
        raise RunError(f'{path}: is missing: rerun the command, which waits for a process that is writing {directory}')
    raise RunError(f'{reason}: delete {directory} to convert the data again')


def _is_valid(entry):
    names = [item['name'] for item in entry['files']]
    return (
        names
        and len(set(names)) == len(names)
        and all(
            isinstance(item['name'], str)
            and item['name']
            and (item['name'] == os.path.basename(item['name']) or _is_elsewhere(item['name']))
            and isinstance(item['sha256'], str)
            and all(map(_is_count, [item['count'], item['bytes'], *item.get('crc32', [])]))
            and _is_index(item.get('index'))
            for item in entry['files']
        )
        and entry['count'] == sum(item['count'] for item in entry['files'])
        and _is_count(entry.get('interleaved', 1))
        and entry.get('interleaved', 1) > 0
        and len(names) % entry.get('interleaved', 1) == 0
    )


def _is_elsewhere(name):
    """Whether a file, described by `index`, lies outside of the manifest's directory."""
    return os.path.isabs(name) or is_remote(name)


def _is_index(index):
    return index is None or (all(map(_is_count, [index['every'], *index['offsets']])) and index['every'] > 0)


def _is_count(value):
    return type(value) is int and value >= 0


def _path(directory):
    return os.path.join(directory, _NAME)

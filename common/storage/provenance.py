"""provenance.jsonl in an output_dir: what a run was made by, and the digest of each checkpoint, as a chain of digests.

A line is canonical JSON: sorted keys, no spaces, ASCII. Its `digest` is the SHA-256 of the line without this item, its
`previous` that of the line before. `kind` is 'start' or 'resume', with what the run is made by from this `step` on, or
'checkpoint', which refers to the latest of these by `made_by`.
"""

import datetime
import hashlib
import json
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import json_text
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import dumps, last_line, write, write_from
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.storage.restore import READ_ERRORS, corrupt, open_checkpoint

NONE = '0' * 64  # The `previous` of the first line.
START, RESUME, CHECKPOINT = 'start', 'resume', 'checkpoint'


class Record(NamedTuple):
    """What a chain says of a run as it is now, without what starting over or going back has left behind.

    Attributes:
      starts: the lines of kind 'start' and 'resume', in their order.
      checkpoints: {step: line}.
      last: the digest of the last line.
      left: the steps of those that going back has left behind, where damaged ones may still be.
    """

    starts: list[dict[str, Any]]
    checkpoints: dict[int, dict[str, Any]]
    last: str
    left: frozenset[int] = frozenset()


def path_of(output_dir: str) -> str:
    return os.path.join(output_dir, 'provenance.jsonl')


def place_of(output_dir: str, name: str) -> str:
    """Returns where the file of a run has what made it, such as its flags, for a message."""
    return f'made_by.{name} in the last line of {path_of(output_dir)} that has it'


def canonical(value: Any) -> str:
    """Returns a value as canonical JSON."""
    return json.dumps(json.loads(dumps(value)), sort_keys=True, separators=(',', ':'))


def digest_of(entry: dict[str, Any]) -> str:
    """Returns the digest of a line."""
    return hashlib.sha256(canonical({key: value for key, value in entry.items() if key != 'digest'}).encode()).hexdigest()


def append(output_dir: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Adds a line, in place of a last one that a killed process or a full disk has cut; returns it, with its digests.

    For the only process that trains there.
    """
    path = path_of(output_dir)
    if is_remote(path) or not os.path.exists(path):
        content = _content(output_dir)
        entry = _chained(entry, content[:-1].rpartition(b'\n')[2])
        write(path, content + _line(entry))
        return entry
    with open(path, 'r+b', buffering=0) as file:
        last, end = last_line(file)
        entry = _chained(entry, last)
        write_from(file, path, end, _line(entry))
    return entry


def _chained(entry, last):
    """Returns a line with its time and its digests, given the last one before it, bytes."""
    # An invalid line, which the next verification reports, does not keep the run from going on.
    before = _parsed(last).get('digest', NONE)
    time = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')
    entry = json.loads(canonical({**entry, 'time': time, 'previous': before}))
    return {**entry, 'digest': digest_of(entry)}


def _line(entry):
    return f'{canonical(entry)}\n'.encode()


def _content(output_dir):
    """Returns the file's whole lines, bytes."""
    path = path_of(output_dir)
    if not tf.io.gfile.exists(path):
        return b''
    with tf.io.gfile.GFile(path, 'rb') as file:
        lines, newline, _ = file.read().rpartition(b'\n')
    return lines + newline


def _parsed(line):
    try:
        entry = json_text.loads(line.decode())
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def read(output_dir: str) -> list[dict[str, Any]]:
    """Returns the lines, after checking the chain; [] if the run has no such file. A cut last line is none.

    Raises:
      RunError: a line was changed, put in, or taken out.
    """
    path, entries, before = path_of(output_dir), [], NONE
    for number, line in enumerate(_content(output_dir).split(b'\n')[:-1], 1):
        entry = _parsed(line)
        if not _is_valid(entry) or canonical(entry).encode() != line or digest_of(entry) != entry['digest']:
            raise RunError(f'{path}: line {number} was changed: it does not have the digest that it names')
        if entry['previous'] != before or number == 1 and entry['kind'] == CHECKPOINT:
            place = f'line {number} does not follow line {number - 1}' if number > 1 else 'the first line was taken out'
            raise RunError(f'{path}: {place}: lines were put in, taken out, or moved')
        entries.append(entry)
        before = entry['digest']
    return entries


def _is_valid(entry):
    kind = entry.get('kind')
    if kind not in (START, RESUME, CHECKPOINT) or not isinstance(entry.get('made_by'), str if kind == CHECKPOINT else dict):
        return False
    has_tensors = kind == START or isinstance(entry.get('tensors'), str)
    return has_tensors and {'previous', 'digest'} <= entry.keys() and type(entry.get('step')) is int


def record_of(entries: list[dict[str, Any]]) -> Record:
    """Returns what the lines say of the run as it is now."""
    starts: list[dict[str, Any]] = []
    checkpoints: dict[int, dict[str, Any]] = {}
    left: set[int] = set()
    for entry in entries:
        if entry['kind'] == CHECKPOINT:
            checkpoints[entry['step']] = entry
        else:
            limit = -1 if entry['kind'] == START else entry['step']
            starts = [start for start in starts if start['step'] <= limit] + [entry]
            left = {*left, *(step for step in checkpoints if step > limit)} if entry['kind'] == RESUME else set()
            checkpoints = {step: line for step, line in checkpoints.items() if step <= limit}
            if 'tensors' in entry:  # Of the checkpoint that it goes on from, which may be older than this file.
                checkpoints.setdefault(entry['step'], entry)
    return Record(starts, checkpoints, entries[-1]['digest'] if entries else NONE, frozenset(left - checkpoints.keys()))


def known(output_dir: str) -> Record:
    """Returns the Record of a run; an empty one, after a warning, if the chain is broken: only a verification must have it."""
    try:
        return record_of(read(output_dir))
    except RunError as error:
        tf.logging.warning('%s.', error)
        return record_of([])


def started_by(output_dir: str) -> dict[str, Any]:
    """Returns what the run there was made by when it began; {} if that is unknown. The chain is not checked."""
    entries = map(_parsed, _content(output_dir).split(b'\n'))
    return next((entry['made_by'] for entry in reversed([*entries]) if entry.get('kind') == START), {})


def made_by(record: Record, step: int) -> dict[str, Any] | None:
    """Returns what the run was made by, see common/runs/made_by.py, when it trained the step after `step`; None if unknown."""
    found = [start for start in record.starts if start['step'] <= step]
    return found[-1]['made_by'] if found else None


def files_in(directory: str) -> list[str]:
    """Returns the paths of the files in a directory and those below, relative to it, sorted."""
    found = [os.path.join(folder, name) for folder, _, names in tf.io.gfile.walk(directory) for name in names]
    return sorted(os.path.relpath(path, directory) for path in found)


def quoted(output_dir: str, checkpoint_path: str) -> dict[str, Any] | None:
    """Returns what an export of a checkpoint says of its run; None if the run has no provenance.jsonl, or a broken one.

    Returns:
      run: the digest of its first line. last_line: that of its last. checkpoint: of the tensors.
    """
    try:
        entries = read(output_dir)
    except RunError as error:
        tf.logging.warning('%s. The model card does not name the run.', error)
        entries = []
    if not entries:
        return None
    record = record_of(entries)
    return {'run': record.starts[0]['digest'], 'last_line': record.last, 'checkpoint': tensors_digest(checkpoint_path)}


def tensors_digest(checkpoint_path: str) -> str:
    """Returns the SHA-256 of a checkpoint's tensors, whatever bytes its files have.

    It is that of, for each tensor in the order of the names: its name, type and shape, as canonical JSON and a new line, and
    its values, little-endian; of strings, for each its length, a new line and its bytes.

    Raises:
      CheckpointGone, RunError: it is missing or corrupt.
    """
    reader, found = open_checkpoint(checkpoint_path), hashlib.sha256()
    dtypes, shapes = reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()
    for name in sorted(shapes):
        found.update(f'{canonical([name, dtypes[name].name, shapes[name]])}\n'.encode())
        try:
            value = np.asarray(reader.get_tensor(name))
        except READ_ERRORS:
            raise corrupt(checkpoint_path) from None
        if value.dtype == object:
            for item in value.reshape(-1):
                found.update(b'%d\n' % len(item))
                found.update(item)
        else:
            found.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return found.hexdigest()

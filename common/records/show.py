"""Describes a TFRecord file of tf.Example."""

from collections.abc import Iterator

from google.protobuf.message import DecodeError
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.records import compressed, tfrecord
from estimator_trainer.common.records.records import decode

_MAX_SHOWN = 1000


def show(path: str) -> Iterator[str]:
    """Yields lines that describe a file: the number of records, the features of the first 1,000, and the first three.

    Raises:
      UsageError: the file cannot be read.
      RunError: it is corrupt, or contains records other than tf.train.Example.
    """
    try:
        with compressed.plain(path) as plain:
            yield from _lines(path, plain)
    except tf.errors.OpError as error:
        raise UsageError(f'{path}: cannot be read: {error.message}') from None


def _lines(path, plain):
    """Yields the lines for a file at a path, whose content without compression is at `plain`."""
    scan = tfrecord.scan(plain)
    if defect := tfrecord.find_damage(plain, scan):
        raise RunError(f'{path}: {defect}')
    yield f'{path}: {scan.count} records, {scan.bytes} bytes'
    try:
        examples = [decode(record) for record in tfrecord.read(plain, min(scan.count, _MAX_SHOWN))]
    except DecodeError:
        raise RunError(f'{path}: contains records other than tf.train.Example') from None
    for name in sorted({name for example in examples for name in example}):
        features = [example[name] for example in examples if name in example]
        kinds = ' or '.join(sorted({kind for kind, _ in features}))
        sizes = ' to '.join(str(size) for size in sorted({f(len(values) for _, values in features) for f in (min, max)}))
        missing = f', missing in {len(examples) - len(features)} of {len(examples)}' if len(features) < len(examples) else ''
        yield f'  {_printable(name)}: {kinds}, values: {sizes}{missing}'
    for i, example in enumerate(examples[:3]):
        values = ', '.join(f'{_printable(name)}={_shorten(values)}' for name, (_, values) in sorted(example.items()))
        yield f'record {i}, at byte {scan.offsets[i]}: {values}'


def _shorten(values):
    return ' '.join([*map(_format, values[:8]), *(['...'] if len(values) > 8 else [])])


def _format(value):
    if not isinstance(value, bytes):
        return f'{value:g}' if isinstance(value, float) else str(value)
    is_text = len(value) <= 60 and value.isascii() and value.decode('ascii').isprintable()
    return repr(value.decode('ascii')) if is_text else f'<{len(value)} bytes>'


def _printable(name):
    return name if name.isprintable() else repr(name)

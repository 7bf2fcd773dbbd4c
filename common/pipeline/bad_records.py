"""Search for the record that made an input pipeline or a model fail."""

from collections.abc import Iterable
import contextlib
import functools
import re

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, first_line
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import NOT_ONE_EACH, disable_autotune, parsed_batches
from estimator_trainer.common.plugins.traceback_filter import made_at
from estimator_trainer.common.records import manifest
from estimator_trainer.common.records.elements import elements

ModeKeys = tf.estimator.ModeKeys
_COUNT = re.compile(r'expected to contain (\d+) elements but contained (only|at least) (\d+)')
# Of a loss, and of a lookup such as that of class_weights or an embedding.
_LABEL = re.compile(
    r'(?:Received a label value of|indices\[[\d,]*\] =) (-?\d+) (?:which is outside the valid range of|is not in) \[0, (\d+)\)'
)
# TensorFlow's message quotes bytes that are not a tf.train.Example; Python may fail to decode it.
ERRORS = (tf.errors.OpError, UnicodeDecodeError)
_NO_ELEMENT = 'Dataset was empty'
_READERS = ('IteratorGetNext', 'DatasetToSingleElement')  # The ops in which records are parsed.
_SHAPES = re.compile('number of elements does not match|different shapes in component')
_MANY = 1024


def check_records(source: DataSource, splits: Iterable[tuple[str, str]], error: BaseException) -> None:
    """Raises RunError if a record caused an exception.

    Args:
      splits: (tf.estimator.ModeKeys, name) of the splits that were read.
      error: one of ERRORS, or MemoryError.

    Raises:
      RunError: a record caused it, or the files have changed since they were written.
    """
    text = str(error)
    manifest.clear_cache()
    for mode, split in splits:
        source.read(split)  # Verifies the files against their manifest.
        if _COUNT.search(text):
            _check_count(source, split, text, is_certain=False)
        elif _LABEL.search(text):
            _find_bad_label(source, mode, split, error)
        elif is_of_record(error):
            _find_bad_record(source, mode, split)
    if _COUNT.search(text):
        # The framework itself asserts this split's cardinality.
        _check_count(source, source.params.train_split, text, is_certain=True)
    flag = f'--dataset={source.params.dataset}'
    if NOT_ONE_EACH in text:
        raise RunError(f'{flag}: parse_batch() must return one example per record, or the module must omit PARSED_ONCE')
    if _NO_ELEMENT in text:
        raise RunError(f'{flag}: the training data ended early: a Python function of the dataset may have raised StopIteration')


def is_of_record(error: BaseException) -> bool:
    """Whether an exception, one of ERRORS or MemoryError, names an op in which records are parsed."""
    return any(op in str(error) for op in _READERS) or isinstance(error, UnicodeDecodeError)


def _find_bad_record(source, mode, split):
    """Raises RunError if the dataset module cannot parse a record of a split."""
    first = 0
    for size in (_MANY, 1):  # First locates the batch, then the record in it.
        found = _first_error(functools.partial(_parsed, source, mode, split, first, size))
        if not found:
            return
        _check_shapes(source, mode, split, str(found[1]))
        first += found[0] * size
    raise RunError(f'{_location(source, split, first)}: {reason(found[1])}') from found[1]


def _location(source, split, number):
    """Describes the location of a split's record: in its TFRecord file, or else in the split."""
    location = f'record {number} of the split {split}'
    with contextlib.suppress(tf.errors.OpError):
        record = next(elements(lambda: source.read(split).skip(number).take(1)), None)
        location = isinstance(record, bytes) and manifest.locate_record(record) or location
    return location


def _check_shapes(source, mode, split, text):
    """Raises RunError if the error says that the elements of a batch differ in shape."""
    if not _SHAPES.search(text):
        return
    if source.parses_batches():
        raise RunError(
            f'--dataset={source.params.dataset}: read(): the records of the split {split} differ in shape, and '
            'parse_batch() takes batches: pad them to one length, or parse them one by one, with parse()'
        )
    shapes: dict[str, list[int]] = {}
    with contextlib.suppress(*ERRORS):  # The shape of a record differs from that which parse() claims.
        for number, element in enumerate(elements(lambda: _parsed(source, mode, split, 0, 1))):
            for name, value in _named(element, mode):
                shape = list(np.shape(value))[1:]
                if shapes.setdefault(name, shape) != shape:
                    raise RunError(
                        f'--dataset={source.params.dataset}: parse(): {name} is of shape {shapes[name]} in record 0 '
                        f'of the split {split}, and {shape} in record {number}: give it a known number of dimensions, with '
                        'tf.ensure_shape, so that batches are padded'
                    )


def _named(element, mode):
    """Yields (name, value) of the features and labels of a batch, in tf.nest's order."""
    features, labels = (element, {}) if mode == ModeKeys.PREDICT else element
    for kind, values in (('feature', features), ('label', labels)):
        for name in sorted(values):
            yield f'the {kind} {name}', values[name]


def _check_count(source, split, text, is_certain):
    """Raises RunError if the split's number of records differs from its declared cardinality or first count."""
    expected, relation, count = _COUNT.search(text).groups()  # type: ignore[union-attr]
    found = _first_error(lambda: source.read(split).map(lambda *record: 0).batch(_MANY))
    if is_certain or found and _COUNT.search(str(found[1])):
        raise RunError(
            f'--dataset={source.params.dataset}: read(): the split {split} has {relation} {count} records, but '
            f'{expected} were counted, or claimed with assert_cardinality: each call must give the same number'
        )


def _find_bad_label(source, mode, split, error):
    """Raises RunError if a record of a split has a label out of range for the loss."""
    value, limit = map(int, _LABEL.search(str(error)).groups())  # type: ignore[union-attr]
    place = made_at(error) if 'indices[' in str(error) else ''  # Of a lookup, unlike that of the loss.
    inputs = set(_inputs(error.op.inputs[1])) if error.op else set()
    for batch, element in enumerate(elements(lambda: _parsed(source, mode, split, 0, _MANY))):
        for i, (name, values) in enumerate(_named(element, mode)):
            if i in inputs and np.any(values == value):
                number = batch * _MANY + int(np.nonzero(values == value)[0][0])
                problem = f'{name} is {value}, but the model takes 0 to {limit - 1}' + (f' ({place})' if place else '')
                raise RunError(f'{_location(source, split, number)}: {problem}')


def _inputs(tensor):
    """Yields the indices of the batch tensors that a tensor depends on."""
    pending, seen = [tensor], set()
    while pending:
        tensor = pending.pop()
        if tensor.op.type == 'IteratorGetNext':
            yield tensor.value_index
        elif tensor.op not in seen and tensor.op.type not in ('Shape', 'Size'):
            seen.add(tensor.op)
            pending += tensor.op.inputs


def reason(error: BaseException) -> str:
    """Returns TensorFlow's message about a record, without its prefixes."""
    if isinstance(error, UnicodeDecodeError):
        return 'is not a valid tf.train.Example'
    text = re.sub(r'^(Error in user-defined function .*? iterator: \S+: )?(Name: <unknown>, )?', '', first_line(error))
    return re.sub(r'^assertion failed: \[(.*?)\].*', r'\1', text)


def _parsed(source, mode, split, first, size):
    """Returns a tf.data.Dataset of a split's parsed batches, starting with record number `first`."""
    return disable_autotune(parsed_batches(source, mode, source.read(split).skip(first), size))


def _first_error(make_dataset):
    """Returns the number of elements that a tf.data.Dataset yields before an error, and the error.

    Returns None if there is no error, or the dataset is infinite.
    """
    count = 0
    try:
        for _ in elements(make_dataset):
            count += 1
    except ERRORS as error:
        return count, error
    return None

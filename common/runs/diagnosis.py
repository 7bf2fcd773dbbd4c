"""TensorFlow's errors whose cause is the data or the memory, told in one line that names it."""

import contextlib
import functools
import re

import numpy as np
import tensorflow.compat.v1 as tf

from common import files
from common.data import manifest
from common.data.elements import elements
from common.data.input_pipeline import parse, without_tuning
from common.errors import RunError, first_line
from common.plugins import dataset_contract
from common.runs.schedules import EVALUATING, TRAINING

ModeKeys = tf.estimator.ModeKeys
_MANY = 1024
_COUNT = re.compile(r'expected to contain (\d+) elements but contained (only|at least) (\d+)')
_LABEL = re.compile(r'Received a label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)')
_SHAPES = re.compile('number of elements does not match|different shapes in component')
# What is no tf.train.Example becomes part of TensorFlow's message, which Python then cannot decode.
_ERRORS = (tf.errors.OpError, UnicodeDecodeError)


@contextlib.contextmanager
def explained(experiment):
    """In its block, what TensorFlow raises becomes a RunError if the cause is found; else it stays what it is."""
    try:
        yield
    except (*_ERRORS, MemoryError) as error:
        found = _explain(experiment, error)
        if not found:
            raise
        raise found from found.__cause__


def _explain(experiment, error):
    text = str(error)
    try:
        manifest.forget()
        for mode, split in _splits(experiment.options):
            dataset_contract.read(
                experiment.dataset, split, experiment.data_dir, experiment.params
            )  # Is it still what was written?
            if _COUNT.search(text):
                _check_count(experiment, split, text, is_certain=False)
            elif _LABEL.search(text):
                _find_bad_label(experiment, mode, split, error)
            elif 'IteratorGetNext' in text or isinstance(error, UnicodeDecodeError):
                _find_bad_record(experiment, mode, split)
        if _COUNT.search(text):
            _check_count(experiment, 'train', text, is_certain=True)  # Which the framework counts, too.
    except RunError as found:
        return found
    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)) and not files.explain(error):
        name = 'batch_size' if experiment.options.schedule in TRAINING else 'eval_batch_size'
        size = experiment.params[name]
        return RunError(f'out of memory with {name}={size}: give a smaller one, such as --hparams={name}={max(size // 2, 1)}')
    return None


def _splits(options):
    """Yields (mode, name) of the splits that a schedule reads."""
    if options.schedule in TRAINING:
        yield ModeKeys.TRAIN, 'train'
    if options.schedule in EVALUATING:
        for split in options.eval_splits:
            yield ModeKeys.EVAL, split
    if options.schedule == 'predict' and not options.input:
        yield ModeKeys.PREDICT, options.predict_split


def _find_bad_record(experiment, mode, split):
    """Raises RunError if there is a record in a split that the dataset cannot parse."""
    first = 0
    for size in (_MANY, 1):  # Among many, then which of them.
        found = _first_error(functools.partial(_parsed, experiment, mode, split, first, size))
        if not found:
            return
        _check_shapes(experiment, mode, split, str(found[1]))
        first += found[0] * size
    raise RunError(f'{_place(experiment, split, first)}: {_reason(found[1])}') from found[1]


def _place(experiment, split, number):
    """Returns where a record of a split is, in words."""
    place = f'record {number} of the split {split}'
    with contextlib.suppress(tf.errors.OpError):
        record = next(
            elements(
                lambda: (
                    dataset_contract.read(experiment.dataset, split, experiment.data_dir, experiment.params)
                    .skip(number)
                    .take(1)
                )
            )
        )
        place = isinstance(record, bytes) and manifest.where(record) or place
    return place


def _check_shapes(experiment, mode, split, text):
    """Raises RunError if an error is that what was to become a batch differs in shape."""
    if not _SHAPES.search(text):
        return
    if hasattr(experiment.dataset, 'parse_batch'):
        raise RunError(
            f'--dataset={experiment.params.dataset}: read(): the records of the split {split} differ in shape, and '
            'parse_batch() takes batches: pad them to one length, or parse them one by one, with parse()'
        )
    shapes = {}
    for number, element in enumerate(elements(lambda: _parsed(experiment, mode, split, 0, 1))):
        for name, value in _named(element, mode):
            shape = list(np.shape(value))[1:]
            if shapes.setdefault(name, shape) != shape:
                raise RunError(
                    f'--dataset={experiment.params.dataset}: parse(): {name} is of shape {shapes[name]} in record 0 '
                    f'of the split {split}, and {shape} in record {number}, but a batch has one: pad it to a fixed '
                    'length, such as with tf.pad'
                )


def _named(element, mode):
    """Yields (name, value) of the features and labels of a batch, in the order in which TensorFlow has them."""
    features, labels = (element, {}) if mode == ModeKeys.PREDICT else element
    for kind, values in (('feature', features), ('label', labels)):
        for name in sorted(values):
            yield f'the {kind} {name}', values[name]


def _check_count(experiment, split, text, is_certain):
    """Raises RunError if it is this split that has more or fewer records than it claims, or than it had at first."""
    expected, relation, count = _COUNT.search(text).groups()
    found = _first_error(
        lambda: (
            dataset_contract.read(experiment.dataset, split, experiment.data_dir, experiment.params)
            .map(lambda *record: 0)
            .batch(_MANY)
        )
    )
    if is_certain or found and _COUNT.search(str(found[1])):
        raise RunError(
            f'--dataset={experiment.params.dataset}: read(): the split {split} has {relation} {count} records, but '
            f'{expected} were counted, or claimed with assert_cardinality: each call must give the same number'
        )


def _find_bad_label(experiment, mode, split, error):
    """Raises RunError if there is a record in a split whose label is the one that a loss cannot take."""
    value, limit = map(int, _LABEL.search(str(error)).groups())
    inputs = set(_inputs(error.op.inputs[1])) if error.op else set()
    for batch, element in enumerate(elements(lambda: _parsed(experiment, mode, split, 0, _MANY))):
        for i, (name, values) in enumerate(_named(element, mode)):
            if i in inputs and np.any(values == value):
                number = batch * _MANY + int(np.nonzero(values == value)[0][0])
                raise RunError(f'{_place(experiment, split, number)}: {name} is {value}, but the model takes 0 to {limit - 1}')


def _inputs(tensor):
    """Yields the numbers of the tensors of the batch that a tensor is made of."""
    reached, seen = [tensor], set()
    while reached:
        tensor = reached.pop()
        if tensor.op.type == 'IteratorGetNext':
            yield tensor.value_index
        elif tensor.op not in seen:
            seen.add(tensor.op)
            reached += tensor.op.inputs


def _reason(error):
    """Returns what TensorFlow says of a record, without its words around it."""
    if isinstance(error, UnicodeDecodeError):
        return 'is no tf.train.Example'
    text = re.sub(r'^(Error in user-defined function .*? iterator: \S+: )?(Name: <unknown>, )?', '', first_line(error))
    return re.sub(r'^assertion failed: \[(.*?)\].*', r'\1', text)


def _parsed(experiment, mode, split, first, size):
    """Returns a tf.data.Dataset of a split's parsed batches, from its first-th record on."""
    records = dataset_contract.read(experiment.dataset, split, experiment.data_dir, experiment.params).skip(first)
    return without_tuning(
        parse(experiment.dataset, mode, experiment.params, records, records.batch(size), lambda records: records.batch(size))
    )


def _first_error(make_dataset):
    """Returns how many elements a tf.data.Dataset gives before an error, and that; None where there is none or no end."""
    count = 0
    try:
        for _ in elements(make_dataset):
            count += 1
    except _ERRORS as error:
        return count, error
    return None

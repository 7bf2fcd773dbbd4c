"""TensorFlow's errors whose cause is the data or the memory, told in one line that names it."""

import contextlib
import itertools
import re

import tensorflow.compat.v1 as tf

from common import files, manifest
from common.errors import RunError, first_line
from common.input_fn import parse, read, without_tuning
from common.schedules import EVALUATING, TRAINING

ModeKeys = tf.estimator.ModeKeys
_MANY = 1024
# What is no tf.train.Example becomes part of TensorFlow's message, which Python then cannot decode.
_ERRORS = (tf.errors.OpError, UnicodeDecodeError)


@contextlib.contextmanager
def explained(experiment):
    """In its block, what TensorFlow raises becomes a RunError if the cause is found; else it stays what it is."""
    try:
        yield
    except (*_ERRORS, MemoryError) as error:
        raise (_explain(experiment, error) or error) from None


def _explain(experiment, error):
    text = str(error)
    try:
        manifest.forget()
        for mode, split in _splits(experiment.options):
            read(experiment.dataset, split, experiment.data_dir, experiment.params)  # Is it still what was written?
            if 'IteratorGetNext' in text or isinstance(error, UnicodeDecodeError):
                _find_bad_record(experiment, mode, split)
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
        found = _first_error(lambda: _parsed(experiment, mode, split, first, size))
        if not found:
            return
        first += found[0] * size
    place = f'record {first} of the split {split}'
    with tf.Graph().as_default(), tf.Session() as session, contextlib.suppress(tf.errors.OpError):
        records = read(experiment.dataset, split, experiment.data_dir, experiment.params)
        record = session.run(tf.data.make_one_shot_iterator(records.skip(first)).get_next())
        place = isinstance(record, bytes) and manifest.where(record) or place
    raise RunError(f'{place}: {_reason(found[1])}')


def _reason(error):
    """Returns what TensorFlow says of a record, without its words around it."""
    if isinstance(error, UnicodeDecodeError):
        return 'is no tf.train.Example'
    text = re.sub(r'^(Error in user-defined function .*? iterator: \S+: )?(Name: <unknown>, )?', '', first_line(error))
    return re.sub(r'^assertion failed: \[(.*?)\].*', r'\1', text)


def _parsed(experiment, mode, split, first, size):
    """Returns a tf.data.Dataset of a split's parsed batches, from its first-th record on."""
    records = read(experiment.dataset, split, experiment.data_dir, experiment.params).skip(first)
    return without_tuning(parse(experiment.dataset, mode, experiment.params, records, records.batch(size),
                                lambda records: records.batch(size)))


def _first_error(make_dataset):
    """Returns how many elements a tf.data.Dataset gives before an error, and that; None where there is none or no end."""
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = make_dataset()
        if session.run(dataset.cardinality()) == tf.data.experimental.INFINITE_CARDINALITY:
            return None
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        session.run([tf.tables_initializer(), iterator.initializer])
        for number in itertools.count():
            try:
                session.run(element)
            except tf.errors.OutOfRangeError:
                return None
            except _ERRORS as error:
                return number, error

"""Helpers shared by several wings: command lines, and readers of a run's files."""

import csv
import functools
import re
import shutil

import tf_estimator  # noqa: F401 - before TensorFlow

from numpy.testing import assert_allclose  # Its import starts a process with some versions.
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from tests.forked import ROOT  # noqa: F401

# A small AlexNet, so that a run takes a second, and the polynomial fit, which takes half of that.
SMALL = ('--hparams=filters=[4,8],dense_units=16,batch_size=32,drop_rate=0.0,augment_shift=0,warmup_steps=0', '--eval_steps=1')
POLYNOMIAL = ('--model=polynomial', '--dataset=polynomial')
MODELS = {'alexnet': SMALL, 'polynomial': POLYNOMIAL}


def losses(log):
    """Returns {step: loss} of the lines of a log."""
    return {int(step): float(loss) for loss, step in re.findall(r'loss = (\S+), step = (\d+)', log)}


def without_log(err):
    """Returns the lines of stderr outside of the log."""
    return [line for line in err.splitlines() if not re.match(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (INFO|WARNING) ', line)]


def rows(path, mode=None):
    """Returns the rows of a CSV file as dicts of str; of metrics.csv those of evaluations, or with mode='train' the others."""
    with open(path) as file:
        return [row for row in csv.DictReader(file) if (row.get('mode') or None) == mode]


def read_weights(path):
    """Returns {name: array} of all variables of a checkpoint, or of a directory's last one."""
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def copy_without(step, source, directory):
    """Copies a run as if it had been killed before it saved its last checkpoint, that of a step, and returns the directory."""
    return shutil.copytree(source, directory, ignore=shutil.ignore_patterns('checkpoint', f'model.ckpt-{step}.*'))


def assert_equal(found, expected, tolerance=0.0):
    """Asserts that two sets of weights, {name: array}, are equal within an absolute tolerance."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


def raised(error, function, *arguments, **options):
    """Returns the message of the error that a function raises in a new graph."""
    with tf.Graph().as_default(), pytest.raises(error) as caught:
        function(*arguments, **options)
    return str(caught.value)


refused, failed = functools.partial(raised, UsageError), functools.partial(raised, RunError)


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {  # Kinds of damage to a file, a pathlib.Path.
    'deleted': lambda path: path.unlink(),
    'emptied': lambda path: path.write_bytes(b''),
    'cut': lambda path: path.write_bytes(path.read_bytes()[:-20]),
    'flipped': _flip,
}

"""Breaks what tf_estimator needs, one thing after the other, and prints what importing it says then, as JSON."""

import contextlib
import importlib
import importlib.util
import json
import os
import sys
from importlib import metadata
from unittest import mock

find_spec, version = importlib.util.find_spec, metadata.version


def without(package):
    return mock.patch('importlib.util.find_spec', lambda name: None if name == package else find_spec(name))


def with_version(distribution, number):
    return mock.patch('importlib.metadata.version', lambda name: number if name == distribution else version(name))


def said():
    """Returns what importing tf_estimator says, or None if it says nothing."""
    try:
        import tf_estimator
    except ImportError as error:
        return str(error)
    return None


@contextlib.contextmanager
def without_symbol(module, name):
    """Takes away a name of a module of TensorFlow."""
    module = importlib.import_module(module)
    with mock.patch.object(module, name):
        delattr(module, name)
        yield


def main():
    messages = {}

    def note(name, broken):
        with broken:
            messages[name] = said()

    note('no TensorFlow', without('tensorflow'))
    note('no tf-keras', without('tf_keras'))
    note('no tensorflow-estimator', without('tensorflow_estimator'))
    note('other tensorflow-estimator', with_version('tensorflow-estimator', '2.14.0'))

    os.environ['TF_USE_LEGACY_KERAS'] = '1'
    import tensorflow as tf
    note('no symbol', without_symbol('tensorflow.python.training.evaluation', '_evaluate_once'))
    note('no module', mock.patch.dict(sys.modules, {'tensorflow.python.training.device_setter': None}))
    with mock.patch.object(tf, '__version__', '2.20.0'):
        note('protobuf 7', with_version('protobuf', '7.34.0'))
    with mock.patch.object(tf, '__version__', '2.14.1'):
        note('old TensorFlow', contextlib.nullcontext())
    note('nothing', contextlib.nullcontext())
    print(json.dumps(messages))


if __name__ == '__main__':
    main()

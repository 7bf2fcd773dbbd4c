"""The state that a kept graph depends on: what a model_fn reads, by whatever way, is another state once it has changed."""

import collections
import enum
import functools
import types

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator.traps import kept
from tf_estimator.traps.reads import UnknownError
from tf_estimator.traps.state import State

from absl import flags
import numpy as np
from numpy import random
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.python.lib.io import file_io
from tensorflow.python.ops import control_flow_util

flags.DEFINE_float('scale_of_test_kept_state', 1.0, 'Of this file.')
SCALE = 1.0
settings = types.ModuleType('settings')
lazy = types.ModuleType('lazy')
lazy.__dict__['__getattr__'] = lambda name: SCALE


@functools.wraps(tf.nn.relu)
def wrapped(*_):
    return SCALE


class Private:
    __slots__ = ('__scale',)

    def __init__(self):
        self.__scale = SCALE


class Documented:
    __slots__ = {'scale': 'doc'}


class Options(dict):
    scale = 1.0


class Whole(int):
    pass


class Items(list):
    __slots__ = ('scale',)


class Pair(collections.namedtuple('Pair', 'a b')):
    @property
    def scale(self):
        return SCALE


class Kind(enum.Enum):
    A = 1

    def scale(self):
        return SCALE


class Meta(type):
    @property
    def scale(cls):
        return SCALE


class Scaled(metaclass=Meta):
    pass


def read(module):
    return module.scale


private, documented, options, whole, items, pair = Private(), Documented(), Options(), Whole(1), Items(), Pair(1, 2)
factory = collections.defaultdict(lambda: SCALE)
masked = np.ma.array([1.0, 3.0], mask=[False, True])
closed = (lambda module: lambda: module.scale)(settings)
npr_uniform = random.uniform


def change(thing, name='scale'):
    return lambda monkeypatch: monkeypatch.setattr(thing, name, 3.0, raising=False)


def change_global(monkeypatch):
    monkeypatch.setitem(globals(), 'SCALE', 3.0)


def change_flag(monkeypatch):
    monkeypatch.setattr(flags.FLAGS['scale_of_test_kept_state'], 'value', 3.0)


READERS = {
    'a_flag': (lambda: flags.FLAGS.scale_of_test_kept_state, change_flag),
    'a_flag_of_tensorflow': (lambda: tf.flags.FLAGS.scale_of_test_kept_state, change_flag),
    'a_module_passed': (lambda: read(settings), change(settings)),
    'a_module_in_a_closure': (closed, change(settings)),
    'a_module_with_getattr': (lambda: lazy.scale, change_global),
    'a_module_imported_by_name': (lambda: __import__('settings').scale, change(settings)),
    'a_function_with_the_name_of_another': (lambda: wrapped(), change_global),
    'a_function_put_into_a_library': (lambda: tf.nn.relu(1.0), lambda patch: patch.setattr(tf.nn, 'relu', lambda x: SCALE)),
    'a_private_slot': (lambda: private, lambda patch: patch.setattr(private, '_Private__scale', 3.0)),
    'a_documented_slot': (lambda: documented.scale, change(documented)),
    'the_class_of_a_dict': (lambda: options.scale, change(Options)),
    'the_slot_of_a_list': (lambda: items.scale, change(items)),
    'the_attribute_of_an_int': (lambda: whole.scale, change(whole)),
    'the_property_of_a_tuple': (lambda: pair.scale, change_global),
    'the_method_of_an_enum': (lambda: Kind.A.scale(), change_global),
    'a_metaclass': (lambda: Scaled.scale, change_global),
    'the_factory_of_a_dict': (lambda: factory['a'], change_global),
    'a_mask': (lambda: masked.sum(), lambda patch: patch.setattr(masked, 'mask', [True, False])),
}

UNKNOWN = [  # As functions read what is not seen from outside.
    *('a_module_passed', 'a_module_in_a_closure', 'a_module_with_getattr', 'a_module_imported_by_name'),
    'a_function_with_the_name_of_another',
]


def state(*values):
    try:
        return State(*values)
    except UnknownError:
        return None


@pytest.mark.parametrize('name', READERS)
def test_the_state_is_another_one_after_a_change_of(name, monkeypatch):
    reader, change_it = READERS[name]
    before = state(reader)
    change_it(monkeypatch)
    assert (before is None) == (name in UNKNOWN)
    assert before is None or before != state(reader)


@pytest.mark.parametrize('reader', [lambda: random.uniform(), lambda: npr_uniform(), lambda: file_io.read_file_to_string('x')])
def test_the_state_of_functions_that_draw_numbers_or_read_files_is_unknown(reader):
    with pytest.raises(UnknownError):
        State(reader)


def test_the_state_of_large_arrays_is_unknown():
    half, other = np.zeros(2**25, np.uint8), np.ones(2**25, np.uint8)
    assert State([half, half, half], other) == State([half, half, half], other)  # Each array counts once.
    with pytest.raises(UnknownError):
        State([half, other], np.zeros(1))


def test_modules_that_import_one_another_have_a_state(monkeypatch):
    monkeypatch.setattr(settings, 'settings', settings, raising=False)
    monkeypatch.setattr(settings, 'scale', 1.0, raising=False)
    reader = lambda: (settings.settings.scale, tf.nn.relu, pair, Kind.A)  # noqa: E731
    assert State(reader) == State(reader)


def test_a_call_within_another_has_a_situation_of_its_own():
    keep = kept.Kept()
    assert keep.again('a') is None
    outer = keep.again('a')
    assert keep.again('b') is None
    outer.model = 'of a'
    assert keep.again('b').model is None


def signature(make):
    with tf.Graph().as_default():
        return kept.signature(make())


def element(dataset):
    return tf.data.make_one_shot_iterator(dataset).get_next()


def test_the_signature_of_inputs_has_all_that_a_model_fn_can_tell():
    def pair_of(*names):
        return lambda: {name: element(tf2.data.Dataset.range(3)) for name in names}

    assert signature(pair_of('a', 'b')) == signature(pair_of('a', 'b')) != signature(pair_of('b', 'a'))
    known = [signature(lambda number=number: tf.stack([element(tf2.data.Dataset.range(3)), number])) for number in (2, 2, 3)]
    assert known[0] == known[1] != known[2]


def test_inputs_with_functions_are_simple_and_python_in_functions_is_found():
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        features = element(tf2.data.Dataset.range(3).map(lambda x: x + 1))
        assert kept.is_simple_input(graph, features) and not kept.runs_python(graph)
        tf2.function(lambda: tf.py_func(lambda: 1.0, [], tf.float64))()
        assert kept.runs_python(graph)


@pytest.mark.parametrize('is_random', [False, True])
def test_branches_that_are_chosen_by_number_are_looked_into(monkeypatch, is_random):
    monkeypatch.setattr(control_flow_util, 'ENABLE_CONTROL_FLOW_V2', True)
    with tf.Graph().as_default() as graph:
        other = tf.random.uniform if is_random else tf.zeros
        chosen = tf.switch_case(tf.placeholder(tf.int32, []), [lambda: tf.ones([2]), lambda: other([2])])
        case = next(op for op in graph.get_operations() if op.type in ('Case', 'StatelessCase'))
        assert chosen.shape == [2] and kept.only_reads(graph, [case]) != is_random

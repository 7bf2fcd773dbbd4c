"""The state of a program that its model_fn reads: while it is the same, the model_fn makes the same graph."""

import builtins
import collections
import enum
import functools
import hashlib
import types
from typing import Any

from tf_estimator.traps import reads
from tf_estimator.traps.reads import UnknownError

from absl import flags
from google.protobuf import message
import numpy as np
import tensorflow.compat.v1 as tf

_PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
_BY_NAME = (np.generic, tf.DType, tf.TensorShape)
_NUMBERS_AND_TEXTS = (int, float, complex, str, bytes)
_CODE = (types.FunctionType, types.MethodType, functools.partial, staticmethod, classmethod, property)
_OF_GRAPHS = (tf.Tensor, tf.Operation, tf.Variable, tf.Graph, tf.Session)
_OF_TYPES = {'__dict__', '__weakref__', '__doc__', '__annotations__', '__abstractmethods__', '_abc_impl', '__orig_bases__'}
_MOST_FACTS = 20000
_MOST_BYTES = 2**26  # Of arrays, which each call reads: a program's data, of gigabytes, would take longer than its graph.


class State:
    """Facts about values, all that they refer to, and what functions among them read; states are equal if all facts are.

    Raises UnknownError for what has hidden state: objects of C, files, iterators, tensors, and modules that may have some; and
    for what is too large.
    """

    def __init__(self, *values: Any):
        self._bytes = 0
        self._facts: list[Any] = []
        self._order: dict[int, int] = {}
        self._values: list[Any] = []  # Kept, so that no other object gets the id of one.
        for value in values:
            self._add(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._facts == other._facts

    __hash__ = None  # type: ignore[assignment]

    def _add(self, value):
        if type(value) in _PLAIN:
            self._facts.append((type(value), value))
        elif type(value) in (float, complex) or isinstance(value, _BY_NAME):
            self._facts.append((type(value), repr(value)))
        elif id(value) in self._order:
            self._facts.append(('again', self._order[id(value)]))
        elif len(self._facts) > _MOST_FACTS or isinstance(value, _OF_GRAPHS):
            raise UnknownError(type(value))
        else:
            self._order[id(value)] = len(self._order)
            self._values.append(value)
            self._add_object(value)

    def _add_object(self, value):
        if isinstance(value, message.Message):
            self._facts.append((type(value), value.SerializeToString(deterministic=True)))
        elif isinstance(value, _CODE):
            self._add_code(value)
        elif reads.is_library(value) or type(value) is object:
            self._facts.append(id(value))
        elif isinstance(value, type):
            self._add_type(value)
        elif isinstance(value, types.ModuleType):
            raise UnknownError(value)  # Whoever has it may read all of it.
        elif self._add_content(value):
            if type(value).__module__ != 'builtins':
                self._add_own(value)
        else:
            self._add_instance(value)

    def _add_content(self, value):
        """Adds what the base class of a value holds; returns whether that is known."""
        if isinstance(value, (list, tuple, dict, set, frozenset, collections.deque)):
            self._add_items(value)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self._bytes += value.nbytes
            if self._bytes > _MOST_BYTES:
                raise UnknownError(type(value))
            digest = hashlib.blake2b(np.ascontiguousarray(value).data).hexdigest()
            self._facts.append((value.dtype.str, value.shape, digest))
        elif isinstance(value, enum.Enum):
            self._facts.append((type(value), value.name))
        elif isinstance(value, _NUMBERS_AND_TEXTS):
            base = next(each for each in _NUMBERS_AND_TEXTS if isinstance(value, each))
            self._facts.append(base.__repr__(value))
        else:
            return False
        return True

    def _add_items(self, value):
        self._facts.append((type(value), len(value)))
        for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
            self._add(item)
            if isinstance(value, dict):
                self._add(dict.__getitem__(value, item))
        if isinstance(value, collections.defaultdict):
            self._add(value.default_factory)

    def _add_own(self, value):
        """Adds the class and the attributes of a value."""
        self._add(type(value))
        self._add({name: getattr(value, name) for name in reads.slots(type(value)) if hasattr(value, name)})
        self._add(getattr(value, '__dict__', None))

    def _add_code(self, value):
        if isinstance(value, types.FunctionType) and reads.is_library(value) and '<locals>' not in value.__qualname__:
            self._facts.append(id(value))
        elif isinstance(value, types.FunctionType):
            self._facts.append(value.__code__)
            self._add([value.__defaults__, value.__kwdefaults__, *(cell.cell_contents for cell in value.__closure__ or ())])
            if not reads.is_library(value):
                self._add(vars(value))
                self._add_globals(value)
        elif isinstance(value, functools.partial):
            self._add([value.func, value.args, value.keywords])
        elif isinstance(value, property):
            self._add([value.fget, value.fset])
        else:
            self._add([value.__func__, getattr(value, '__self__', None)])

    def _add_globals(self, function):
        names = reads.names(function.__code__)
        if 'FLAGS' in names[1]:
            self._add(flags.FLAGS)  # Of absl.flags, tf.flags or tf.app.flags.
        for name in sorted(names[0]):
            self._facts.append(name)
            self._add_named(name, function.__globals__.get(name, vars(builtins).get(name)), names, frozenset())

    def _add_named(self, name, value, names, outer):
        """Adds the value of a name that a function reads, which belongs to the modules `outer`."""
        if not isinstance(value, types.ModuleType):
            self._add(value)
        elif id(value) not in outer:
            self._add_module(name, value, names, outer | {id(value)})

    def _add_module(self, name, module, names, outer):
        """Adds those of a module's names that are among the attributes which a function reads."""
        _, attributes, used = names
        self._values.append(module)
        self._facts.append(id(module))
        is_library = reads.is_name_of_library(module.__name__)
        is_plain = is_library or type(module) is types.ModuleType and '__getattr__' not in vars(module) and name not in used
        if not is_plain or module.__name__.startswith(reads.IMPURE_MODULES) or module is np and 'random' in attributes:
            raise UnknownError(module)
        for attribute in sorted(attributes & vars(module).keys()):
            found = vars(module)[attribute]
            if not is_library or reads.may_be_replaced(found):
                self._facts.append(attribute)
                self._add_named(attribute, found, names, outer)

    def _add_type(self, value):
        if type(value) is not type:
            self._add(type(value))
        for each in value.__mro__:
            self._values.append(each)
            self._facts.append(id(each))
            if not reads.is_library(each):
                self._add({name: member for name, member in vars(each).items() if name not in _OF_TYPES})

    def _add_instance(self, value):
        kind = type(value)
        names = reads.slots(kind)
        # An object of Python has slots, a dict and weak references: one pointer each.
        is_of_c = kind.__basicsize__ > object.__basicsize__ + 8 * (len(names) + 2)
        if is_of_c or not (names or hasattr(value, '__dict__')):
            raise UnknownError(kind)
        self._add_own(value)

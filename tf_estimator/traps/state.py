"""The state of a program that its model_fn reads: while it is the same, the model_fn makes the same graph."""

import builtins
import collections
import dis
import enum
import functools
import hashlib
import types
from typing import Any

from google.protobuf import message
import numpy as np
import tensorflow.compat.v1 as tf

# The results of these packages' functions depend on arguments and the graph alone, except for the names below.
_LIBRARIES = {
    *('tensorflow', 'tensorflow_estimator', 'tf_estimator', 'tf_keras', 'keras', 'tf_slim', 'numpy', 'absl', 'builtins'),
    *('abc', 'collections', 'copy', 'enum', 'functools', 'itertools', 'logging', 'math', 'operator', 'six', 'typing'),
}
_IMPURE = {
    *('GFile', 'Open', 'environ', 'fromfile', 'genfromtxt', 'getattr', 'gfile', 'globals', 'input', 'iter', 'load', 'loadtxt'),
    *('locals', 'memmap', 'next', 'open', 'setattr', 'vars', 'eval', 'exec', 'id', 'load_checkpoint', 'load_variable'),
    *('latest_checkpoint', 'list_variables', 'matching_files', 'read_file'),
}
_PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
_BY_NAME = (float, complex, np.generic, tf.DType, tf.TensorShape)
_CODE = (types.FunctionType, types.MethodType, functools.partial, staticmethod, classmethod, property)
_OF_GRAPHS = (tf.Tensor, tf.Operation, tf.Variable, tf.Graph, tf.Session)
_OF_TYPES = {'__dict__', '__weakref__', '__doc__', '__annotations__', '__abstractmethods__', '_abc_impl', '__orig_bases__'}
_MOST_FACTS = 20000


class UnknownError(Exception):
    """The state cannot be told."""


@functools.cache
def _names(code):
    """Returns the names of globals and of attributes that a function reads, with those of functions within it."""
    reads, attributes = set(), set()
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ('LOAD_GLOBAL', 'LOAD_NAME', 'LOAD_FROM_DICT_OR_GLOBALS'):
            reads.add(instruction.argval)
        elif name.startswith(('IMPORT_', 'STORE_GLOBAL', 'DELETE_GLOBAL')):
            raise UnknownError(name)
        elif name.startswith(('LOAD_ATTR', 'LOAD_METHOD', 'LOAD_SUPER')):
            attributes.add(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more, further = _names(inner)
            reads, attributes = reads | more, attributes | further
    if impure := _IMPURE & (reads | attributes):
        raise UnknownError(impure)
    return frozenset(reads), frozenset(attributes)


def _is_library(value):
    kinds = (type, types.FunctionType, types.BuiltinFunctionType)
    return isinstance(value, kinds) and str(value.__module__).partition('.')[0] in _LIBRARIES or isinstance(value, np.ufunc)


class State:
    """Facts about values, all that they refer to, and what functions among them read; states are equal if all facts are.

    Raises UnknownError for what has hidden state: objects of C, files, iterators, tensors, and modules that may have some.
    """

    def __init__(self, *values: Any):
        self._facts: list[Any] = []
        self._order: dict[int, int] = {}
        self._values: list[Any] = []  # Kept, so that no other object gets the id of one.
        for value in values:
            self._add(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._facts == other._facts

    __hash__ = None  # type: ignore[assignment]

    def _add(self, value):
        if isinstance(value, _PLAIN):
            self._facts.append((type(value), value))
        elif isinstance(value, _BY_NAME):
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
        if isinstance(value, (list, tuple, dict, set, frozenset, collections.deque)):
            self._add_items(value)
        elif isinstance(value, np.ndarray) and value.dtype != object:
            digest = hashlib.blake2b(np.ascontiguousarray(value).data).hexdigest()
            self._facts.append((value.dtype.str, value.shape, digest))
        elif isinstance(value, message.Message):
            self._facts.append((type(value), value.SerializeToString(deterministic=True)))
        elif isinstance(value, enum.Enum):
            self._facts.append((type(value), value.name))
        elif isinstance(value, _CODE):
            self._add_code(value)
        elif _is_library(value) or type(value) is object:
            self._facts.append(id(value))
        elif isinstance(value, type):
            self._add_type(value)
        elif isinstance(value, types.ModuleType):
            self._add_module(value, frozenset())
        else:
            self._add_instance(value)

    def _add_items(self, value):
        self._facts.append((type(value), len(value)))
        for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
            self._add(item)
            if isinstance(value, dict):
                self._add(value[item])
        if hasattr(value, '__dict__'):
            self._add(vars(value))

    def _add_code(self, value):
        if isinstance(value, types.FunctionType) and _is_library(value) and '<locals>' not in value.__qualname__:
            self._facts.append(id(value))
        elif isinstance(value, types.FunctionType):
            self._facts.append(value.__code__)
            self._add([value.__defaults__, value.__kwdefaults__, *(cell.cell_contents for cell in value.__closure__ or ())])
            if not _is_library(value):
                self._add(vars(value))
                self._add_globals(value)
        elif isinstance(value, functools.partial):
            self._add([value.func, value.args, value.keywords])
        elif isinstance(value, property):
            self._add([value.fget, value.fset])
        else:
            self._add([value.__func__, getattr(value, '__self__', None)])

    def _add_globals(self, function):
        reads, attributes = _names(function.__code__)
        for name in sorted(reads):
            found = function.__globals__.get(name, vars(builtins).get(name))
            self._facts.append(name)
            if isinstance(found, types.ModuleType):
                self._add_module(found, attributes)
            else:
                self._add(found)

    def _add_module(self, module, attributes):
        """Adds those of a module's names that are among the attributes which a function reads."""
        root = module.__name__.partition('.')[0]
        self._values.append(module)
        self._facts.append(id(module))
        if root == 'numpy' and 'random' in attributes:
            raise UnknownError('numpy.random')
        for name in sorted(attributes & vars(module).keys()) if root not in _LIBRARIES else ():
            self._facts.append(name)
            if isinstance(found := vars(module)[name], types.ModuleType):
                self._add_module(found, attributes)
            else:
                self._add(found)

    def _add_type(self, value):
        for each in value.__mro__:
            self._values.append(each)
            self._facts.append(id(each))
            if not _is_library(each):
                self._add({name: member for name, member in vars(each).items() if name not in _OF_TYPES})

    def _add_instance(self, value):
        kind = type(value)
        slots = [name for each in kind.__mro__ for name in map(str, np.atleast_1d(vars(each).get('__slots__', ())))]
        # An object of Python has slots, a dict and weak references: one pointer each.
        is_of_c = kind.__basicsize__ > object.__basicsize__ + 8 * (len(slots) + 2)
        if is_of_c or not (slots or hasattr(value, '__dict__')):
            raise UnknownError(kind)
        self._add(kind)
        self._add({name: getattr(value, name) for name in slots if name not in _OF_TYPES and hasattr(value, name)})
        self._add(getattr(value, '__dict__', None))

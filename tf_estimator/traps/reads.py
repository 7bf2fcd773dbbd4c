"""The names that functions read, and the values of libraries that count as constant."""

import collections
import dis
import functools
import types

import numpy as np

# The results of these packages' functions depend on arguments and the graph alone, except for the names below.
_LIBRARIES = {
    *('tensorflow', 'tensorflow_estimator', 'tf_estimator', 'tf_keras', 'keras', 'tf_slim', 'numpy', 'absl', 'builtins'),
    *('abc', 'collections', 'copy', 'enum', 'functools', 'itertools', 'logging', 'math', 'operator', 'six', 'typing'),
}
_IMPURE = {
    *('GFile', 'Open', 'environ', 'fromfile', 'genfromtxt', 'getattr', 'gfile', 'globals', 'input', 'iter', 'load', 'loadtxt'),
    *('locals', 'memmap', 'next', 'open', 'setattr', 'vars', 'eval', 'exec', 'id', 'load_checkpoint', 'load_variable'),
    *('latest_checkpoint', 'list_variables', 'matching_files', 'read_file', '__import__', '__dict__', 'attrgetter', 'dir'),
    *('FileIO', 'NewCheckpointReader', 'checkpoint_exists', 'file_exists', 'file_io', 'get_checkpoint_state', 'get_file'),
    *('fromregex', 'import_meta_graph', 'load_img', 'load_model', 'read_file_to_string', 'recfromcsv', 'recfromtxt'),
    *('tf_record_iterator', 'DataSource'),
}
IMPURE_MODULES = ('numpy.random', 'tensorflow.python.lib.io', 'tensorflow.python.platform.gfile')
# Of classes in C: what is looked up in their objects.
_DESCRIPTORS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType)
_FIELDS = (types.MemberDescriptorType, type(vars(collections.namedtuple('_OfField', 'field'))['field']))


class UnknownError(Exception):
    """The state cannot be told."""


@functools.cache
def names(code):
    """Returns the names of globals and of attributes that a function reads, with those of functions within it.

    The third result has the names of both whose values it uses otherwise than for an attribute.
    """
    reads, attributes, used = set(), set(), set()
    instructions = [each for each in dis.get_instructions(code) if each.opname != 'EXTENDED_ARG']
    for instruction, following in zip(instructions, [*instructions[1:], instructions[-1]]):
        name = instruction.opname
        if not following.opname.startswith(('LOAD_ATTR', 'LOAD_METHOD')):
            used.add(instruction.argval)
        if name in ('LOAD_GLOBAL', 'LOAD_NAME', 'LOAD_FROM_DICT_OR_GLOBALS'):
            reads.add(instruction.argval)
        elif name.startswith(('IMPORT_', 'STORE_GLOBAL', 'DELETE_GLOBAL')):
            raise UnknownError(name)
        elif name.startswith(('LOAD_ATTR', 'LOAD_METHOD', 'LOAD_SUPER')):
            attributes.add(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more, further, as_values = names(inner)
            reads, attributes, used = reads | more, attributes | further, used | as_values
    if impure := _IMPURE & (reads | attributes):
        raise UnknownError(impure)
    return frozenset(reads), frozenset(attributes), frozenset(used & (reads | attributes))


def is_library(value):
    """Whether a value is a library's, and constant; raises UnknownError for functions that draw numbers or read files."""
    if isinstance(value, (np.ufunc, *_FIELDS)):
        return True
    if isinstance(value, _DESCRIPTORS):
        return is_library(value.__objclass__)
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, type):
        return is_library(value.__self__)  # As tuple.__new__.
    if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return False
    modules = [str(value.__module__)]
    if isinstance(value, types.FunctionType):
        modules.append(str(value.__globals__.get('__name__')))  # functools.wraps copies __module__ to a program's function.
    if any(module.startswith(IMPURE_MODULES) for module in modules):
        raise UnknownError(value)
    return all(is_name_of_library(module) for module in modules)


def is_name_of_library(module):
    return module.partition('.')[0] in _LIBRARIES


def may_be_replaced(value):
    """Whether a value of a library's module is a program's function, or a module that may have some."""
    if isinstance(value, types.ModuleType):
        return is_name_of_library(value.__name__)
    return isinstance(value, types.FunctionType) and not is_library(value)


def slots(kind):
    """Returns the names of the slots of a class, as they are for getattr."""
    classes = [vars(each) for each in kind.__mro__ if '__slots__' in vars(each)]
    return [name for each in classes for name, slot in each.items() if isinstance(slot, types.MemberDescriptorType)]

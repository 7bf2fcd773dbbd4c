"""Dropped names that old programs use, restored: each use is logged.

They are the most used of those dropped by Python 3.8 to 3.13 and NumPy 1.18 to 2.5.

Not restored: names without an equally good equivalent (the modules cgi, imghdr and telnetlib, numpy.find_common_type), and
names of types written in C (array.array.tostring, numpy.ndarray.ptp). setuptools, which TensorFlow requires, has distutils.
"""

from collections.abc import Callable, Mapping
import functools
import importlib
import inspect
import logging
import pkgutil
import sys
import types
from typing import Any

from tf_estimator import old_functions
from tf_estimator.aliases import Aliases, add_names
from tf_estimator.mending import around

_ABSTRACT = (
    'Awaitable Coroutine AsyncIterable AsyncIterator AsyncGenerator Hashable Iterable Iterator Generator Reversible Sized '
    'Container Callable Collection Set MutableSet Mapping MutableMapping MappingView KeysView ItemsView ValuesView Sequence '
    'MutableSequence ByteString'
)
_NUMPY_EXCEPTIONS = 'AxisError ComplexWarning ModuleDeprecationWarning RankWarning TooHardError VisibleDeprecationWarning'
# {module: {dropped name: path of its replacement, '' for one of old_functions}}
ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    'asyncio': {'coroutine': 'types.coroutine'},
    'base64': {'encodestring': 'base64.encodebytes', 'decodestring': 'base64.decodebytes'},
    'collections': {name: f'collections.abc.{name}' for name in _ABSTRACT.split()},
    'configparser': {'SafeConfigParser': 'configparser.ConfigParser'},
    'fractions': {'gcd': 'math.gcd'},
    'inspect': {'getargspec': ''},
    'locale': {'format': 'locale.format_string'},
    'time': {'clock': 'time.perf_counter'},
    'unittest': {'makeSuite': '', '_TextTestResult': 'unittest.TextTestResult'},
    'numpy': {
        **{name: f'builtins.{name}' for name in ('bool', 'complex', 'float', 'int', 'object', 'str')},
        'long': 'builtins.int',
        'unicode': 'builtins.str',
        **dict.fromkeys(('Inf', 'Infinity', 'PINF', 'infty'), 'numpy.inf'),
        **dict.fromkeys(('NAN', 'NaN'), 'numpy.nan'),
        **dict.fromkeys(('NINF', 'NZERO', 'PZERO', 'alen', 'asfarray', 'asscalar', 'cast', 'in1d', 'msort', 'sctypes'), ''),
        **{name: f'numpy.exceptions.{name}' for name in _NUMPY_EXCEPTIONS.split()},
        'DataSource': 'numpy.lib.npyio.DataSource',
        'alltrue': 'numpy.all',
        'bool8': 'numpy.bool_',
        'bytes0': 'numpy.bytes_',
        'cfloat': 'numpy.complex128',
        'clongfloat': 'numpy.clongdouble',
        'complex_': 'numpy.complex128',
        'cumproduct': 'numpy.cumprod',
        'float_': 'numpy.float64',
        'int0': 'numpy.intp',
        'issubclass_': '',
        'longcomplex': 'numpy.clongdouble',
        'longfloat': 'numpy.longdouble',
        'mat': 'numpy.asmatrix',
        'math': 'math',
        'object0': 'numpy.object_',
        'product': 'numpy.prod',
        'rank': 'numpy.ndim',
        'round_': 'numpy.round',
        'row_stack': 'numpy.vstack',
        'safe_eval': 'ast.literal_eval',
        'singlecomplex': 'numpy.complex64',
        'sometrue': 'numpy.any',
        'str0': 'numpy.str_',
        'string_': 'numpy.bytes_',
        'trapz': 'numpy.trapezoid',
        'typeDict': 'numpy.sctypeDict',
        'uint0': 'numpy.uintp',
        'unicode_': 'numpy.str_',
        'void0': 'numpy.void',
    },
}
# {class: {dropped method: its replacement, '' for one of old_functions}}
METHODS: Mapping[str, Mapping[str, str]] = {
    'configparser.RawConfigParser': {'readfp': 'read_file'},
    'threading.Thread': {'isAlive': 'is_alive'},
    'unittest.TestCase': {
        'assertAlmostEquals': 'assertAlmostEqual',
        'assertDictContainsSubset': '',
        'assertEquals': 'assertEqual',
        'assertItemsEqual': 'assertCountEqual',
        'assertNotAlmostEquals': 'assertNotAlmostEqual',
        'assertNotEquals': 'assertNotEqual',
        'assertNotRegexpMatches': 'assertNotRegex',
        'assertRaisesRegexp': 'assertRaisesRegex',
        'assertRegexpMatches': 'assertRegex',
        'assert_': 'assertTrue',
        'failIf': 'assertFalse',
        'failIfAlmostEqual': 'assertNotAlmostEqual',
        'failIfEqual': 'assertNotEqual',
        'failUnless': 'assertTrue',
        'failUnlessAlmostEqual': 'assertAlmostEqual',
        'failUnlessEqual': 'assertEqual',
        'failUnlessRaises': 'assertRaises',
    },
}
_MODULES = {'imp': 'tf_estimator.old_imp', 'pipes': 'shlex', 'xml.etree.cElementTree': 'xml.etree.ElementTree'}


def restore() -> None:
    """Restores missing names; keeps existing ones."""
    for module, names in ATTRIBUTES.items():
        restore_attributes(importlib.import_module(module), names)
    for path, methods in METHODS.items():
        owner = pkgutil.resolve_name(path)
        for old, new in methods.items():
            if not hasattr(owner, old):
                setattr(owner, old, renamed(f'{path}.{old}', new))
    _restore_newshape(importlib.import_module('numpy'))
    sys.meta_path.append(Aliases(_MODULES, on_import=_log))  # Last: an existing module is found before.


def restore_attributes(module: types.ModuleType, names: Mapping[str, str]) -> None:
    """Restores a module's names in ATTRIBUTES."""
    paths = {name: path or _old_function(f'{module.__name__}.{name}') for name, path in names.items()}
    add_names(module, paths, lambda name: _log(f'{module.__name__}.{name}', names[name].removeprefix('builtins.')))


def renamed(path: str, new: str) -> Callable[..., Any]:
    """Returns the dropped method at a path, class.method, which calls `new`."""

    def successor(self, *args, **kwargs):
        return getattr(self, new)(*args, **kwargs)

    function = successor if new else pkgutil.resolve_name(_old_function(path))

    def method(self, *args, **kwargs):
        _log(path, new)
        return function(self, *args, **kwargs)

    return method


def _restore_newshape(numpy: Any) -> None:
    """Lets numpy.reshape accept `newshape`, which is now `shape`."""
    if 'newshape' in inspect.signature(numpy.reshape).parameters:
        return

    @around(numpy, 'reshape')
    def reshape_of_old(reshape, *args, **kwargs):
        if 'newshape' in kwargs:
            _log("numpy.reshape's argument newshape", 'shape')
            kwargs['shape'] = kwargs.pop('newshape')
        return reshape(*args, **kwargs)


def _old_function(path):
    return f'{old_functions.__name__}.{path.replace(".", "_")}'


@functools.cache  # Logs each once.
def _log(old: str, new: str) -> None:
    dropped_by = 'NumPy' if old.startswith('numpy.') else 'Python'
    by = f'; {new} replaces it' if new else '; it is restored'
    logging.getLogger('tensorflow').warning('%s: %s has dropped it%s.', old, dropped_by, by)

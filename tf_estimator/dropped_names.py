"""Names that old programs use and that are gone, put back: each is logged when it is used.

They are those that Python 3.8 to 3.13 and NumPy 1.18 to 2.4 have dropped, and TensorFlow's package `training.tracking`, which
was private, moved in 2.9, and is imported by libraries all the same.

Not put back: what has no equivalent that is as good (the modules cgi, imghdr and telnetlib, numpy.find_common_type), and
names of types that are written in C (array.array.tostring, numpy.ndarray.ptp). setuptools, which TensorFlow needs, has
distutils.
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
from tf_estimator.aliases import Aliases

_ABSTRACT = (
    'Awaitable Coroutine AsyncIterable AsyncIterator AsyncGenerator Hashable Iterable Iterator Generator Reversible Sized '
    'Container Callable Collection Set MutableSet Mapping MutableMapping MappingView KeysView ItemsView ValuesView Sequence '
    'MutableSequence ByteString'
)
# {module: {dropped name: path of what takes its place, '' for one of old_functions}}
_ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    'base64': {'encodestring': 'base64.encodebytes', 'decodestring': 'base64.decodebytes'},
    'collections': {name: f'collections.abc.{name}' for name in _ABSTRACT.split()},
    'configparser': {'SafeConfigParser': 'configparser.ConfigParser'},
    'fractions': {'gcd': 'math.gcd'},
    'inspect': {'getargspec': ''},
    'locale': {'format': 'locale.format_string'},
    'time': {'clock': 'time.perf_counter'},
    'unittest': {'makeSuite': ''},
    'numpy': {
        **{name: f'builtins.{name}' for name in ('bool', 'complex', 'float', 'int', 'object', 'str')},
        'long': 'builtins.int',
        'unicode': 'builtins.str',
        **dict.fromkeys(('Inf', 'Infinity', 'PINF', 'infty'), 'numpy.inf'),
        **dict.fromkeys(('NAN', 'NaN'), 'numpy.nan'),
        **dict.fromkeys(('NINF', 'NZERO', 'PZERO', 'alen', 'asfarray', 'asscalar', 'cast', 'in1d', 'msort', 'sctypes'), ''),
        'alltrue': 'numpy.all',
        'bool8': 'numpy.bool_',
        'bytes0': 'numpy.bytes_',
        'cfloat': 'numpy.complex128',
        'clongfloat': 'numpy.clongdouble',
        'complex_': 'numpy.complex128',
        'cumproduct': 'numpy.cumprod',
        'float_': 'numpy.float64',
        'int0': 'numpy.intp',
        'issubclass_': 'builtins.issubclass',
        'longcomplex': 'numpy.clongdouble',
        'longfloat': 'numpy.longdouble',
        'mat': 'numpy.asmatrix',
        'object0': 'numpy.object_',
        'product': 'numpy.prod',
        'rank': 'numpy.ndim',
        'round_': 'numpy.round',
        'row_stack': 'numpy.vstack',
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
# {class: {dropped method: the one that takes its place, '' for one of old_functions}}
_METHODS: Mapping[str, Mapping[str, str]] = {
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
_MODULES = {'imp': 'tf_estimator.old_imp', 'xml.etree.cElementTree': 'xml.etree.ElementTree'}
_TRACKING = 'tensorflow.python.training.tracking'
_TRACKING_MODULES = {
    f'{_TRACKING}.graph_view': 'tensorflow.python.checkpoint.graph_view',
    f'{_TRACKING}.tracking': 'tensorflow.python.trackable.autotrackable',
    f'{_TRACKING}.util': 'tensorflow.python.checkpoint.checkpoint',
    _TRACKING: 'tensorflow.python.trackable',  # The others, which kept their names.
}


def restore() -> None:
    """Puts back what is missing; what is there stays as it is."""
    for module, names in _ATTRIBUTES.items():
        _restore_attributes(importlib.import_module(module), names)
    for path, methods in _METHODS.items():
        owner = pkgutil.resolve_name(path)
        for old, new in methods.items():
            if not hasattr(owner, old):
                setattr(owner, old, _renamed(f'{path}.{old}', new))
    _restore_newshape(importlib.import_module('numpy'))
    sys.meta_path.append(Aliases(_MODULES, on_import=_log))  # Last: where the module is still there, it is found before.
    _restore_tracking()


def _restore_tracking() -> None:
    """Puts TensorFlow's package `training.tracking` back."""
    package = types.ModuleType(_TRACKING)
    package.__path__ = []
    sys.modules[_TRACKING] = package
    vars(importlib.import_module('tensorflow.python.training'))['tracking'] = package
    sys.meta_path.insert(0, Aliases(_TRACKING_MODULES, on_import=_log))


def _restore_attributes(module, names: Mapping[str, str]) -> None:
    """Makes names of a module that it does not have (PEP 562); the first use logs, and puts the name into the module."""
    own: Callable[[str], Any] | None = vars(module).get('__getattr__')

    def getattribute(name):
        if name not in names:
            if own:
                return own(name)
            raise AttributeError(f'module {module.__name__!r} has no attribute {name!r}')
        path = f'{module.__name__}.{name}'
        value = pkgutil.resolve_name(names[name]) if names[name] else _old_function(path)
        _log(path, names[name].removeprefix('builtins.'))
        setattr(module, name, value)
        return value

    module.__getattr__ = getattribute


def _renamed(path, new):
    function = (lambda self, *args, **kwargs: getattr(self, new)(*args, **kwargs)) if new else _old_function(path)

    def method(self, *args, **kwargs):
        _log(path, new)
        return function(self, *args, **kwargs)

    return method


def _restore_newshape(numpy: Any) -> None:
    """Lets numpy.reshape take its argument `newshape`, which is now `shape`."""
    reshape = numpy.reshape
    if 'newshape' in inspect.signature(reshape).parameters:
        return

    @functools.wraps(reshape)
    def reshape_of_old(*args, **kwargs):
        if 'newshape' in kwargs:
            _log("numpy.reshape's argument newshape", 'shape')
            kwargs['shape'] = kwargs.pop('newshape')
        return reshape(*args, **kwargs)

    numpy.reshape = reshape_of_old


def _old_function(path):
    return getattr(old_functions, path.replace('.', '_'))


@functools.cache  # So that each is said once.
def _log(old: str, new: str) -> None:
    dropped_by = {'numpy': 'NumPy', 'tensorflow': 'TensorFlow'}.get(old.partition('.')[0], 'Python')
    by = f'; {new} takes its place' if new else ' without a successor; it is put back'
    logging.getLogger('tensorflow').warning('%s: %s has dropped it%s.', old, dropped_by, by)

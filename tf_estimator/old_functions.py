"""Functions dropped by Python and NumPy without an exact replacement: MODULE_NAME for module.name."""

import collections
import inspect
import unittest

import numpy as np

_TENSORFLOW = ('tensorflow', 'tensorflow_estimator', 'tf_keras', 'tf_estimator')  # Its functions had neither in TensorFlow 1.
ArgSpec = collections.namedtuple('ArgSpec', 'args varargs keywords defaults')


def inspect_getargspec(function):
    spec = inspect.getfullargspec(function)
    if not (spec.kwonlyargs or spec.annotations):
        return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)
    if str(getattr(function, '__module__', '')).partition('.')[0] not in _TENSORFLOW:
        raise ValueError('the function has keyword-only parameters or annotations: inspect.getfullargspec shows them')
    values = spec.kwonlydefaults or {}
    first_default = len(spec.args) - len(spec.defaults or ())
    required = [*spec.args[:first_default], *(name for name in spec.kwonlyargs if name not in values)]
    defaults = (*(spec.defaults or ()), *values.values())
    return ArgSpec([*required, *spec.args[first_default:], *values], spec.varargs, spec.varkw, defaults or None)


def unittest_makeSuite(test_case, prefix='test', sort_using=None, suite_class=unittest.TestSuite):
    loader = unittest.TestLoader()
    loader.testMethodPrefix, loader.suiteClass = prefix, suite_class
    if sort_using:
        loader.sortTestMethodsUsing = sort_using
    return loader.loadTestsFromTestCase(test_case)


def unittest_TestCase_assertDictContainsSubset(self, subset, dictionary, msg=None):
    self.assertEqual(dictionary, {**dictionary, **subset}, msg)


numpy_NINF = -np.inf
numpy_NZERO = -0.0
numpy_PZERO = 0.0
numpy_sctypes = {
    'int': [np.int8, np.int16, np.int32, np.int64],
    'uint': [np.uint8, np.uint16, np.uint32, np.uint64],
    'float': [np.float16, np.float32, np.float64, np.longdouble],
    'complex': [np.complex64, np.complex128, np.clongdouble],
    'others': [bool, object, bytes, str, np.void],
}


def numpy_alen(a):
    return len(np.atleast_1d(a))


def numpy_asfarray(a, dtype=np.float64):
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


def numpy_asscalar(a):
    return a.item()


def numpy_in1d(ar1, ar2, *args, **kwargs):
    return np.isin(np.ravel(ar1), ar2, *args, **kwargs)


def numpy_issubclass_(arg1, arg2):
    try:
        return issubclass(arg1, arg2)
    except TypeError:
        return False


def numpy_msort(a):
    return np.sort(a, axis=0)


class _Cast:
    """numpy.cast[dtype](x)"""

    def __getitem__(self, dtype):
        return lambda x: np.asarray(x).astype(dtype)


numpy_cast = _Cast()

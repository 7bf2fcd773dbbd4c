"""Programs with names dropped by Python and NumPy run through `python -m tf_estimator`, which logs the names."""

import importlib
import inspect
import py_compile
import sys
import types
import unittest

from tf_estimator import dropped_names, old_functions, old_imp

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_estimator.programs import Environment

NUMPY_2 = int(np.__version__.split('.')[0]) >= 2
PROGRAM = """
from collections import Mapping, OrderedDict
import fractions, imp, inspect, threading, unittest
import xml.etree.cElementTree as ElementTree
import numpy as np
print(Mapping.__module__, OrderedDict.__module__, fractions.gcd(12, 18), ElementTree.fromstring('<a/>').tag)
print(inspect.getargspec(lambda a, b=1, *c, **d: 0)[:], imp.new_module('m').__name__)
print(np.array([1.9], np.int), np.float(1), np.asscalar(np.array([3])), np.int is np.int)
print(np.float_(2).dtype, np.product([2, 3]), np.reshape([1, 2], newshape=(2, 1)).shape, threading.Thread().isAlive())
for _ in range(2):
    unittest.TestCase().assertItemsEqual([1, 2], [2, 1])
"""


def test_a_program_with_dropped_names_runs_and_each_is_logged_once(tmp_path):
    code, out, err = Environment(tmp_path).run_tf_estimator('-', text=PROGRAM)
    assert code == 0, err
    assert out.splitlines() == [
        'collections.abc collections 6 a',
        "(['a', 'b'], 'c', 'd', (1,)) m",
        '[1] 1.0 3 True',
        'float64 6 (2, 1) False',
    ]
    said = [line for line in err.splitlines() if 'has dropped it' in line]
    expected = {
        'collections.Mapping: Python has dropped it; collections.abc.Mapping replaces it.',
        'inspect.getargspec: Python has dropped it; it is restored.',
        'numpy.int: NumPy has dropped it; int replaces it.',
        'unittest.TestCase.assertItemsEqual: Python has dropped it; assertCountEqual replaces it.',
    }
    if 'newshape' not in inspect.signature(np.reshape).parameters:
        expected.add("numpy.reshape's argument newshape: NumPy has dropped it; shape replaces it.")
    assert expected <= set(said)
    assert len(said) == len(set(said))


@pytest.mark.parametrize('module', dropped_names.ATTRIBUTES)
def test_every_name_has_a_replacement(module):
    names = dropped_names.ATTRIBUTES[module]
    old = types.ModuleType(module)
    dropped_names.restore_attributes(old, names)
    for name in names:
        # NumPy 1 has most of them, and may lack their replacements.
        if NUMPY_2 or module != 'numpy' or not hasattr(np, name):
            assert getattr(old, name) is not None
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
        old.nothing  # noqa: B018


def test_old_assertions_do_what_the_new_ones_do():
    methods = dropped_names.METHODS['unittest.TestCase']
    assert {new for new in methods.values() if not hasattr(unittest.TestCase, new)} == {''}
    for old, passing, failing in (
        ('failUnlessRaises', (ValueError, int, 'x'), (ValueError, int, '1')),
        ('failIfEqual', (1, 2), (1, 1)),
        ('assertDictContainsSubset', ({1: 2}, {1: 2, 3: 4}), ({1: 3}, {1: 2, 3: 4})),
    ):
        method = dropped_names.renamed(f'unittest.TestCase.{old}', methods[old])
        method(unittest.TestCase(), *passing)
        with pytest.raises(AssertionError):
            method(unittest.TestCase(), *failing)


def test_old_functions_compute_what_they_did():
    assert not hasattr(np, 'asscalar')  # Importing the package restores no names.
    assert old_functions.numpy_in1d([[1, 2], [3, 4]], [2, 4]).tolist() == [False, True, False, True]
    assert old_functions.numpy_in1d([1, 2], [2], True, invert=True).tolist() == [True, False]
    assert old_functions.numpy_issubclass_(bool, int) and not old_functions.numpy_issubclass_(1, int)
    assert old_functions.numpy_cast['uint8'](np.array([-1, 300])).tolist() == [255, 44]
    assert old_functions.numpy_msort([[3, 1], [2, 4]]).tolist() == [[2, 1], [3, 4]]
    for given, dtype in ((np.int32, np.float64), (np.float32, np.float32)):
        assert old_functions.numpy_asfarray([1, 2], given).dtype == dtype
    assert (old_functions.numpy_alen(5), old_functions.numpy_alen([1, 2])) == (1, 2)
    with pytest.raises(ValueError, match='keyword-only'):
        old_functions.inspect_getargspec(lambda *, a: a)
    case = type('Case', (unittest.TestCase,), {'check_a': repr, 'check_b': repr, 'test': repr})
    suite = old_functions.unittest_makeSuite(case, 'check', lambda a, b: (a < b) - (a > b))
    assert [str(test).partition(' ')[0] for test in suite] == ['check_b', 'check_a']


def test_tensorflows_functions_have_the_arguments_that_they_had_before_annotations():
    def function(a: int, b=1, *, c, d: int = 2) -> int: ...

    function.__module__ = 'tensorflow.python.framework.ops'
    assert old_functions.inspect_getargspec(function) == (['a', 'c', 'b', 'd'], None, None, (1, 2))
    assert old_functions.inspect_getargspec(tf.as_string).args[:2] == ['input', 'precision']


def test_imp_loads_modules_packages_and_builtins_and_keeps_a_loaded_module_that_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, 'modules', dict(sys.modules))
    source, package = tmp_path / 'imp_module.py', tmp_path / 'imp_package'
    source.write_text('COUNT = 1\n')
    package.mkdir()
    (package / '__init__.py').write_text('from imp_package.part import NAME\n')
    (package / 'part.py').write_text('NAME = "part"\n')
    file, path, description = old_imp.find_module('imp_module', [str(tmp_path)])
    with file:
        module = old_imp.load_module('imp_module', file, path, description)
        assert file.readline() == 'COUNT = 1\n'
    assert (module.COUNT, module.__file__, description) == (1, str(source), ('.py', 'r', old_imp.PY_SOURCE))
    assert sys.modules['imp_module'] is module
    found = old_imp.find_module('imp_package', [str(tmp_path)])
    assert found == (None, str(package), ('', '', old_imp.PKG_DIRECTORY))
    assert old_imp.load_module('imp_package', *found).NAME == 'part'
    kinds = 'PY_SOURCE PY_COMPILED C_EXTENSION PKG_DIRECTORY C_BUILTIN PY_FROZEN'.split()
    assert [getattr(old_imp, kind) for kind in kinds] == [1, 2, 3, 5, 6, 7]  # As in Python 3.11.
    for name in ('sys', 'zipimport'):  # A built-in module, and one that is frozen.
        assert old_imp.load_module(name, *old_imp.find_module(name)) is importlib.import_module(name)
    assert old_imp.load_compiled('compiled', py_compile.compile(str(source))).COUNT == 1
    with pytest.raises(ImportError, match="No module named 'none_such'"):
        old_imp.find_module('none_such', [str(tmp_path)])
    source.write_text('AGAIN = COUNT + 1\n1 / 0\n')
    for name, error in (('imp_module', ZeroDivisionError), ('new', NameError)):
        with pytest.raises(error):
            old_imp.load_source(name, str(source))
    assert sys.modules['imp_module'] is module and module.AGAIN == 2 and 'new' not in sys.modules

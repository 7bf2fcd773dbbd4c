"""Programs that use what Python and NumPy have dropped since run through `python -m tf_estimator`, which says what it was."""

import importlib.util
import inspect
import sys
import types
import unittest

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator import dropped_names, old_functions, old_imp

import numpy as np
import pytest

from tests.tf_estimator.programs import run_script

NUMPY_2 = int(np.__version__.split('.')[0]) >= 2
PROGRAM = """
from collections import Mapping, OrderedDict
import fractions
import imp
import inspect
import threading
import unittest
import xml.etree.cElementTree as ElementTree
import numpy as np

print(Mapping.__module__, OrderedDict.__module__, fractions.gcd(12, 18), ElementTree.fromstring('<a/>').tag)
print(inspect.getargspec(lambda a, b=1, *c, **d: 0)[:], imp.new_module('m').__name__)
print(np.array([1.9], np.int), np.float(1), np.asscalar(np.array([3])), np.int is np.int)
print(np.float_(2).dtype, np.product([2, 3]), np.reshape([1, 2], newshape=(2, 1)).shape, threading.Thread().isAlive())
for module in (np, inspect):
    try:
        module.nothing
    except AttributeError as error:
        print(error)


class Test(unittest.TestCase):
    def test(self):
        self.assertItemsEqual([1, 2], [2, 1])
        self.assertItemsEqual([1], [1])
        self.assertEquals(1, 1)
        with self.assertRaises(AssertionError):
            self.failUnlessEqual(1, 2)


unittest.main(argv=['program'])
"""


def test_a_program_with_dropped_names_runs_and_each_is_said_once(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text(PROGRAM)
    code, out, err = run_script(script)
    assert code == 0, err
    assert out.splitlines() == [
        'collections.abc collections 6 a',
        "(['a', 'b'], 'c', 'd', (1,)) m",
        '[1] 1.0 3 True',
        'float64 6 (2, 1) False',
        "module 'numpy' has no attribute 'nothing'",
        "module 'inspect' has no attribute 'nothing'",
    ]
    said = [line for line in err.splitlines() if line.startswith('WARNING:tensorflow:')]
    expected = {
        'WARNING:tensorflow:collections.Mapping: Python has dropped it; collections.abc.Mapping takes its place.',
        'WARNING:tensorflow:fractions.gcd: Python has dropped it; math.gcd takes its place.',
        'WARNING:tensorflow:inspect.getargspec: Python has dropped it; it is put back.',
        'WARNING:tensorflow:numpy.int: NumPy has dropped it; int takes its place.',
        'WARNING:tensorflow:unittest.TestCase.assertItemsEqual: Python has dropped it; assertCountEqual takes its place.',
    }
    if NUMPY_2:
        expected.add('WARNING:tensorflow:numpy.float_: NumPy has dropped it; numpy.float64 takes its place.')
    if 'newshape' not in inspect.signature(np.reshape).parameters:
        expected.add("WARNING:tensorflow:numpy.reshape's argument newshape: NumPy has dropped it; shape takes its place.")
    assert expected <= set(said)
    assert len(said) == len(set(said))


def test_importing_the_package_puts_no_name_back():
    with pytest.raises(AttributeError):
        np.asscalar  # noqa: B018


def test_every_name_has_something_in_its_place():
    for module, names in dropped_names._ATTRIBUTES.items():
        for name in names:
            old = types.ModuleType(module)
            dropped_names._restore_attributes(old, names)
            if not NUMPY_2 and hasattr(np, name):
                continue  # NumPy 1 has it, and may not have what takes its place.
            assert getattr(old, name) is not None


@pytest.mark.parametrize('old, new', dropped_names._METHODS['unittest.TestCase'].items())
def test_old_assertions_do_what_the_new_ones_do(old, new):
    method = dropped_names._renamed(f'unittest.TestCase.{old}', new)
    case = unittest.TestCase()
    passing = {
        'assertAlmostEqual': (1, 1 + 1e-9),
        'assertCountEqual': ([1, 2], [2, 1]),
        'assertEqual': (1, 1),
        'assertFalse': (0,),
        'assertNotAlmostEqual': (1, 2),
        'assertNotEqual': (1, 2),
        'assertNotRegex': ('text', 'none'),
        'assertRaises': (ValueError, int, 'x'),
        'assertRaisesRegex': (ValueError, 'invalid', int, 'x'),
        'assertRegex': ('text', 'ex'),
        'assertTrue': (1,),
        '': ({1: 2}, {1: 2, 3: 4}),
    }
    failing = {
        'assertAlmostEqual': (1, 2),
        'assertCountEqual': ([1, 2], [2, 2]),
        'assertEqual': (1, 2),
        'assertFalse': (1,),
        'assertNotAlmostEqual': (1, 1 + 1e-9),
        'assertNotEqual': (1, 1),
        'assertNotRegex': ('text', 'ex'),
        'assertRaises': (ValueError, int, '1'),
        'assertRaisesRegex': (ValueError, 'none', int, 'x'),
        'assertRegex': ('text', 'none'),
        'assertTrue': (0,),
        '': ({1: 3}, {1: 2, 3: 4}),
    }
    method(case, *passing[new])
    with pytest.raises(AssertionError):
        method(case, *failing[new])


def test_old_functions_compute_what_they_did():
    np.testing.assert_array_equal(old_functions.numpy_in1d([[1, 2], [3, 4]], [2, 4]), [False, True, False, True])
    np.testing.assert_array_equal(old_functions.numpy_in1d([1, 2], [2], True, invert=True), [True, False])
    assert old_functions.numpy_issubclass_(bool, int) and not old_functions.numpy_issubclass_(1, int)
    assert old_functions.numpy_cast['uint8'](np.array([-1, 300])).tolist() == [255, 44]
    np.testing.assert_array_equal(old_functions.numpy_msort([[3, 1], [2, 4]]), [[2, 1], [3, 4]])
    assert old_functions.numpy_asfarray([1, 2], np.int32).dtype == np.float64
    assert old_functions.numpy_asfarray([1, 2], np.float32).dtype == np.float32
    assert old_functions.numpy_cast['int32'](2.7) == 2
    assert (old_functions.numpy_alen(5), old_functions.numpy_alen([1, 2])) == (1, 2)
    with pytest.raises(ValueError, match='keyword-only'):
        old_functions.inspect_getargspec(lambda *, a: a)


def test_imp_loads_modules_packages_and_builtins(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, 'modules', dict(sys.modules))
    tmp_path.joinpath('imp_module.py').write_text('import itertools\nCOUNT = 1\n')
    tmp_path.joinpath('imp_package').mkdir()
    tmp_path.joinpath('imp_package', '__init__.py').write_text('from imp_package.part import NAME\n')
    tmp_path.joinpath('imp_package', 'part.py').write_text('NAME = "part"\n')

    file, path, description = old_imp.find_module('imp_module', [str(tmp_path)])
    with file:
        module = old_imp.load_module('imp_module', file, path, description)
        assert file.readline() == 'import itertools\n'
    assert (module.COUNT, module.__file__, description) == (1, str(tmp_path / 'imp_module.py'), ('.py', 'r', old_imp.PY_SOURCE))
    assert sys.modules['imp_module'] is module

    file, path, description = old_imp.find_module('imp_package', [str(tmp_path)])
    assert (file, path, description[2]) == (None, str(tmp_path / 'imp_package'), old_imp.PKG_DIRECTORY)
    assert old_imp.load_module('imp_package', file, path, description).NAME == 'part'

    assert old_imp.load_module('sys', *old_imp.find_module('sys')) is sys
    source = old_imp.load_source('another', str(tmp_path / 'imp_module.py'))
    assert (source.__name__, source.COUNT) == ('another', 1)
    compiled = importlib.util.cache_from_source(tmp_path / 'imp_module.py')
    if not sys.dont_write_bytecode:
        assert old_imp.load_compiled('compiled', compiled).COUNT == 1

    tmp_path.joinpath('imp_module.py').write_text('AGAIN = COUNT + 1\n1 / 0\n')
    with pytest.raises(ZeroDivisionError):
        old_imp.load_source('another', str(tmp_path / 'imp_module.py'))
    assert sys.modules['another'] is source and source.AGAIN == 2
    with pytest.raises(NameError):
        old_imp.load_source('a_third', str(tmp_path / 'imp_module.py'))
    assert 'a_third' not in sys.modules
    with pytest.raises(ImportError, match="No module named 'none_such'"):
        old_imp.find_module('none_such', [str(tmp_path)])

"""What the tests of a library gave is read from what they write, of absltest and of pytest."""

from pathlib import Path
import sys

import pytest

from tests.shared import ROOT
from tools.compat import results
from tools.compat.libraries import Library

pytestmark = pytest.mark.slow

TESTS = """
import unittest

import tensorflow as tf


class Test(tf.test.TestCase):

    def test_passing(self):
        tf.estimator.Estimator

    def test_failing(self):
        assert 1 + 1 == 3, 'one and one'

    def test_raising(self):
        raise ValueError('two\\nlines')

    @unittest.skip('never')
    def test_skipped(self):
        pass

    def test_for_tensorflow_1(self):
        if tf.executing_eagerly():
            self.skipTest('for TensorFlow 1')


if __name__ == '__main__':
    tf.test.main()
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a file of tests: run(text, runner) -> {test: result}."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('PYTHONPATH', ROOT)

    def call(text, runner):
        (tmp_path / 'own_test.py').write_text(text)
        library = Library(release='', repository='', revision='', tests='', runner=runner, is_apart=True)
        return results.run(Path(sys.executable), tmp_path, library, 'own_test.py')

    return call


@pytest.mark.parametrize('runner, of_tensorflow_1', [('script', 'passed'), ('pytest', 'skipped')])
def test_each_test_has_its_result(run, runner, of_tensorflow_1):
    found = run(TESTS, runner)
    found.pop('own_test.py::Test.test_session', None)
    assert found == {
        'own_test.py::Test.test_passing': 'passed',
        'own_test.py::Test.test_failing': 'AssertionError: one and one',
        'own_test.py::Test.test_raising': 'ValueError: two lines',
        'own_test.py::Test.test_skipped': 'skipped',
        'own_test.py::Test.test_for_tensorflow_1': of_tensorflow_1,
    }


@pytest.mark.parametrize('runner, name', [('script', 'own_test.py'), ('pytest', 'own_test.py::.own_test')])
def test_a_file_that_cannot_be_imported_has_its_error(run, runner, name):
    (found,) = run('import none_such', runner).items()
    assert found[0] == name and found[1].endswith("ModuleNotFoundError: No module named 'none_such'")


@pytest.mark.parametrize('runner', ['script', 'pytest'])
def test_a_file_whose_process_is_killed_has_its_exit_code(run, runner):
    text = TESTS.replace('self.skipTest', 'import os; os.abort() #')
    ((name, error),) = run(text.replace('if tf.executing_eagerly():', 'if True:'), runner).items()
    assert name == 'own_test.py' and error

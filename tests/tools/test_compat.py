"""Results of a library's tests are read from the output of absltest and pytest."""

import sysconfig

import pytest

from tests.tf_estimator.programs import Environment
from tools.compat import results
from tools.compat.libraries import Library

TESTS = """
import unittest
from absl.testing import absltest
import tensorflow as tf
class Test(absltest.TestCase):
    def test_passing(self):
        tf.estimator.ModeKeys
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
    absltest.main()
"""


@pytest.mark.parametrize(
    'runner, of_tensorflow_1, not_imported', [('script', 'passed', 'own.py'), ('pytest', 'skipped', 'own.py::.own')]
)
def test_each_test_has_its_result_and_a_file_that_does_not_end_its_error(runner, of_tensorflow_1, not_imported, tmp_path):
    environment = Environment(tmp_path)
    (environment.site_packages / 'others.pth').write_text(sysconfig.get_path('purelib'))  # With absltest and pytest.
    tensorflow = environment.site_packages / 'tensorflow'
    with (tensorflow / '__init__.py').open('a') as file:
        file.write('\nis_eager = True\ndef executing_eagerly():\n    return is_eager\n')
    (tensorflow / 'compat').mkdir()
    program = 'import tensorflow\ndef disable_v2_behavior():\n    tensorflow.is_eager = False\n'
    (tensorflow / 'compat' / 'v1.py').write_text(program)

    def run(text):
        (environment.prefix / 'own.py').write_text(text)
        library = Library(release='', repository='', revision='', tests='', runner=runner, is_apart=True)
        return results.run(environment.python, environment.prefix, library, 'own.py')

    assert run(TESTS) == {
        'own.py::Test.test_passing': 'passed',
        'own.py::Test.test_failing': 'AssertionError: one and one',
        'own.py::Test.test_raising': 'ValueError: two lines',
        'own.py::Test.test_skipped': 'skipped',
        'own.py::Test.test_for_tensorflow_1': of_tensorflow_1,
    }
    ((name, error),) = run('import none_such').items()
    assert name == not_imported and error.endswith("ModuleNotFoundError: No module named 'none_such'")
    assert run(TESTS.replace("raise ValueError('two\\nlines')", 'import os; os.abort()'))['own.py']

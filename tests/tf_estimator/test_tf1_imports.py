"""The imports of a program's own files and of libraries: which of them get TensorFlow 1."""

import builtins
import importlib
import site

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator.tf1.imports import Imports
from tf_estimator.tf1.modules import TensorFlow1

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

TF1 = TensorFlow1(tf)


def run(code, directory=None, **names):
    """Returns the globals of code in a file `__file__`, by default of a program, with its imports replaced."""
    imports = Imports(TF1, directory)
    names.setdefault('__file__', '/program/script.py')
    names['__builtins__'] = {**vars(builtins), '__import__': imports.load}
    names['import_module'] = imports.load_module
    exec(code, names)
    return names


@pytest.mark.parametrize(
    'expression',
    [
        "__import__('tensorflow')",
        "import_module('tensorflow')",
        "(names := {'__builtins__': __builtins__}, exec('import tensorflow as tf', names))[0]['tf']",
    ],
)
def test_imports_by_functions_see_what_import_statements_see(expression):
    assert run(f'found = {expression}')['found'] is TF1
    assert run(f'found = {expression}', __file__=f'{site.getsitepackages()[0]}/library.py')['found'] is tf2


def test_modules_are_imported_by_their_names():
    found = run("""
slim, keras, decode = (import_module(name) for name in ('tensorflow.contrib.slim', 'tensorflow.keras', 'json.decoder'))
relative, scan = import_module('.slim', 'tensorflow.contrib'), import_module('.decoder', package='json')
""")
    assert found['slim'] is found['relative'] is TF1.contrib.slim and found['keras'] is tf.keras
    assert found['decode'] is found['scan'] is importlib.import_module('json.decoder')
    with pytest.raises(ModuleNotFoundError, match='tf.contrib.nothing: TensorFlow 2 does not have it'):
        run("import_module('tensorflow.contrib.nothing')")

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
        "eval('__import__(\"tensorflow\")', {'__name__': 'pydoc', '__file__': 'pydoc.py', '__builtins__': __builtins__})",
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


def test_installed_files_are_libraries_wherever_they_are(tmp_path, monkeypatch):
    program, vendor, checkout = (tmp_path / name for name in ('program', 'program/vendor', 'checkout'))
    (vendor / 'other-1.0.dist-info').mkdir(parents=True)
    (checkout / 'package.egg-info').mkdir(parents=True)
    monkeypatch.syspath_prepend(program)
    monkeypatch.syspath_prepend(vendor)
    monkeypatch.syspath_prepend(checkout)
    packages = site.getsitepackages()[0]

    def is_own(path, directory=None, name='module'):
        return run('import tensorflow as found', directory, __file__=str(path), __name__=name)['found'] is TF1

    for directory in (None, program, vendor / 'package', packages):
        assert is_own(checkout / 'package/module.py', directory) and is_own(program / 'module.py', directory)
        assert is_own(vendor / 'package/module.py', directory) == (directory == vendor / 'package')
        assert not is_own(f'{packages}/library.py', directory) and not is_own(vendor / 'other.py', directory)
    assert is_own(f'{packages}/script.py', packages, '__main__')
    assert is_own(f'{packages}/package/module.py', f'{packages}/package')
    assert not is_own(program / 'venv/lib/site-packages/module.py', program)


def test_lite_has_the_names_of_compat_v1_and_its_files():
    found = run("""
from tensorflow.lite import TFLiteConverter
from tensorflow.lite.python.lite import TFLiteConverter as of_file
from tensorflow.lite.experimental.microfrontend import python
import tensorflow.lite.toco.toco_flags_pb2 as toco
import tensorflow.lite as lite
import tensorflow.core.framework.graph_pb2 as graph
import tensorflow
""")
    assert found['TFLiteConverter'] is found['of_file'] is tf.lite.TFLiteConverter and found['lite'] is tf.lite
    assert found['toco'].__name__ == 'tensorflow.lite.toco.toco_flags_pb2' and found['python'].__file__ is not None
    assert found['tensorflow'].core.framework.graph_pb2 is found['graph']
    with pytest.raises(ImportError, match='tensorflow.lite.nothing'):
        run('from tensorflow.lite import nothing')


@pytest.mark.parametrize('package', ['layers', 'rnn', 'slim', 'tpu', 'learn'])
def test_all_names_of_a_package_are_imported_by_an_asterisk(package):
    found = run(f'from tensorflow.contrib.{package} import *')
    name = {'layers': 'xavier_initializer', 'rnn': 'GRUCell', 'tpu': 'TPUEstimator', 'learn': 'Experiment'}.get(
        package, 'conv2d'
    )
    assert found[name] is getattr(getattr(TF1.contrib, package), name) and not {'tf', 'np', 'array_ops'} & found.keys()

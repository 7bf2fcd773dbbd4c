"""The requirements of tf.estimator are checked completely, and missing ones are named with the cure."""

import ast
import contextlib
import importlib
from importlib import metadata
import importlib.machinery
import importlib.util
import pathlib
import re
import shutil
import sys
import types

from tf_estimator import requirements, restore

import pytest
import tensorflow as tf
from tensorflow.python.training import evaluation

from tests.tf_estimator.programs import Environment, not_on_2_15, run_fresh

CURE = (
    'This needs TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0: pip install "tensorflow>=2.15,<2.22" '
    '"tf-keras>=2.15,<2.22" tensorflow-estimator==2.15.0'
)
KERAS_3 = 'TensorFlow was imported before tf_estimator, and with it Keras 3: import tf_estimator first.'


def private_names():
    """Returns the names that tensorflow-estimator looks up in tensorflow.python's modules, except in TPU code."""
    for name in ('api._v1.estimator', 'api._v2.estimator', 'keras_lib'):  # On 2.15, TensorFlow loads them on first use.
        importlib.import_module(f'tensorflow_estimator.python.estimator.{name}')
    names = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith('tensorflow_estimator.') or '.tpu' in name or not getattr(module, '__file__', None):
            continue
        imported = {}
        tree = ast.parse(pathlib.Path(module.__file__).read_text('utf-8'))
        for node in ast.walk(tree):  # Imports come before what is deeper.
            if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('tensorflow.python'):
                imported |= {alias.asname or alias.name: f'{node.module}.{alias.name}' for alias in node.names}
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
                with contextlib.suppress(ImportError):
                    importlib.import_module(imported[node.value.id])
                    names.setdefault(imported[node.value.id][len('tensorflow.python.') :], set()).add(node.attr)
    return names


def test_the_list_of_what_is_checked_is_complete():
    wanted = private_names()
    del wanted['distribute.estimator_training']
    wanted['distribute'] = set()
    wanted['distribute.distribute_coordinator'] = {'CoordinatorMode', 'run_distribute_coordinator'}
    wanted['distribute.distribute_coordinator_context'] = {'get_current_worker_context'}
    wanted['util.tf_export'] |= {'API_ATTRS', 'API_ATTRS_V1', '_Attributes'}
    wanted['util.tf_export'].remove('ESTIMATOR_API_NAME')
    assert {name: set(attributes.split()) for name, attributes in requirements.PRIVATE_NAMES.items()} == wanted


def test_an_import_names_the_package_that_is_missing(tmp_path):
    environment = Environment(tmp_path)
    packages = environment.site_packages
    distribution = packages / 'tensorflow_estimator-2.15.0.dist-info'

    def said():
        return environment.run('-c', 'import tf_estimator')[2].splitlines()[-1:]

    assert said() == []
    tensorflow = packages / 'tensorflow/__init__.py'
    tensorflow.write_text(tensorflow.read_text().replace('2.21.0', '2.14'))
    assert said() == [f'ImportError: TensorFlow 2.14 is too old. {CURE}']
    tensorflow.write_text('')
    assert said() == [f'ImportError: {tensorflow} is imported in place of TensorFlow: rename it']
    text = (distribution / 'METADATA').read_text()
    (distribution / 'METADATA').write_text(text.replace('2.15', '2.14'))
    assert said() == [f'ImportError: tensorflow-estimator is 2.14.0. {CURE}']
    for path, problem in (
        (distribution, 'The package tensorflow-estimator was not installed by pip.'),
        (packages / 'tf_keras', 'The package tf-keras is missing.'),
        (packages / 'tensorflow_estimator', 'The package tensorflow-estimator is missing.'),
        (packages / 'tensorflow', 'TensorFlow is not installed.'),
    ):
        shutil.rmtree(path)
        assert said() == [f'ImportError: {problem} {CURE}']
        assert environment.run_tf_estimator('-') == (1, '', f'python -m tf_estimator: {problem} {CURE}\n')


@not_on_2_15
def test_what_tensorflow_lacks_is_named(monkeypatch):
    def said(version=tf.__version__):
        with pytest.raises(ImportError) as caught:
            requirements.check_foundation(types.SimpleNamespace(__version__=version))
        return str(caught.value)

    requirements.check_foundation(tf)
    requirements.check_version(types.SimpleNamespace(__version__='2.15.0-rc1'))
    with monkeypatch.context() as patch:
        patch.delattr(evaluation, '_evaluate_once')
        assert said() == f'TensorFlow {tf.__version__} has no tensorflow.python.training.evaluation._evaluate_once. {CURE}'
        patch.setitem(sys.modules, 'tensorflow.python.training.device_setter', None)  # It comes before the other.
        assert said() == f'TensorFlow {tf.__version__} has no module tensorflow.python.training.device_setter. {CURE}'
    with monkeypatch.context() as patch:
        patch.setattr(metadata, 'version', lambda name: {'protobuf': '7.34.0'}[name])
        assert said('2.20.0') == 'TensorFlow 2.20 does not work with protobuf 7: pip install "protobuf<7"'
        requirements.check_foundation(types.SimpleNamespace(__version__='2.21.0'))
    for keras in (None, importlib.machinery.ModuleSpec('keras', None, origin='/keras/__init__.py')):
        with monkeypatch.context() as patch:
            patch.setattr(importlib.util, 'find_spec', {'tensorflow.keras': keras}.__getitem__)
            assert said() == KERAS_3


def test_python_without_docstrings_is_refused(monkeypatch):
    monkeypatch.setattr(sys, 'flags', types.SimpleNamespace(optimize=2))
    with pytest.raises(ImportError, match='^Python runs with -OO, '):
        requirements.has_own_estimator()


@not_on_2_15
def test_what_tensorflow_estimator_cannot_import_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'tensorflow_estimator.python.estimator.api._v2.estimator', None)
    problem = f'tensorflow-estimator does not load on TensorFlow {tf.__version__}: .*_v2.*{re.escape(CURE)}$'
    with pytest.raises(ImportError, match=problem):
        restore.restore(tf)


@not_on_2_15
def test_keras_3_loaded_first_is_named():
    code, out, err = run_fresh('-c', 'import keras\nimport tf_estimator')
    assert (code, out) == (1, '') and err.endswith(f'ImportError: {KERAS_3}\n')

"""What tf.estimator needs is checked completely, and what is missing is named with the cure."""

import ast
import contextlib
import importlib
import json
import os
import re
import sys

from tf_estimator import requirements

import tensorflow as tf

from tests.tf_estimator.programs import SCRIPTS, finish, launch, not_on_2_15


def private_names():
    """Returns what the modules of tensorflow-estimator look up in tensorflow.python's modules, TPU code aside."""
    for name in ('api._v1.estimator', 'api._v2.estimator', 'keras_lib'):  # On 2.15, TensorFlow loads them on first use.
        importlib.import_module(f'tensorflow_estimator.python.estimator.{name}')
    names = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith('tensorflow_estimator.') or '.tpu' in name or not getattr(module, '__file__', None):
            continue
        with open(module.__file__, encoding='utf-8') as file:
            nodes = list(ast.walk(ast.parse(file.read())))
        imported = {
            alias.asname or alias.name: f'{node.module}.{alias.name}'
            for node in nodes
            if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('tensorflow.python')
            for alias in node.names
        }
        for node in nodes:
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


@not_on_2_15
def test_what_is_missing_is_named_with_the_versions_that_work():
    code, out, err = finish(launch(os.path.join(SCRIPTS, 'broken_imports.py')))
    assert code == 0, err
    messages = json.loads(out)
    cure = (
        'This needs TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0: pip install "tensorflow>=2.15,<2.22" '
        '"tf-keras>=2.15,<2.22" tensorflow-estimator==2.15.0'
    )
    here = f'TensorFlow {tf.__version__} has no'
    assert messages == {
        'no TensorFlow': f'TensorFlow is not installed. {cure}',
        'no tf-keras': f'The package tf-keras is missing. {cure}',
        'no tensorflow-estimator': f'The package tensorflow-estimator is missing. {cure}',
        'other tensorflow-estimator': f'tensorflow-estimator is 2.14.0. {cure}',
        'no symbol': f'{here} tensorflow.python.training.evaluation._evaluate_once. {cure}',
        'no module': f'{here} module tensorflow.python.training.device_setter. {cure}',
        'protobuf 7': 'TensorFlow 2.20 does not work with protobuf 7: pip install "protobuf<7"',
        'old TensorFlow': f'TensorFlow 2.14.1 is too old. {cure}',
        'nothing': None,
    }


@not_on_2_15
def test_what_tensorflow_estimator_cannot_import_is_named_with_the_versions_that_work():
    code, _, err = finish(
        launch(
            '-c',
            """
import tensorflow
from tensorflow.python.training import saver
del saver.BaseSaverBuilder
import tf_estimator
""",
            TF_USE_LEGACY_KERAS='1',
        )
    )
    assert code == 1
    assert re.match(
        r"ImportError: tensorflow-estimator does not load on TensorFlow .*'BaseSaverBuilder'.* This needs "
        'TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0: pip install',
        err.splitlines()[-1],
    )


@not_on_2_15
def test_keras_3_loaded_first_is_named():
    code, out, err = finish(launch('-c', 'import keras\nimport tf_estimator'))
    assert (code, out) == (1, '')
    assert err.endswith(
        'ImportError: TensorFlow was imported before tf_estimator, and with it Keras 3: import tf_estimator first.\n'
    )

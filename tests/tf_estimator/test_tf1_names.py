"""TensorFlow 1 for a program's own files, and the names of tf.contrib."""

import pkgutil
import subprocess
import sys

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator import runner
from tf_estimator.tf1 import rnn, tables
from tf_estimator.tf1.modules import TensorFlow1

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gen_audio_ops

from tests.tf_estimator.programs import Environment, run_fresh

SCRIPT = """
import importlib, sys
import tensorflow as tf
import tensorflow.contrib.slim as slim
import tensorflow.keras.backend as K
from tensorflow.contrib.layers.python.layers import initializers, layers as layers_lib
from tensorflow.contrib.slim.python.slim.nets.inception_v3 import inception_v3_base
from tensorflow.contrib.opt.python.training import external_optimizer
from tensorflow.contrib.seq2seq.python.ops import helper
from tensorflow.contrib.tpu.python.tpu import tpu_config
from tensorflow.contrib.framework.python.ops.arg_scope import add_arg_scope
from tensorflow.contrib.learn.python.learn.datasets.mnist import read_data_sets
from tensorflow.examples.tutorials.mnist import input_data
from tensorflow.python.ops import array_ops
from tensorflow.python.autograph.impl.conversion import is_allowlisted
from tensorflow.python.util.tf_export import estimator_export
from tensorflow.core.framework import graph_pb2
from tensorflow import Session as S
import other, library

def main(unused_argv):
    x = tf.placeholder(tf.float32, [None, 3])
    net = slim.fully_connected(x, 2, weights_initializer=initializers.xavier_initializer())
    print(tf.__version__, other.VERSION, library.VERSION[:2], x.shape[1].value, [v.op.name for v in tf.trainable_variables()])
    print(S is tf.Session, layers_lib.conv2d is slim.conv2d, helper.TrainingHelper is tf.contrib.seq2seq.TrainingHelper)
    print(tf.contrib.framework.nest.is_sequence([]), sys.modules['tensorflow'].__version__[:2])
    print(importlib.import_module('tensorflow') is tf)
    print('GRUCell' in tf.contrib.rnn.__dict__, read_data_sets is input_data.read_data_sets)
    print(tf.get_variable('sizes', ['3', 4.0]).shape)
    print([is_allowlisted(function) for function in (tf.contrib.seq2seq.dynamic_decode, slim.conv2d, main)])
    for statement in IMPORTS:
        try:
            exec(statement)
        except (ImportError, AttributeError) as error:
            print(type(error).__name__, error)

if __name__ == '__main__':
    tf.app.run()
"""
IMPORTS = [
    'import tensorflow.contrib.kfac',
    'from tensorflow.contrib.layers import nothing',
    'tf.nothing',
    'from tensorflow.python import nothing',
]
ABSENT = 'TensorFlow 2 does not have it; docs/porting.md has a table of what replaces such names'


@pytest.mark.parametrize('argument', ['script.py', '-m=package.script'])
def test_the_programs_own_files_see_tensorflow_1_and_libraries_tensorflow_2(tmp_path, argument):
    environment = Environment(tmp_path / 'environment', is_real=True)
    environment.site_packages.joinpath('library.py').write_text('import tensorflow as tf\nVERSION = tf.__version__\n')
    (tmp_path / 'package').mkdir()
    for name, text in (
        ('script', f'IMPORTS = {IMPORTS}\n{SCRIPT}'),
        ('other', 'import tensorflow\nVERSION = tensorflow.VERSION\n'),
    ):
        (tmp_path / f'{name}.py').write_text(text)
        (tmp_path / 'package' / f'{name}.py').write_text(text)
    program = argument.partition('=')[::2] if '=' in argument else (argument,)
    done = subprocess.run(
        [environment.python, '-m', 'tf_estimator', '--tf1', *program], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "1.15.5 1.15.5 2. 3 ['fully_connected/weights', 'fully_connected/biases']",
        'True True True',
        'True 2.',
        'True',
        'True True',
        '(3, 4)',
        '[True, True, False]',
        'ModuleNotFoundError tf.contrib.kfac: TensorFlow 2 does not have it; use the package kfac',
        f'ImportError tf.contrib.layers.nothing: {ABSENT}',
        f'AttributeError tf.nothing: {ABSENT}',
        "ImportError No module named 'tensorflow.python.nothing'",
    ]


def test_wrong_arguments_are_named():
    for arguments, message in (
        (['--tf1', '--as_it_was'], 'SCRIPT is missing: python -m tf_estimator SCRIPT ARGS...'),
        (['--tf1', '-m'], 'MODULE is missing: python -m tf_estimator -m MODULE ARGS...'),
        (['--tf1', 'none.py'], 'none.py: no such file'),
        (['--tf1', '--other'], 'there is no option --other'),
    ):
        code, out, err = run_fresh('-m', 'tf_estimator', *arguments)
        assert code == 2 and err.startswith(f'python -m tf_estimator: {message}') and not out


def test_a_missing_package_is_named_where_its_names_are_used(monkeypatch):
    for name in ('tensorflow_gan', 'tensorflow_probability'):
        monkeypatch.setitem(sys.modules, name, None)
    contrib = TensorFlow1(tf).contrib
    with pytest.raises(AttributeError, match='the package tensorflow-gan is missing: pip install tensorflow-gan'):
        contrib.gan.gan_model  # noqa: B018
    assert not hasattr(contrib.distributions, 'MultivariateNormalDiag') and 'Normal' in dir(contrib.distributions)


def test_all_names_are_listed():
    found = TensorFlow1(tf)
    names = {'placeholder', 'Session', 'contrib', 'examples', 'python', 'VERSION', '__version__', 'compat'}
    assert names <= {*dir(found)} and names <= vars(found).keys() and vars(found)['placeholder'] is tf.placeholder
    assert {'rnn', 'slim'} <= {*dir(found.contrib)} & {*vars(found.contrib)}


def test_the_files_of_a_source_are_no_names():
    contrib = TensorFlow1(tf).contrib
    files = {module.name for module in pkgutil.iter_modules(rnn.__path__)}
    assert {'base', 'block', 'wrappers'} <= files and not files & {*contrib.rnn.__all__}
    assert not any(hasattr(contrib.rnn, name) or hasattr(contrib.cudnn_rnn, name) for name in files)


def test_each_source_of_tf_contrib_is_a_module_and_each_renamed_name_is_there():
    contrib = TensorFlow1(tf).contrib
    for path, sources in tables.PACKAGES.items():
        if path.startswith('tensorflow.contrib.') and not {'tensorflow_gan', 'tensorflow_probability'} & {
            s.partition('.')[0] for s in sources
        }:
            package = contrib
            for part in path.split('.')[2:]:
                package = getattr(package, part)
            assert dir(package) and (package.__all__ or not sources), path
    for path in tables.NAMES:
        value = contrib
        for part in path.split('.')[2:]:
            value = getattr(value, part)
        assert callable(value) or path.endswith('metric_learning')
    assert contrib.rnn.python.ops.rnn_cell.NASCell is contrib.rnn.NASCell
    assert contrib.framework.python.ops.audio_ops.decode_wav is gen_audio_ops.decode_wav
    assert contrib.metrics.python.ops.set_ops.set_size is tf.sets.size
    assert contrib.framework.smart_cond(True, lambda: 1, lambda: 2) == 1
    assert contrib.tpu.python.tpu.async_checkpoint.AsyncCheckpointSaverHook is tf.train.CheckpointSaverHook
    assert contrib.legacy_seq2seq.python.ops.seq2seq.rnn_decoder is contrib.legacy_seq2seq.rnn_decoder


@pytest.mark.parametrize(
    'statement, is_named',
    [
        ('tf.app.run()', True),
        ('tf.contrib.slim', True),
        ('from tensorflow.contrib import slim', True),
        ('from tensorflow import placeholder', True),
        ('tf.nothing', False),
        ('import nothing', False),
        ('tf.compat.v1.nothing', False),
    ],
)
def test_an_error_about_a_name_of_tensorflow_1_is_known(statement, is_named):
    with pytest.raises((AttributeError, ImportError)) as raised:
        exec(f'import tensorflow as tf\n{statement}', {})
    assert runner._is_of_tensorflow_1(raised.value) == is_named


def test_an_error_of_a_program_of_tensorflow_1_names_the_option(tmp_path):
    (tmp_path / 'script.py').write_text('import tensorflow as tf\ntf.app.run()\n')
    code, _, err = run_fresh('-m', 'tf_estimator', tmp_path / 'script.py')
    hint = 'This program is of TensorFlow 1: run it with python -m tf_estimator --tf1'
    assert code == 1 and err.splitlines()[-1] == hint and 'Error: ' in err

"""Programs in separate processes: with the real TensorFlow, which takes seconds to import, or with a stand-in."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv

import numpy as np
import pytest
import tensorflow as tf

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = os.path.join(ROOT, 'tests', 'scripts')
MINOR = int(tf.__version__.split('.')[1])
RESTORED = MINOR > 15
not_on_2_15 = pytest.mark.skipif(not RESTORED, reason='TensorFlow 2.15 has tf.estimator itself: nothing is restored')
STAND_INS = {
    'tensorflow/__init__.py': """
import logging, os
if os.environ.get('TENSORFLOW') == 'broken':
    raise ImportError('TensorFlow itself is broken')
if os.environ.get('TENSORFLOW') == 'crashing':
    os._exit(9)
__version__ = '2.21.0'
def get_logger():
    return logging.getLogger('tensorflow')
""",
    'tensorflow_estimator/__init__.py': 'import tensorflow\n',
    'tensorflow_estimator-2.15.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: tensorflow-estimator\nVersion: 2.15.0\n',
    'tf_keras/__init__.py': 'import tensorflow\n',
    # The parts of tf_estimator that change TensorFlow.
    'tf_estimator/moved_names.py': 'def restore():\n    pass\n',
    'tf_estimator/traps/mended.py': '',
    'tf_estimator/restore.py': """
import types
def restore(tf):
    import tensorflow_estimator, tf_keras
    tf.estimator = types.SimpleNamespace(ModeKeys=types.SimpleNamespace(TRAIN='train'))
def name_apis():
    pass
""",
}


class Environment:
    """A virtual environment with a copy of tf_estimator, which, unless it `is_real`, restores a little in a stand-in."""

    def __init__(self, directory, is_real=False):
        builder = venv.EnvBuilder(symlinks=os.name != 'nt')
        builder.create(directory)
        self.prefix = directory
        self.python = builder.ensure_directories(directory).env_exe
        (self.site_packages,) = directory.glob('[Ll]ib/**/site-packages')
        self.package = self.site_packages / 'tf_estimator'
        shutil.copytree(os.path.join(ROOT, 'tf_estimator'), self.package, ignore=shutil.ignore_patterns('__pycache__'))
        if is_real:
            self.site_packages.joinpath('this.pth').write_text(sysconfig.get_path('purelib') + '\n')
            return
        for name in ('numpy', 'numpy.libs'):
            self.site_packages.joinpath(name).symlink_to(os.path.join(os.path.dirname(os.path.dirname(np.__file__)), name))
        for path, text in STAND_INS.items():
            self.site_packages.joinpath(path).parent.mkdir(exist_ok=True)
            self.site_packages.joinpath(path).write_text(text)
        with self.package.joinpath('requirements.py').open('a') as file:
            file.write('\n\ndef check_foundation(tf):\n    pass\n')

    def run(self, *arguments, **options):
        """Runs its Python, in its directory, like run_fresh."""
        own = {'python': self.python, 'cwd': self.prefix, 'PYTHONPATH': '', 'PYTHONDONTWRITEBYTECODE': ''}
        return run_fresh(*arguments, **{**own, **options})

    def run_tf_estimator(self, *arguments, **options):
        return self.run('-m', 'tf_estimator', *arguments, **options)

    def files(self):
        """Returns the entries of its site-packages, without the contents of packages."""
        return sorted(path for pattern in ('*', '__pycache__/*') for path in self.site_packages.glob(pattern))


def run_fresh(*arguments, python=sys.executable, cwd=None, text='', **environment):
    """Runs Python with the real TensorFlow and a text as stdin; returns the exit code, stdout and stderr."""
    command, environ = [python, *map(str, arguments)], fresh_environment(**environment)
    process = subprocess.run(command, cwd=cwd, env=environ, input=text, capture_output=True, text=True, timeout=250)
    return process.returncode, process.stdout, process.stderr


def fresh_environment(**environment):
    """Returns the variables of a process that imports TensorFlow as a user's does."""
    names = ('TF_CONFIG', 'TF_CPP_MIN_LOG_LEVEL', 'TF_USE_LEGACY_KERAS')
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return {**kept, 'PYTHONPATH': ROOT, **environment}


# Output of the libraries of TensorFlow 2.17 to 2.20 when a session starts, which no log level suppresses.
UNREACHABLE = r'WARNING: All log messages before absl::InitializeLog\(\)|I0000 .*MLIR V1' if 17 <= MINOR <= 20 else '$.'
# StepCounterHook reads the global step in the same run that increments it, in no fixed order, and warns when it reads the same
# step twice in a row: under load, one run reads it late and the next one early.
STEP_RACE = r'WARNING:tensorflow:It seems that global step \(tf\.train\.get_global_step\) has not been increased\.'


def unlike_info(err):
    """Returns the lines of stderr without harmless ones of the Estimator."""
    err = re.sub("'_session_config': .*?, '_keep", "'_keep", err, flags=re.DOTALL)  # A protobuf, over several lines.
    return [line for line in err.splitlines() if not re.match(f'INFO:tensorflow:|{STEP_RACE}|{UNREACHABLE}', line)]

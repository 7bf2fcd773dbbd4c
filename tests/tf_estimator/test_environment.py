"""`python -m tf_estimator enable` gives tf.estimator to all processes of an environment, and `disable` leaves nothing."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator import environment as tf_environment
from tf_estimator.errors import CommandError

import pytest
import tensorflow as tf

from tests.shared import ROOT
from tests.tf_estimator.programs import RESTORED, not_on_2_15

pytestmark = pytest.mark.slow

OURS = 'tf_estimator.pth', '_tf_estimator_hook.py'


class Environment:
    """A virtual environment that has what this one has, and the package tf_estimator as a copy of its own."""

    def __init__(self, directory):
        venv.create(directory, with_pip=False)
        self.python = directory / 'bin' / 'python'
        (self.site_packages,) = (directory / 'lib').glob('python*/site-packages')
        self.site_packages.joinpath('this.pth').write_text(sysconfig.get_path('purelib') + '\n')
        self.package = shutil.copytree(os.path.join(ROOT, 'tf_estimator'), self.site_packages / 'tf_estimator')

    def run(self, *arguments, cwd=None):
        """Runs its Python; returns the exit code, stdout and stderr."""
        names = ('PYTHONPATH', 'PYTHONDONTWRITEBYTECODE', 'TF_CPP_MIN_LOG_LEVEL', 'TF_USE_LEGACY_KERAS')
        environ = {name: value for name, value in os.environ.items() if name not in names}
        process = subprocess.run(
            [self.python, *map(str, arguments)], cwd=cwd or self.site_packages, env=environ, capture_output=True, text=True
        )
        return process.returncode, process.stdout, process.stderr

    def files(self):
        """Returns its files that are not compiled from another one of its package."""
        return sorted(path for path in self.site_packages.rglob('*') if 'tf_estimator/' not in str(path))


@pytest.fixture(scope='module')
def environment(tmp_path_factory):
    """A virtual environment in which tf.estimator is enabled."""
    environment = Environment(tmp_path_factory.mktemp('environment'))
    code, out, err = environment.run('-m', 'tf_estimator', 'enable')
    assert (code, err) == (0, '')
    prefix = environment.python.parents[1]
    if RESTORED:
        assert out == (
            f'tf.estimator is enabled in {prefix}: each Python process there finds it when it imports TensorFlow '
            f'{tf.__version__}. tf.keras is Keras 2 for all of them.\n'
        )
    else:
        assert out == f'The TensorFlow in {prefix} has tf.estimator itself: there is nothing to enable.\n'
    return environment


def test_programs_and_what_they_spawn_find_it(environment, tmp_path):
    program = tmp_path / 'program.py'
    program.write_text("""
import importlib.util
import multiprocessing
import subprocess
import sys

def find(_):
    import tensorflow as tf
    return tf.estimator.ModeKeys.TRAIN

if __name__ == '__main__':
    print(importlib.util.find_spec('tensorflow').submodule_search_locations is not None, 'tensorflow' in sys.modules)
    import tensorflow.compat.v1 as tf
    print(tf.estimator.ModeKeys.EVAL, sys.modules['tensorflow'].__spec__.name)
    with multiprocessing.get_context('spawn').Pool(1) as pool:
        print(pool.map(find, [0]))
    sys.exit(subprocess.run([sys.executable, '-c', 'import tensorflow.estimator as e; print(e.Estimator.__name__)']).returncode)
""")
    code, out, err = environment.run(program, cwd=tmp_path)
    assert code == 0, err
    assert out.splitlines() == ['True False', 'eval tensorflow', "['train']", 'EstimatorV2']


@not_on_2_15
@pytest.mark.parametrize('first', ['tf_keras', 'tensorflow_estimator'])
def test_it_is_there_whatever_is_imported_first(first, environment):
    code, out, err = environment.run('-c', f'import {first}\nimport tensorflow as tf\nprint(tf.estimator.ModeKeys.TRAIN)')
    assert (code, out) == (0, 'train\n'), err


@not_on_2_15
@pytest.mark.parametrize('is_lazy', [False, True])
def test_it_is_there_if_tensorflow_is_imported_by_its_spec(is_lazy, environment):
    program = """
import importlib.util, sys
spec = importlib.util.find_spec('tensorflow')
if IS_LAZY:
    spec.loader = importlib.util.LazyLoader(spec.loader)
module = importlib.util.module_from_spec(spec)
sys.modules['tensorflow'] = module
spec.loader.exec_module(module)
print(module.constant(1).numpy(), module.estimator.ModeKeys.TRAIN, sys.modules['tensorflow'] is module)
"""
    code, out, err = environment.run('-c', program.replace('IS_LAZY', str(is_lazy)))
    assert (code, out) == (0, '1 train True\n'), err


@not_on_2_15
def test_it_is_there_for_every_thread(environment):
    program = """
import threading, time
found = []

def look(seconds):
    time.sleep(seconds)
    import tensorflow as tf
    found.append(tf.estimator.ModeKeys.TRAIN)

threads = [threading.Thread(target=look, args=[i / 4]) for i in range(24)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(found == ['train'] * 24)
"""
    code, out, err = environment.run('-c', program)
    assert (code, out) == (0, 'True\n'), err


def test_python_starts_with_no_module_more_than_the_hook(environment):
    code, out, _ = environment.run('-c', 'import sys; print(*sorted(sys.modules))')
    assert code == 0
    bare = Environment(environment.python.parents[1] / 'bare').run('-c', 'import sys; print(*sorted(sys.modules))')[1]
    assert set(out.split()) - set(bare.split()) == ({'_tf_estimator_hook'} if RESTORED else set())


@not_on_2_15
def test_it_is_refused_outside_of_a_virtual_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(tf_environment, '_site_packages', lambda: tmp_path)
    monkeypatch.setattr(sys, 'prefix', sys.base_prefix)
    with pytest.raises(CommandError) as caught:
        tf_environment.enable(is_forced=False)
    assert str(caught.value) == (
        f'{sys.base_prefix} is not a virtual environment: use one (python -m venv DIR), or say --force to enable '
        'tf.estimator for all programs of this Python'
    )
    assert not list(tmp_path.iterdir())


def test_without_tensorflow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(tf_environment, '_site_packages', lambda: tmp_path)
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(CommandError, match='^TensorFlow is not installed. This needs .*pip install'):
        tf_environment.enable(is_forced=True)
    assert not list(tmp_path.iterdir())


@not_on_2_15
def test_it_is_disabled_without_a_trace_and_status_tells(tmp_path):
    environment = Environment(tmp_path)
    before = environment.files()
    prefix = environment.python.parents[1]

    def status():
        code, out, err = environment.run('-m', 'tf_estimator', 'status')
        return code, out + err

    off = f'python -m tf_estimator: tf.estimator is not enabled in {prefix}. To enable it: python -m tf_estimator enable\n'
    assert status() == (1, off)
    assert environment.run('-m', 'tf_estimator', 'enable')[0] == 0
    assert status() == (0, f'tf.estimator is enabled in {prefix}, for TensorFlow {tf.__version__}.\n')
    hook = environment.site_packages / OURS[1]
    with hook.open('a') as file:
        file.write('\n')
    assert status() == (
        1,
        f'python -m tf_estimator: {hook} is missing or not of this version: run python -m tf_estimator enable\n',
    )
    assert environment.run('-m', 'tf_estimator', 'disable') == (0, f'tf.estimator is no longer enabled in {prefix}.\n', '')
    assert environment.files() == before
    assert environment.run('-m', 'tf_estimator', 'disable') == (0, f'tf.estimator is not enabled in {prefix}.\n', '')


@not_on_2_15
def test_what_does_not_work_is_not_enabled_and_what_breaks_later_says_so(tmp_path):
    environment = Environment(tmp_path)
    before = environment.files()
    requirements = environment.package / 'requirements.py'
    text = requirements.read_text()
    requirements.write_text(text.replace("'2.15.0'", "'2.14.0'"))
    code, out, err = environment.run('-m', 'tf_estimator', 'enable')
    assert (code, out) == (1, '')
    assert err.startswith(f'python -m tf_estimator: tf.estimator does not work in {tmp_path}: tensorflow-estimator is 2.15.0.')
    assert len(err.splitlines()) == 1
    assert environment.files() == before

    requirements.write_text(text)
    assert environment.run('-m', 'tf_estimator', 'enable')[0] == 0
    requirements.write_text(text.replace("'2.15.0'", "'2.14.0'"))
    program = 'import tensorflow as tf\nprint(tf.__version__)'
    code, out, err = environment.run('-c', program)
    assert (code, out) == (0, f'{tf.__version__}\n')
    told = f'tf.estimator is enabled in {tmp_path}, but does not work: '
    assert err.startswith(f'{told}tensorflow-estimator is 2.15.0. This needs TensorFlow 2.15'), err

    shutil.rmtree(environment.package)
    code, out, err = environment.run('-c', program)
    hook = environment.site_packages / OURS[1]
    assert (code, out) == (0, f'{tf.__version__}\n')
    assert (
        f'{told}the package tf_estimator is no longer installed (to disable it: delete {hook} and tf_estimator.pth beside it)\n'
    ) in err
    assert environment.run('-c', 'print(1)') == (0, '1\n', '')


@not_on_2_15
def test_what_cannot_be_written_is_named(tmp_path):
    environment = Environment(tmp_path)
    hook = environment.site_packages / OURS[1]
    hook.mkdir()
    code, _, err = environment.run('-m', 'tf_estimator', 'enable')
    assert code == 1
    assert len(err.splitlines()) == 1
    assert str(hook) in err


def test_wrong_arguments_are_one_line_and_exit_code_2(environment):
    code, _, err = environment.run('-m', 'tf_estimator', 'status', '--force')
    assert (code, err) == (
        2,
        'python -m tf_estimator: status does not take --force (see python -m tf_estimator --help)\n',
    )
    code, out, err = environment.run('-m', 'tf_estimator', '--help')
    assert (code, err) == (0, '')
    assert all(f'tf_estimator {command}' in out for command in ('SCRIPT', '-m MODULE', 'enable', 'disable', 'status'))

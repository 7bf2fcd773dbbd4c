"""`python -m tf_estimator enable` gives tf.estimator to all processes of an environment; `disable` undoes it completely."""

import shutil
import sys

import pytest
import tensorflow as tf

from tests.tf_estimator.programs import RESTORED, Environment

HOOK = '_tf_estimator_hook.py'
NEEDED = 'This needs TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0: pip install'
FIND = 'import tensorflow as tf\nprint(tf.estimator.ModeKeys.TRAIN)'
HAS_ESTIMATOR = "import tensorflow as tf\nprint(tf.__version__, hasattr(tf, 'estimator'))"


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path)


@pytest.fixture
def enabled(environment):
    assert environment.run_tf_estimator('enable')[0] == 0
    return environment


def assert_refused(environment, problem, *command, **environ):
    """Asserts that enabling fails with one line, and leaves no files."""
    before = environment.files()
    code, out, err = environment.run(*(command or ('-m', 'tf_estimator', 'enable')), **environ)
    assert (code, out, environment.files()) == (1, '', before)
    assert err.startswith(f'python -m tf_estimator: {problem}') and len(err.splitlines()) == 1


def test_every_thread_of_a_program_finds_the_real_one(tmp_path):
    environment = Environment(tmp_path, is_real=True)
    code, out, err = environment.run_tf_estimator('enable')
    assert (code, err) == (0, '')
    if not RESTORED:
        assert out == f'The TensorFlow in {tmp_path} has tf.estimator itself: there is nothing to enable.\n'
        assert environment.run_tf_estimator('status') == (0, out, '')
        return
    assert out.startswith(f'tf.estimator is enabled in {tmp_path}: each Python process there finds it when it imports')
    assert out.endswith(f' TensorFlow {tf.__version__}. tf.keras is Keras 2 for all of them.\n')
    program = """
import importlib.util, sys, threading
print(importlib.util.find_spec('tensorflow').submodule_search_locations is not None, 'tensorflow' in sys.modules)
found = []
def look():
    import tensorflow.compat.v1 as tf
    found.append(tf.estimator.ModeKeys.EVAL)
threads = [threading.Timer(i / 4, look) for i in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(found == ['eval'] * 16, sys.modules['tensorflow'].__spec__.name)
import tensorflow.estimator as estimator
print(estimator.Estimator.__name__)
"""
    code, out, err = environment.run('-c', program)
    assert (code, out.splitlines()) == (0, ['True False', 'True tensorflow', 'EstimatorV2']), err


def test_it_is_enabled_disabled_completely_and_status_reports_it(environment):
    prefix, hook = environment.prefix, environment.site_packages / HOOK

    def run(command):
        code, out, err = environment.run_tf_estimator(command)
        return code, out + err

    def imported():
        return set(environment.run('-c', 'import sys; print(*sys.modules)')[1].split())

    off = f'python -m tf_estimator: tf.estimator is not enabled in {prefix}. To enable it: python -m tf_estimator enable\n'
    files, modules = environment.files(), imported()
    assert run('status') == (1, off)
    code, told = run('enable')
    assert code == 0 and told.startswith(f'tf.estimator is enabled in {prefix}: each Python process')
    assert imported() - modules - {'encodings.utf_8_sig'} == {'_tf_estimator_hook'}  # In which Python 3.13 reads .pth files.
    assert run('status') == (0, f'tf.estimator is enabled in {prefix}, for TensorFlow 2.21.0.\n')
    written = hook.stat().st_mtime_ns
    assert run('enable') == (0, told) and hook.stat().st_mtime_ns == written
    hook.write_text(hook.read_text() + '\n')
    damaged = f'python -m tf_estimator: {hook} is missing or not of this version: run python -m tf_estimator enable\n'
    assert run('status') == (1, damaged)
    assert run('disable') == (0, f'tf.estimator is no longer enabled in {prefix}.\n')
    assert environment.files() == files
    assert run('disable') == (0, f'tf.estimator is not enabled in {prefix}.\n')


SPAWN = f"""
import multiprocessing, subprocess, sys
if __name__ == '__main__':
    process = multiprocessing.get_context('spawn').Process(target=exec, args=[{FIND!r}])
    process.start()
    process.join()
    subprocess.run([sys.executable, '-c', {FIND!r}], check=True)
"""
BY_SPEC = """
import importlib.util, sys
spec = importlib.util.find_spec('tensorflow')
tf = sys.modules['tensorflow'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tf)
print(tf.estimator.ModeKeys.TRAIN)
"""


def test_it_is_there_whatever_is_imported_first_and_how_and_in_what_a_program_spawns(enabled):
    for package in ('tf_keras', 'tensorflow_estimator', 'tf_estimator'):
        assert enabled.run('-c', f'import {package}\n{FIND}') == (0, 'train\n', '')
    assert enabled.run('-c', BY_SPEC) == (0, 'train\n', '')
    enabled.prefix.joinpath('program.py').write_text(SPAWN)
    assert enabled.run('program.py') == (0, 'train\ntrain\n', '')


def test_outside_of_a_virtual_environment_it_has_to_be_forced(environment):
    program = 'import sys\nsys.base_prefix = sys.prefix\nfrom tf_estimator.command import main\nmain(sys.argv[1:])'
    problem = f'{environment.prefix} is not a virtual environment: use one (python -m venv DIR), or use --force to enable'
    assert_refused(environment, problem, '-c', program, 'enable')
    assert environment.run('-c', program, 'enable', '--force')[0] == 0
    assert environment.run('-c', FIND) == (0, 'train\n', '')


def test_a_broken_environment_is_not_enabled(environment):
    problem = f'tf.estimator does not work in {environment.prefix}: '
    assert_refused(environment, f'{problem}TensorFlow itself is broken\n', TENSORFLOW='broken')
    assert_refused(environment, f'{problem}importing TensorFlow ends Python with exit code 9\n', TENSORFLOW='crashing')
    metadata = environment.site_packages / 'tensorflow_estimator-2.15.0.dist-info/METADATA'
    metadata.write_text(metadata.read_text().replace('2.15.0', '2.14.0'))
    assert_refused(environment, f'{problem}tensorflow-estimator is 2.14.0. {NEEDED}')
    hook = environment.site_packages / HOOK
    hook.mkdir()
    assert_refused(environment, f'{hook}: {"Access is denied" if sys.platform == "win32" else "Is a directory"}\n')


def test_a_later_breakage_is_reported_and_leaves_tensorflow_working(enabled):
    told = f'tf.estimator is enabled in {enabled.prefix}, but does not work: '
    cure = f'delete {enabled.site_packages / HOOK} and tf_estimator.pth beside it)\n'
    code, out, err = enabled.run('-c', HAS_ESTIMATOR, TENSORFLOW='broken')
    assert (code, out) == (1, '') and err.endswith('ImportError: TensorFlow itself is broken\n') and told not in err

    shutil.rmtree(enabled.site_packages / 'tf_keras')
    code, out, err = enabled.run('-c', HAS_ESTIMATOR)
    assert (code, out) == (0, '2.21.0 False\n')
    assert err.startswith(f'{told}The package tf-keras is missing. {NEEDED}')
    assert err.endswith(f'(to disable it: python -m tf_estimator disable, or {cure}')

    shutil.rmtree(enabled.package)
    lost = f'{told}the package tf_estimator is no longer installed (to disable it: {cure}'
    assert enabled.run('-c', HAS_ESTIMATOR) == (0, '2.21.0 False\n', lost)
    assert enabled.run('-c', 'print(1)') == (0, '1\n', '')

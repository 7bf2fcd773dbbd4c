"""`python -m tf_estimator SCRIPT ARGS...` does what `python SCRIPT ARGS...` does, with tf.estimator in place."""

import os
import py_compile
import shutil
import signal
import subprocess
import time
import zipapp

import pytest

from tests.shared import ROOT
from tests.tf_estimator.programs import SCRIPTS, finish, launch, not_on_2_15, run_script, unlike_info

pytestmark = pytest.mark.slow


@pytest.fixture
def old_program(tmp_path):
    """A copy of an old program, beside a module of its own that has the name of a package of this project."""
    program = tmp_path / 'program'
    program.mkdir()
    (program / 'common.py').write_text('STEPS = 3\n')
    return shutil.copy(os.path.join(SCRIPTS, 'old_program.py'), program)


def test_an_old_script_runs_unchanged_from_anywhere_and_without_noise(old_program, tmp_path):
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    script = os.path.relpath(old_program, elsewhere)
    code, out, err = run_script(script, '--model_dir', 'model', 'one', 'two words', cwd=elsewhere)
    assert code == 7, err
    assert out == f"__main__ old_program.py {script} ['one', 'two words'] 1.75\n"
    assert len(list((elsewhere / 'model' / 'export').iterdir())) == 1
    # A warning is its message and the line of code. Nothing else is there but the Estimator's own lines.
    lines = unlike_info(err)
    assert len(lines) == 5, '\n'.join(lines)
    first, _, second, _, logged = lines
    assert first.endswith('UserWarning: `my.layer` is deprecated and will be removed in a future version.')
    assert second.endswith('RuntimeWarning: A tensor of mine is large.')
    assert logged == (
        'WARNING:tensorflow:From me: my flag is deprecated and will be removed. Instructions for updating: drop it.'
    )
    assert err.count('Saving dict for global step 3: error = 0.375, global_step = 3, loss = 0.15625\n') == 1
    assert err.count('\nINFO:tensorflow:loss = 10.0, step = ') == 1


def test_flags_and_app_run_work_and_log_each_line_once(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text("""
import tensorflow.compat.v1 as tf
tf.flags.DEFINE_integer('code', 0, 'What to exit with.')
def main(argv):
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.logging.info('my info')
    tf.logging.warning('my deprecated warning')
    print(argv[1:], tf.estimator.ModeKeys.TRAIN)
    return tf.flags.FLAGS.code
if __name__ == '__main__':
    tf.app.run()
""")
    code, out, err = run_script(script, '--code=3', 'x')
    assert (code, out) == (3, "['x'] train\n")
    assert [line.split('] ')[-1] for line in err.splitlines()] == ['my info', 'my deprecated warning']


def test_a_script_that_raises_shows_its_traceback(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text('def fail():\n    raise KeyError("mine")\n\nfail()\n')
    code, out, err = run_script(script)
    assert (code, out) == (1, '')
    assert err.startswith(f'Traceback (most recent call last):\n  File "{script}", line 4, in <module>\n')
    assert err.endswith(f"""File "{script}", line 2, in fail\n    raise KeyError("mine")\nKeyError: 'mine'\n""")
    script.write_text('print(1\n')
    code, out, err = run_script(script)
    assert (code, out) == (1, '') and err.startswith(f'  File "{script}", line 1\n    print(1\n'), err


def test_what_python_runs_it_runs(tmp_path):
    text = 'import sys\nimport tensorflow as tf\nprint(__name__, sys.argv, tf.estimator.ModeKeys.TRAIN)\n'
    folder = tmp_path / 'folder'
    folder.mkdir()
    (folder / '__main__.py').write_text(text)
    zipapp.create_archive(folder, tmp_path / 'app.pyz')
    py_compile.compile(str(folder / '__main__.py'), str(tmp_path / 'script.pyc'))
    for path in (folder, tmp_path / 'app.pyz', tmp_path / 'script.pyc'):
        code, out, err = run_script(path, '-a')
        assert (code, out, err) == (0, f"__main__ ['{path}', '-a'] train\n", '')
    for path in ('-', '/dev/stdin'):
        process = launch('-m', 'tf_estimator', path, '-a', cwd=tmp_path, stdin=subprocess.PIPE)
        assert finish(process, text) == (0, f"__main__ ['{path}', '-a'] train\n", '')


def test_ctrl_c_ends_a_script_as_it_ends_python(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text('import time\nprint("ready", flush=True)\ntime.sleep(60)\n')
    process = launch('-m', 'tf_estimator', str(script))
    assert process.stdout.readline() == 'ready\n'
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process, timeout=30)
    assert code == -signal.SIGINT
    assert err.endswith('KeyboardInterrupt\n')


@pytest.mark.parametrize(
    'arguments, problem',
    [
        ([], 'SCRIPT is missing: python -m tf_estimator SCRIPT ARGS...'),
        (['none.py', '--flag'], 'none.py: no such file'),
        ([ROOT], f'{ROOT}: is a directory without __main__.py'),
        (['-c', 'print(1)'], 'there is no option -c: python -m tf_estimator [-m MODULE | SCRIPT] ARGS...'),
        (['-m'], 'MODULE is missing: python -m tf_estimator -m MODULE ARGS...'),
        (['-m', 'none_such.part', '--flag'], 'no module named none_such.part'),
        (['-m', 'json.none'], 'no module named json.none, or it is a package without __main__'),
        (['-m', 'json'], 'no module named json, or it is a package without __main__'),
    ],
)
def test_a_missing_script_or_module_is_one_line_and_exit_code_2(arguments, problem):
    code, out, err = finish(launch('-m', 'tf_estimator', *arguments))
    assert (code, out, err) == (2, '', f'python -m tf_estimator: {problem}\n')


def test_the_arguments_are_checked_before_tensorflow_is_imported():
    code, out, err = finish(
        launch(
            '-c',
            """
import runpy, sys
sys.argv = ['tf_estimator']
try:
    runpy.run_module('tf_estimator', run_name='__main__')
except SystemExit as end:
    print(end.code, 'tensorflow' in sys.modules)
""",
        )
    )
    assert (code, out) == (0, '2 False\n'), err


def test_a_package_of_ones_own_that_is_run_with_dash_m_gets_tf_estimator_from_its_import(tmp_path):
    package = tmp_path / 'package'
    package.mkdir()
    (package / '__init__.py').write_text('import tf_estimator\n')
    (package / '__main__.py').write_text('import tensorflow as tf\nprint(tf.estimator.ModeKeys.TRAIN)\n')
    code, out, err = finish(launch('-m', 'package', cwd=tmp_path))
    assert (code, out, err) == (0, 'train\n', '')


def test_a_module_or_a_package_runs_with_dash_m(tmp_path):
    package = tmp_path / 'package'
    package.mkdir()
    (package / '__init__.py').write_text('')
    for name in ('__main__', 'part'):
        (package / f'{name}.py').write_text(
            'import sys\nimport tensorflow as tf\nprint(__name__, __package__, sys.argv[1:], tf.estimator.ModeKeys.TRAIN)\n'
        )
    for module in ('package', 'package.part'):
        code, out, err = finish(launch('-m', 'tf_estimator', '-m', module, '-x', 'a b', cwd=tmp_path))
        assert (code, out, err) == (0, "__main__ package ['-x', 'a b'] train\n", '')


def test_a_package_that_lacks_something_says_what(tmp_path):
    (tmp_path / 'package').mkdir()
    (tmp_path / 'package' / '__init__.py').write_text('import none_such_dependency\n')
    code, _, err = finish(launch('-m', 'tf_estimator', '-m', 'package.part', cwd=tmp_path))
    assert code == 1 and err.endswith("ModuleNotFoundError: No module named 'none_such_dependency'\n")


@pytest.mark.parametrize('way', ['runner', 'import'])
def test_a_program_has_packages_and_modules_of_its_own_with_the_names_of_this_project_s(way, tmp_path):
    for name in ('common', 'models'):
        (tmp_path / name).mkdir()
        (tmp_path / name / '__init__.py').write_text('')
        (tmp_path / name / 'mine.py').write_text(f'NAME = "my {name}"\n')
    for name in ('datasets', 'hparams'):
        (tmp_path / f'{name}.py').write_text(f'NAME = "my {name}"\n')
    script = tmp_path / 'script.py'
    script.write_text(
        ('import tf_estimator\n' if way == 'import' else '')
        + """
import tensorflow.compat.v1 as tf
from common import mine as common
from models import mine as models
import datasets
import hparams
print([module.NAME for module in (common, models, datasets, hparams)], tf.estimator.ModeKeys.TRAIN)
"""
    )
    code, out, err = run_script(script) if way == 'runner' else finish(launch(str(script)))
    assert (code, err) == (0, '')
    assert out == "['my common', 'my models', 'my datasets', 'my hparams'] train\n"


@not_on_2_15
def test_the_script_runner_says_in_one_line_what_is_missing(tmp_path):
    (tmp_path / 'tf_keras.py').write_text('')
    (tmp_path / 'sitecustomize.py').write_text(
        'import importlib.util\n'
        'find = importlib.util.find_spec\n'
        'importlib.util.find_spec = lambda name, package=None: None if name == "tf_keras" else find(name, package)\n'
    )
    code, _, err = finish(launch('-m', 'tf_estimator', __file__, PYTHONPATH=f'{tmp_path}{os.pathsep}{ROOT}'))
    assert code == 1
    assert len(err.splitlines()) == 1
    assert err.startswith('python -m tf_estimator: The package tf-keras is missing. This needs TensorFlow 2.15')

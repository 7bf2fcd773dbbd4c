"""`python -m tf_estimator SCRIPT ARGS...` behaves like `python SCRIPT ARGS...`, with tf.estimator."""

import os
import py_compile
import shutil
import signal
import sys
import zipapp

from tf_estimator import __version__

import pytest

from tests.tf_estimator.programs import SCRIPTS, Environment, run_fresh, unlike_info

INTERRUPTED = 0xC000013A if sys.platform == 'win32' else -signal.SIGINT
SHOW = """
import sys, tensorflow as tf
print(__name__, __package__, sys.argv, tf.estimator.ModeKeys.TRAIN)
"""


@pytest.fixture(scope='module')
def environment(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp('environment'))


def write(directory, **texts):
    directory.mkdir()
    for name, text in texts.items():
        directory.joinpath(f'{name}.py').write_text(text)
    return directory


def test_an_old_script_runs_unchanged_from_anywhere_and_without_noise(tmp_path):
    program = write(tmp_path / 'program', common='STEPS = 3\n', datasets='NAME = "my datasets"\n')
    for name in ('hparams', 'models'):
        write(program / name, __init__='', mine=f'NAME = "my {name}"\n')
    shutil.copy(os.path.join(SCRIPTS, 'old_program.py'), program)
    elsewhere = write(tmp_path / 'elsewhere')
    script = '../program/old_program.py'
    code, out, err = run_fresh('-m', 'tf_estimator', script, '--model_dir', 'model', 'one', 'two words', cwd=elsewhere)
    own = "['one', 'two words'] my datasets, my hparams, my models"
    assert (code, out) == (7, f'__main__ old_program.py {script} {own} 1.75\n'), err
    assert len(list((elsewhere / 'model' / 'export').iterdir())) == 1
    # A warning is its message and the line of code.
    lines = unlike_info(err)
    assert len(lines) == 5, '\n'.join(lines)
    first, _, second, _, logged = lines
    assert first.endswith('UserWarning: `my.layer` is deprecated and will be removed in a future version.')
    assert second.endswith('RuntimeWarning: A tensor of mine is large.')
    warning = 'From me: my flag is deprecated and will be removed. Instructions for updating: drop it.'
    assert logged == f'WARNING:tensorflow:{warning}'
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
    code, out, err = run_fresh('-m', 'tf_estimator', script, '--code=3', 'x')
    assert (code, out) == (3, "['x'] train\n")
    assert [line.split('] ')[-1] for line in err.splitlines()] == ['my info', 'my deprecated warning']


def test_it_runs_whatever_python_runs(environment, tmp_path):
    folder = write(tmp_path / 'folder', __main__=SHOW, script=SHOW)
    zipapp.create_archive(folder, tmp_path / 'app.pyz')
    py_compile.compile(str(folder / 'script.py'), str(tmp_path / 'script.pyc'))
    pipes = ['-'] if sys.platform == 'win32' else ['-', '/dev/stdin']
    for path in (folder, tmp_path / 'app.pyz', tmp_path / 'script.pyc', folder / 'script.py', *pipes):
        package = None if path in (folder / 'script.py', *pipes) else ''
        found = environment.run_tf_estimator(path, '-a', text=SHOW)
        assert found == (0, f'__main__ {package} {[str(path), "-a"]} train\n', '')
    assert not (folder / '__pycache__' / 'script.pyc').exists()


def test_a_module_or_a_package_runs_with_dash_m(environment, tmp_path):
    write(tmp_path / 'package', __init__='', __main__=SHOW, part=SHOW)
    write(tmp_path / 'lacking', __init__='import none_such_dependency\n', part='')
    write(tmp_path / 'own', __init__='import tf_estimator\n', __main__=SHOW)
    for module, name in (('package', '__main__'), ('package.part', 'part')):
        found = environment.run_tf_estimator('-m', module, '-x', 'a b', cwd=tmp_path)
        file = str(tmp_path / 'package' / f'{name}.py')
        assert found == (0, f'__main__ package {[file, "-x", "a b"]} train\n', '')
    code, _, err = environment.run_tf_estimator('-m', 'lacking.part', cwd=tmp_path)
    assert code == 1 and err.endswith("ModuleNotFoundError: No module named 'none_such_dependency'\n")
    # A package that is run without the runner gets tf.estimator from its import.
    found = environment.run('-m', 'own', cwd=tmp_path)
    assert found == (0, f'__main__ own {[str(tmp_path / "own" / "__main__.py")]} train\n', '')
    for module in ('json.none', 'json'):
        problem = f'no module named {module}, or it is a package without __main__'
        assert environment.run_tf_estimator('-m', module) == (2, '', f'python -m tf_estimator: {problem}\n')


def test_a_script_that_raises_shows_its_traceback_and_nothing_of_the_runner(environment, tmp_path):
    script = tmp_path / 'script.py'
    script.write_text('def fail():\n    raise KeyError("mine")\n\nfail()\n')
    code, out, err = environment.run_tf_estimator(script)
    assert (code, out) == (1, '')
    assert err.startswith(f'Traceback (most recent call last):\n  File "{script}", line 4, in <module>\n')
    assert err.endswith(f"""File "{script}", line 2, in fail\n    raise KeyError("mine")\nKeyError: 'mine'\n""")
    script.write_text('print(1\n')
    code, out, err = environment.run_tf_estimator(script)
    assert (code, out) == (1, '') and err.startswith(f'  File "{script}", line 1\n    print(1\n'), err
    # Like Ctrl-C, even if it was ignored when the process started.
    script.write_text('import signal\nsignal.signal(2, signal.default_int_handler)\nsignal.raise_signal(2)\n')
    code, out, err = environment.run_tf_estimator(script)
    assert (code, out) == (INTERRUPTED, '') and err.endswith('KeyboardInterrupt\n')


def test_wrong_arguments_are_one_line_and_help_is_given_before_tensorflow_is_imported(environment):
    for arguments, problem in (
        ([], 'SCRIPT is missing: python -m tf_estimator SCRIPT ARGS...'),
        (['none.py', '--flag'], 'none.py: no such file'),
        ([os.curdir], f'{os.curdir}: is a directory without __main__.py'),
        (['-c', 'print(1)'], 'there is no option -c: python -m tf_estimator [-m MODULE | SCRIPT] ARGS...'),
        (['-m'], 'MODULE is missing: python -m tf_estimator -m MODULE ARGS...'),
        (['status', '--force'], 'status does not take --force (see python -m tf_estimator --help)'),
        (['-m', '.part'], 'no module named .part'),
        (['-m', 'none_such.part', '--flag'], 'no module named none_such.part'),
    ):
        found = environment.run_tf_estimator(*arguments, TENSORFLOW='broken')
        assert found == (2, '', f'python -m tf_estimator: {problem}\n')
    assert environment.run_tf_estimator('--version', TENSORFLOW='broken') == (0, f'tf_estimator {__version__}\n', '')
    for arguments in (['--help'], ['enable', '-h']):
        code, out, err = environment.run_tf_estimator(*arguments, TENSORFLOW='broken')
        assert (code, err) == (0, '')
        assert all(f'tf_estimator {command}' in out for command in ('SCRIPT', '-m MODULE', 'enable', 'disable', 'status'))

"""Tracebacks of a user's exception end in the user's line, without lines of TensorFlow and the framework."""

import re
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import command
from estimator_trainer.common.commands import flags as run_flags
from estimator_trainer.common.commands.report import report
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.plugins import model_contract
from estimator_trainer.common.plugins.traceback_filter import in_a_line, user_traceback
from tests import own_module

FAILING = """
def NAME(*arguments):
    x = 1
    raise ValueError('of its own')
"""
MODEL = FAILING.replace('NAME', 'model')
# With a failing Python op.
PARSE = """
def parse(mode, params, record):
    return {'x': tf.ensure_shape(tf.numpy_function(check, [record['x']], tf.float32), [3])}, {'label': record['label']}
"""
CHECK = FAILING.replace('NAME', 'check')
NESTED = PARSE.replace('\n    return', CHECK.rstrip().replace('\n', '\n    ') + '\n    return')
GENERATOR = """
CALLS = []

def examples():
    CALLS.append(1)
    for i in range(12):
        if i == 3 and len(CALLS) >= FAILS_AT:
            raise ValueError('of its own')
        yield {'x': [0.0, 1.0, 2.0], 'label': i % 2}

def read(split, data_dir, params):
    specs = {'x': tf.TensorSpec([3], tf.float32), 'label': tf.TensorSpec([], tf.int64)}
    return tf.data.Dataset.from_generator(examples, output_signature=specs)
"""


def shown(source, *flags):
    """Runs a module; returns the exit code and the lines on stderr, with 'module.py' for its path."""
    code, err, path = own_module.run(source, *flags)
    return code, err.replace(path, 'module.py').splitlines()


def traceback(name, line):
    """Returns the lines of a traceback that ends in a line added to a module."""
    place = f'  File "module.py", line {own_module.LINES + line}, in {name}'
    return ['Traceback (most recent call last):', place, "    raise ValueError('of its own')", 'ValueError: of its own']


def test_an_exception_of_a_function_of_the_users_or_a_mistake_with_an_op_ends_in_its_line():
    for name in ('get_params', 'prepare', 'read', 'parse', 'parse_batch', 'model', 'eval_metrics'):
        assert shown(FAILING.replace('NAME', name)) == (1, traceback(name, 4))
    source = "def parse(mode, params, record): return {'x': record['x']}, {'label': tf.as_string(record['label'])}"
    code, lines = shown(source)
    assert code == 1 and [line for line in lines if line.startswith('  File')] == lines[1:2]
    assert lines[1].endswith(', in model') and lines[-1].startswith('TypeError: ')


@pytest.mark.parametrize('source', [CHECK + PARSE, CHECK + PARSE.replace('numpy_function', 'py_function'), NESTED])
def test_an_exception_in_a_python_op_ends_in_the_users_line_and_names_the_record(source):
    code, lines = shown(source)
    line = source[: source.index('raise')].count('\n') + 1
    assert code == 1 and lines[0].startswith('Traceback')
    assert all(line.startswith('  File "module.py", ') for line in lines if line.startswith('  File'))
    assert lines[-4:] == [*traceback('check', line)[1:], 'trainer.py: record 0 of the split train: ValueError: of its own']


@pytest.mark.parametrize('fails_at', [1, 2])  # When the records are counted, or trained on.
def test_an_exception_in_a_generator_ends_in_the_users_line(fails_at):
    code, lines = shown(GENERATOR.replace('FAILS_AT', str(fails_at)), '--schedule=train', '--train_steps=9')
    assert code == 1 and lines[:4] == traceback('examples', 8) and len(lines) <= 5
    assert all(line.startswith('trainer.py: ') and line.endswith('ValueError: of its own') for line in lines[4:])


def test_a_module_that_cannot_be_imported_ends_in_its_line():
    for source, ends in (
        ('import no_such', ['    import no_such', "ModuleNotFoundError: No module named 'no_such'"]),
        ('def broken(:', ['SyntaxError: invalid syntax']),
    ):
        code, lines = shown(source)
        assert code == 1 and lines[-len(ends) :] == ends and len(lines) <= 6
        (place,) = [line for line in lines if line.startswith('  File')]
        assert place.startswith(f'  File "module.py", line {own_module.LINES + 1}')


def test_a_module_with_nul_bytes_or_that_ends_the_process_as_if_all_were_done_is_named_in_a_line():
    code, lines = shown('x = 1\0')
    assert code == 2 and len(lines) == 1 and 'or a module that it imports, contains NUL bytes, as UTF-16 does' in lines[0]
    line = f'trainer.py: the process was ended before its work was done, by SystemExit (module.py, line {own_module.LINES + 3})'
    for name in ('model', 'parse'):
        assert shown(f'import sys\ndef {name}(*arguments):\n    sys.exit()') == (1, [line])
    assert shown('import sys\ndef get_params():\n    sys.exit()', '--help') == (1, [line])
    code, (line,) = shown('import sys\ndef model(*arguments): sys.exit(256)')  # Of which a shell sees 0.
    assert code == 1 and 'by SystemExit: 256 (' in line
    escapes = FAILING.replace('NAME', 'model').replace('of its own', r'\x1b[1m')
    assert shown(escapes)[1][-1] == r'ValueError: \x1b[1m'


@pytest.mark.parametrize('is_shown', [True, False])
def test_what_led_to_an_exception_is_shown_before_it_unless_it_is_from_none(is_shown):
    def model(*arguments):
        try:
            int('x')
        except ValueError as error:
            raise KeyError('of its own') from (error if is_shown else None)

    with pytest.raises(KeyError) as raised:
        model_contract.call_model(types.SimpleNamespace(model=model), {}, {}, 'train', types.SimpleNamespace(model='m'))
    *lines, last = user_traceback(raised.value).replace(__file__, 'test.py').splitlines()
    first, second = (f'  File "test.py", line {model.__code__.co_firstlineno + i}, in model' for i in (2, 4))
    found = [line for line in lines if line.startswith(('  File', 'This'))]
    assert found == [*([first, 'This led to:'] if is_shown else []), second] and last == "KeyError: 'of its own'"


def test_full_traceback_keeps_all_lines():
    with pytest.raises(ValueError, match='of its own'):
        own_module.run(MODEL, '--schedule=dry_run', '--full_traceback')
    code, lines = shown(PARSE.replace('check', 'int'), '--schedule=dry_run', '--full_traceback')
    assert code == 1 and lines[-1].startswith('trainer.py: record 0 of the split train: ')
    assert any('site-packages' in line for line in lines)


def test_an_exception_without_a_line_of_the_users_is_shown_whole_and_one_in_a_line_has_its_type_and_place():
    with pytest.raises((TypeError, ValueError)):
        command.execute(['trainer.py'], run_flags.define(), lambda FLAGS: '', lambda FLAGS: None, tf.matmul)
    with pytest.raises(RunError) as error:
        raise RunError('one\ntwo')
    line = r'estimator_trainer\.common\.errors\.RunError: one two \(\S*test_traceback_filter\.py, line \d+\)'
    assert re.fullmatch(line, in_a_line(error.value))
    end = "raise RunError('one\\ntwo')\nestimator_trainer.common.errors.RunError: one two\n"
    assert user_traceback(error.value).endswith(end)


def test_a_tensorflow_error_in_no_line_of_the_user_is_one_line():
    error = tf.errors.InvalidArgumentError(None, None, 'the shape is wrong\n\t [[node]]')
    code, text = report('trainer.py', error, types.SimpleNamespace(full_traceback=False))
    assert (code, text) == (1, 'trainer.py: the shape is wrong (--full_traceback shows where)\n')

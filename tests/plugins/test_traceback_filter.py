"""A user's exception ends in the user's line, without those of TensorFlow and the framework."""

import re
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.plugins.traceback_filter import in_a_line, user_traceback
from common.runs import command
from common.runs import flags as run_flags
from tests.shared import ROOT, without_log
from tools.soak import wrong_modules

FUNCTION = """
def NAME(ARGUMENTS):
    x = 1
    raise ValueError('of its own')
"""
ARGUMENTS = {
    'get_params': '',
    'prepare': 'data_dir, params',
    'read': 'split, data_dir, params',
    'parse': 'mode, params, record',
    'parse_batch': 'mode, params, records',
    'model': 'features, labels, mode, params',
    'eval_metrics': 'features, labels, predictions, params',
}


def shown(source, *flags):
    """Runs a module; returns the exit code and the lines on stderr, with 'module.py' for its path."""
    code, err, path = wrong_modules.run(source, *flags)
    return code, err.replace(path, 'module.py').splitlines()


def traceback(name, line, text="raise ValueError('of its own')"):
    return [
        'Traceback (most recent call last):',
        f'  File "module.py", line {line}, in {name}',
        f'    {text}',
        'ValueError: of its own',
    ]


@pytest.mark.parametrize('name', ARGUMENTS)
def test_an_exception_of_a_function_of_the_users_ends_in_its_line(name):
    code, lines = shown(FUNCTION.replace('NAME', name).replace('ARGUMENTS', ARGUMENTS[name]))
    assert (code, lines) == (1, traceback(name, wrong_modules.GOOD.count('\n') + 4))


def test_an_exception_in_evaluation_alone_ends_in_the_users_line():
    source = """
def model(features, labels, mode, params, good=model):
    if mode == 'eval':
        raise ValueError('of its own')
    return good(features, labels, mode, params)
"""
    code, lines = shown(source, '--train_steps=2')
    assert (code, lines) == (1, traceback('model', wrong_modules.GOOD.count('\n') + 4))


def test_a_mistake_with_an_op_ends_in_the_users_line():
    source = """
def eval_metrics(features, labels, predictions, params):
    return {'accuracy': tf.metrics.accuracy(labels['label'], predictions['probabilities'])}
"""
    code, lines = shown(source)
    assert code == 1 and [line for line in lines if line.startswith('  File')] == lines[1:2]
    assert 'in eval_metrics' in lines[1] and lines[-1].startswith('ValueError: Shapes (4, 2) and (4,) are incompatible')


def test_labels_that_the_model_cannot_take_end_in_the_models_line():
    source = """
def parse(mode, params, record):
    return {'x': record['x']}, {'label': tf.as_string(record['label'])}
"""
    code, lines = shown(source)
    assert code == 1 and lines[1].endswith(', in model') and lines[-1].startswith('TypeError: ')
    assert not any('site-packages' in line for line in lines)


@pytest.mark.parametrize('op', ['numpy_function', 'py_function'])
def test_an_exception_in_a_python_op_ends_in_the_users_line_and_names_the_record(op):
    source = f"""
def check(x):
    if x[2]:
        raise ValueError('of its own')
    return x


def parse(mode, params, record):
    return {{'x': tf.ensure_shape(tf.{op}(check, [record['x']], tf.float32), [3])}}, {{'label': record['label']}}
"""
    code, lines = shown(source)
    assert code == 1
    assert lines == traceback('check', wrong_modules.GOOD.count('\n') + 4) + [
        'trainer.py: record 2 of the split train: ValueError: of its own'
    ]


def test_an_exception_in_a_python_op_that_is_written_inside_parse_ends_in_the_users_line():
    source = """
def parse(mode, params, record):
    def check(x):
        if x[2]:
            raise ValueError('of its own')
        return x
    return {'x': tf.ensure_shape(tf.numpy_function(check, [record['x']], tf.float32), [3])}, {'label': record['label']}
"""
    code, lines = shown(source)
    assert code == 1
    assert lines[-4:] == traceback('check', wrong_modules.GOOD.count('\n') + 5)[1:] + [
        'trainer.py: record 2 of the split train: ValueError: of its own'
    ]
    assert all(line.startswith('  File "module.py", ') for line in lines if line.startswith('  File'))


def test_an_exception_in_a_python_op_of_the_model_ends_in_the_users_line():
    source = """
def check(x):
    raise ValueError('of its own')


def model(features, labels, mode, params, good=model):
    predictions, loss = good(features, labels, mode, params)
    return predictions, loss + tf.ensure_shape(tf.numpy_function(check, [loss], tf.float32), [None])
"""
    code, lines = shown(source)
    assert (code, lines) == (1, traceback('check', wrong_modules.GOOD.count('\n') + 3))


@pytest.mark.parametrize('fails_at', [1, 2], ids=['counted', 'trained on'])
def test_an_exception_in_a_generator_ends_in_the_users_line(fails_at):
    source = f"""
CALLS = []


def examples():
    CALLS.append(1)
    for i in range(12):
        if i == 3 and len(CALLS) >= {fails_at}:
            raise ValueError('of its own')
        yield {{'x': [0.0, 1.0, 2.0], 'label': i % 2}}


def read(split, data_dir, params):
    specs = {{'x': tf.TensorSpec([3], tf.float32), 'label': tf.TensorSpec([], tf.int64)}}
    return tf.data.Dataset.from_generator(examples, output_signature=specs)
"""
    code, lines = shown(source, '--schedule=train', '--train_steps=9')
    assert code == 1
    assert lines[:4] == traceback('examples', wrong_modules.GOOD.count('\n') + 9)
    assert (
        all(line.startswith('trainer.py: ') and line.endswith('ValueError: of its own') for line in lines[4:])
        and len(lines) <= 5
    )


@pytest.mark.parametrize(
    'source, ends',
    [
        (
            'import nosuch_dependency',
            ['    import nosuch_dependency', "ModuleNotFoundError: No module named 'nosuch_dependency'"],
        ),
        ('raise ValueError("of its own")', ['    raise ValueError("of its own")', 'ValueError: of its own']),
        ('def broken(:', ['SyntaxError: invalid syntax']),
    ],
    ids=['import', 'exception', 'syntax'],
)
def test_a_module_that_cannot_be_imported_ends_in_its_line(source, ends):
    code, lines = shown(source + '\n')
    assert code == 1 and lines[-len(ends) :] == ends and len(lines) <= 6
    assert [line for line in lines if line.startswith('  File')] == [
        line for line in lines if line.startswith(f'  File "module.py", line {wrong_modules.GOOD.count(chr(10)) + 1}')
    ]


@pytest.fixture
def half_as_deep():
    """Ends recursion early: the time that AutoGraph takes for one without end goes with the square of its depth."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit // 2)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures('half_as_deep')
@pytest.mark.parametrize('name', ['model', 'parse'])
def test_recursion_without_end_is_cut_down(name):
    source = f"""
def again(x):
    return once_more(x)


def once_more(x):
    return again(x)


def {name}({ARGUMENTS[name]}):
    return again(1)
"""
    code, lines = shown(source)
    assert code == 1 and len(lines) < 50 and '  ...' in lines
    assert lines[1].endswith(f', in {name}') and lines[-1].startswith('RecursionError: maximum recursion depth exceeded')
    assert all('module.py' in line for line in lines if line.startswith('  File'))


def test_what_led_to_an_exception_is_shown_before_the_exception():
    source = """
def model(features, labels, mode, params):
    try:
        tf.ones([2]) + tf.ones([3])
    except ValueError as error:
        raise KeyError('of its own') from error
"""
    code, lines = shown(source)
    assert code == 1 and lines[-1] == "KeyError: 'of its own'"
    first = wrong_modules.GOOD.count('\n') + 4
    assert [line for line in lines if line.startswith(('  File', 'This'))] == [
        f'  File "module.py", line {first}, in model',
        'This led to:',
        f'  File "module.py", line {first + 2}, in model',
    ]


def test_a_wrong_module_as_a_process_of_its_own_shows_nothing_else(tmp_path):
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine' / 'module.py').write_text(
        wrong_modules.GOOD + FUNCTION.replace('NAME', 'model').replace('ARGUMENTS', ARGUMENTS['model'])
    )
    process = subprocess.run(
        [sys.executable, f'{ROOT}/trainer.py', '--model=mine.module', '--dataset=mine.module', '--schedule=dry_run'],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = without_log(process.stderr)
    assert process.returncode == 1
    assert [line.replace(str(tmp_path / 'mine' / 'module.py'), 'module.py') for line in lines] == traceback(
        'model', wrong_modules.GOOD.count('\n') + 4
    )


def test_full_traceback_keeps_all_lines():
    source = FUNCTION.replace('NAME', 'model').replace('ARGUMENTS', ARGUMENTS['model'])
    with pytest.raises(ValueError, match='of its own'):
        wrong_modules.run(source, '--schedule=dry_run', '--full_traceback')
    code, lines = shown(
        """
def parse(mode, params, record):
    return {'x': tf.ensure_shape(tf.numpy_function(int, [record['x']], tf.float32), [3])}, {'label': record['label']}
""",
        '--schedule=dry_run',
        '--full_traceback',
    )
    assert (
        code == 1
        and any('site-packages' in line for line in lines)
        and lines[-1].startswith('trainer.py: record 0 of the split train: ')
    )


def test_an_exception_without_a_line_of_the_users_is_shown_whole():
    with pytest.raises((TypeError, ValueError)):
        command.execute(['trainer.py'], run_flags.define(), lambda FLAGS: '', lambda FLAGS: None, tf.matmul)


def test_an_exception_in_a_line_has_its_type_and_place():
    try:
        raise RunError('one\ntwo')
    except RunError as error:
        assert re.fullmatch(r'common\.errors\.RunError: one two \(\S*test_traceback_filter\.py, line \d+\)', in_a_line(error))
        assert user_traceback(error).endswith("raise RunError('one\\ntwo')\ncommon.errors.RunError: one\ntwo\n")

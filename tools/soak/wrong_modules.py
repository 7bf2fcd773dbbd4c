"""Modules with one mistake each, which must be reported with the name of the function."""

import re

from tests import own_module

_VALUES = [
    'None',
    '3',
    '0.5',
    'True',
    '"text"',
    'b"bytes"',
    '[]',
    '[1, 2]',
    '(1, 2)',
    '(1, 2, 3)',
    '{1, 2}',
    'object()',
    'iter([])',
    'len',
    'np.zeros([4])',
    'np.float32(1)',
    'tf.zeros([4, 2, 2])',
    'tf.constant(1.0)',
    'tf.constant("text")',
    'tf.sparse.from_dense(tf.eye(4))',
    'tf.ragged.constant([[1], [2, 3], [], [4]])',
    '{1: tf.zeros([4])}',
    '{None: tf.zeros([4])}',
    '{"": tf.zeros([4])}',
    '{"\\ud800": tf.zeros([4])}',
    '{"a": None}',
    '{"a": object()}',
    '{"a": {"b": tf.zeros([4])}}',
    '{"a": tf.zeros([4]), 2: tf.zeros([4])}',
    '{"a": lambda: 0}',
]
_RETURNS = {  # With each of the values in place of VALUE.
    'get_params': ['return VALUE', 'yield VALUE', 'return {"a": VALUE}'],
    'read': ['return VALUE', 'yield VALUE'],
    'parse': ['return VALUE', 'return {"x": record["x"]}, VALUE', 'return VALUE, {"label": record["label"]}'],
    'model': ['return VALUE', 'return VALUE, good[1]', 'return {**good[0], "a": VALUE}, good[1]'],
    'eval_metrics': ['return VALUE', 'return {"a": VALUE}', 'return {"a": (VALUE, VALUE)}'],
}
_RIGHT = {
    'return {"a": VALUE}': {'3', '0.5', 'True', '"text"', '[]', '[1, 2]', '(1, 2)', '(1, 2, 3)'},
    'return {**good[0], "a": VALUE}, good[1]': {'tf.zeros([4, 2, 2])'},
    'return {"a": (VALUE, VALUE)}': {'tf.zeros([4, 2, 2])', 'tf.constant(1.0)', 'tf.constant("text")'},
}
_LOSSES = [
    'tf.cast(good[1], tf.float64)',
    'tf.cast(good[1], tf.float16)',
    'tf.cast(good[1], tf.bfloat16)',
    'tf.cast(good[1], tf.int32)',
    'tf.as_string(good[1])',
    'tf.reduce_mean(good[1])',
    'good[1][:, None]',
    'float(good[1].shape[0])',
    'np.zeros(4)',
    'None',
]
_MISTAKES = [
    'raise ValueError("of its own")',
    'raise KeyError("of its own")',
    'assert False, "of its own"',
    '1 / 0',
    'raise NotImplementedError',
    'raise StopIteration',
    'raise tf.errors.AbortedError(None, None, "of its own")',
    'raise OSError("of its own")',
    'raise UnicodeDecodeError("utf-8", b"", 0, 1, "of its own")',
    'raise type("Own", (Exception,), {})("of its own")',
    'again()',
    'tf.ones([2, 3]) + tf.ones([4, 5])',
    'np.ones(2) + np.ones(3)',
    'tf.nosuch',
    'import nosuch',
    'int("x")',
    'None.x',
    'tf.matmul(tf.ones([2]), 3)',
    'tf.data.Dataset.range(3).map(lambda i: i + "x")',
]
_ARGUMENTS = {
    'get_params': '',
    'prepare': 'data_dir, params',
    'read': 'split, data_dir, params',
    'parse': 'mode, params, record',
    'model': 'features, labels, mode, params',
    'eval_metrics': 'features, labels, predictions, params',
}
_MODULE = re.compile(r'own_\d+.module\.py$')


def _function(name, *lines):
    return f'good_{name} = {name}\n\n\ndef {name}({_ARGUMENTS[name]}):\n' + ''.join(f'    {line}\n' for line in lines)


def wrong_returns():
    """Returns [(wrong function, its source)], each of which must lead to exit code 2 and one line."""
    cases = [
        (
            name,
            _function(
                name,
                *(['good = good_model(features, labels, mode, params)'] if 'good[' in line else []),
                line.replace('VALUE', value),
            ),
        )
        for name, lines in _RETURNS.items()
        for line in lines
        for value in _VALUES
        if not (
            value in _RIGHT.get(line, ())
            and name != 'eval_metrics'
            or name == 'eval_metrics'
            and '(VALUE' in line
            and value in _RIGHT[line]
        )
    ]
    cases += [
        (
            'model',
            _function(
                'model',
                'good = good_model(features, labels, mode, params)',
                f'return good[0], None if labels is None else {loss}',
            ),
        )
        for loss in _LOSSES
    ]
    cases += [
        (name, f'def {name}({arguments}):\n    pass\n')
        for name in _ARGUMENTS
        for arguments in ('a', 'a, b, c, d, e', '*, a')
        if (name, arguments) != ('get_params', '')
    ]
    return cases


def exceptions():
    """Returns [(None, source of a module that raises its own exception)], which must be reported with a line of the module."""
    again = 'def again():\n    again()\n\n\n'
    return [
        (None, again + source)
        for source in [
            *(_function(name, mistake) for name in _ARGUMENTS for mistake in _MISTAKES),
            *(f'def inner():\n    {mistake}\n\n\ninner()\n' for mistake in _MISTAKES),
            *(f'if True:\n{line}\n' for line in ('def', '    x = = 1', '    "', '  x = 1\n   y = 2', '    (', '    f(x')),
            *(
                _function(
                    'parse',
                    'def inner(x):',
                    f'    {mistake}',
                    'x = tf.ensure_shape(tf.numpy_function(inner, [record["x"]], tf.float32), [3])',
                    'return {"x": x}, {"label": record["label"]}',
                )
                for mistake in _MISTAKES
                if 'tf.' not in mistake and 'assert' not in mistake
            ),
            *(
                _function(
                    'read',
                    'def inner():',
                    '    yield 1',
                    f'    {mistake}',
                    'return tf.data.Dataset.from_generator(inner, tf.int32)',
                )
                for mistake in _MISTAKES
                if 'tf.' not in mistake and 'StopIteration' not in mistake
            ),
        ]
    ]


def is_reported(case):
    """Whether a mistake is reported in one line that names the function, or an exception with the module's traceback."""
    function, source = case
    code, err, _ = own_module.run(source)
    lines = err.splitlines()
    if function:
        return (
            code == 2 and len(lines) == 1 and re.match(rf'trainer\.py: --(model|dataset)=\S+: {function}\(\)', err) is not None
        )
    if len(lines) == 1:
        return code == 1 and err.startswith('trainer.py: ') and len(err) < 1000
    files = re.findall('^ *File "(.*?)"', err, re.MULTILINE)
    return code == 1 and bool(files) and all(map(_MODULE.search, files)) and len(lines) <= 60

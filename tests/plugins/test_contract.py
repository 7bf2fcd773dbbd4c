"""A training checks what the functions of a module return, and reports what is wrong in one line."""

import re

import pytest

from common.errors import UsageError
from hparams.build import HParams
from hparams.check import check_params
from tests import own_module
from tests.shared import refused

NAMES = 'the name of a hyper-parameter must be a Python identifier, and neither metadata nor that of a method of dict'
VALUES = 'integers must be between -2147483647 and 2147483647, floats finite, and strings valid Unicode'
TYPES = 'but a hyper-parameter must be a bool, an int, a float, a str, or a list of one of these'
UNREADABLE = f'the split train in PATH/data cannot be read: OSError: no (PATH/module.py, line {own_module.LINES + 1})'
METRICS = 'def eval_metrics(features, labels, predictions, params): return 3'
LOOPS_AND_TOWERS = ('--train_steps=9', '--steps_per_loop=3', '--num_towers=2')


def parse(value):
    """Returns the source of a parse() that returns an expression of x and label."""
    return f"def parse(mode, params, record):\n    x, label = record['x'], record['label']\n    return {value}\n"


def model(value):
    """Returns the source of a model() that returns an expression of predictions and loss."""
    return f"""
def model(features, labels, mode, params, good=model):
    x = features['x']
    x = tf.sparse.to_dense(x) if isinstance(x, tf.SparseTensor) else x
    predictions, loss = good({{'x': tf.reshape(x, [-1, 3])}}, labels, mode, params)
    return {value}
"""


@pytest.mark.parametrize(
    'values, message',
    [
        ((i for i in 'ab'), ' must return a dict, not a generator'),
        ({1: 2}, f' gives 1=2: {NAMES}'),
        ({'a b': 2}, f" gives 'a b'=2: {NAMES}"),
        ({'metadata': 2}, f" gives 'metadata'=2: {NAMES}"),
        ({'items': 2}, f" gives 'items'=2: {NAMES}"),
        ({'a': None}, f' gives a=None, {TYPES}'),
        ({'a': [1, 2.0]}, f' gives a=[1, 2.0], {TYPES}'),
        ({'a': 2**31}, f' gives a=2147483648: {VALUES}'),
        ({'a': -(2**31)}, f' gives a=-2147483648: {VALUES}'),
        ({'a': 10**400}, f' gives a=1{"0" * 99}...: {VALUES}'),
        ({'a': 10**5000}, f' gives a=an int: {VALUES}'),
        ({'a': float('nan')}, f' gives a=nan: {VALUES}'),
        ({'a': ['\ud800']}, rf" gives a=['\ud800']: {VALUES}"),
        ({'a': '\udfff'}, rf" gives a='\udfff': {VALUES}"),
    ],
)
def test_hyperparameters_that_cannot_be_saved_are_named(values, message):
    assert refused(check_params, '--model=m', values) == f'--model=m: get_params(){message}'


def test_hyperparameters_may_have_any_plain_value():
    check_params('--model=m', {'a': 2**31 - 1, 'b': -(2**31) + 1, 'c': [], 'd': ('\ue000', 'x'), 'e': [True], 'f': 0.5})


def test_a_hyperparameter_that_is_not_there_can_be_asked_for_as_of_a_dict():
    params = HParams({'model': 'm', 'dataset': 'd', 'units': 3})
    assert 'units' in params and 'unit' not in params
    assert params.get('unit') is None and params.get('unit', 4) == 4 and params.get('units') == 3
    for ask in (lambda: params['unit'], lambda: params.unit):
        with pytest.raises(UsageError, match='^--model=m and --dataset=d define no hyper-parameter unit, did you mean units?'):
            ask()
    with pytest.raises(KeyError):
        params['unit']


@pytest.mark.parametrize(
    'source, code, message',
    [
        ('def get_params(): return {1: 2}', 2, f'--model=NAME: get_params() gives 1=2: {NAMES}'),
        ('def get_params(name): return {}', 2, '--model=NAME: get_params() must be a function of ()'),
        ('def metadata(data_dir, params): return 3', 2, '--dataset=NAME: metadata() must return its items as a dict, not an'),
        ('def read(split, data_dir, params): return 1', 2, '--dataset=NAME: read() must return a tf.data.Dataset, not an int'),
        ('def read(split, data_dir, params): raise OSError("no")', 1, f'--dataset=NAME: read(): {UNREADABLE}'),
        (parse('3'), 2, '--dataset=NAME: parse() must return a pair (features, labels), not an int'),
        (parse('params.nix'), 2, '--model=NAME and --dataset=NAME define no hyper-parameter nix'),
        (model('params["nix"]'), 2, '--model=NAME and --dataset=NAME define no hyper-parameter nix'),
        (model('predictions, 3'), 2, '--model=NAME: model() must return a loss of shape [batch] and type float32, one for'),
        (METRICS, 2, '--model=NAME: eval_metrics() must return metrics as a dict, not an int'),
    ],
)
def test_a_mistake_of_a_module_is_one_line_that_names_its_function(source, code, message):
    found, err, path = own_module.run(source)
    directory, name, _ = path.rsplit('/', 2)
    for text, replaced in ((path, 'PATH/module.py'), (directory, 'PATH'), (f'{name}.module', 'NAME')):
        err = err.replace(text, replaced)
    assert found == code and err.startswith(f'trainer.py: {message}') and err.count('\n') == 1


def test_sparse_features_and_unknown_shapes_are_for_models_that_take_them_but_not_for_towers():
    features = '{"x": tf.sparse.from_dense(x), "y": tf.numpy_function(lambda x: x, [x], tf.float32)}'
    source = parse(f'{features}, {{"label": label}}') + model('predictions, loss')
    assert own_module.run(source, '--schedule=train', '--train_steps=1')[:2] == (0, '')
    code, err, _ = own_module.run(source, '--schedule=train', '--train_steps=1', '--num_towers=2')
    assert code == 2 and re.fullmatch(r'trainer\.py: --dataset=\S+ with towers: the feature x must be a tensor, .*\n', err)


def test_a_record_that_no_step_can_take_is_named():
    source = parse('{"x": x}, {"label": label + (10 * tf.cast(x[2] > 0, tf.int64))}')
    code, err, _ = own_module.run(source, *LOOPS_AND_TOWERS)
    assert (code, err) == (1, 'trainer.py: record 2 of the split train: the label label is 10, but the model takes 0 to 1\n')


@pytest.mark.parametrize('flags', [('--train_steps=9',), LOOPS_AND_TOWERS])
def test_an_error_of_an_op_of_the_users_is_one_line_with_the_place(flags):
    source = parse('{"x": x, "label": label + 2}, {"label": label}')
    source += model('predictions, loss * tf.gather([1.0, 2.0], features["label"])')
    code, err, path = own_module.run(source, *flags)
    line = own_module.LINES + source.count('\n')
    assert code == 1
    assert re.fullmatch(rf'trainer\.py: indices\[\d\] = [23] is not in \[0, 2\) \({path}, line {line}\)\n', err), err

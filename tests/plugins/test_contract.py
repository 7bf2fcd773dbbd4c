"""Training checks the results of a module's functions, and reports mistakes in one line."""

import re

import pytest

from estimator_trainer.common.errors import UsageError
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.merge import check_params
from tests import own_module
from tests.shared import refused

NAMES = 'the name of a hyper-parameter must be a Python identifier, and neither metadata nor that of a method of dict'
VALUES = 'integers must be between -2147483647 and 2147483647, floats between -3.4e+38 and 3.4e+38, and strings valid Unicode'
TYPES = 'but a hyper-parameter must be a bool, an int, a float, a str, or a list of one of these'
UNREADABLE = f'the split train in PATH/data cannot be read: OSError: no (PATH/module.py, line {own_module.LINES + 1})'


def parse(value):
    """Returns the source of a parse() that returns an expression of x and label."""
    return f"def parse(mode, params, record):\n    x, label = record['x'], record['label']\n    return {value}\n"


def model(value):
    """Returns the source of a model() that returns an expression of predictions and loss."""
    return f"""
def model(features, labels, mode, params, good=model):
    predictions, loss = good(features, labels, mode, params)
    return {value}
"""


def test_hyperparameters_that_cannot_be_saved_are_named():
    for values, message in (
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
        ({'a': float('nan')}, f' gives a=nan: {VALUES}'),
        ({'a': ['\ud800']}, rf" gives a=['\ud800']: {VALUES}"),
        ({'a': '\udfff'}, rf" gives a='\udfff': {VALUES}"),
    ):
        assert refused(check_params, '--model=m', values) == f'--model=m: get_params(){message}'
    check_params('--model=m', {'a': 2**31 - 1, 'b': -(2**31) + 1, 'c': [], 'd': ('\ue000', 'x'), 'e': [True], 'f': 0.5})


def test_a_hyperparameter_that_is_not_there_can_be_asked_for_as_of_a_dict():
    params = HParams({'model': 'm', 'dataset': 'd', 'units': 3})
    assert 'units' in params and 'unit' not in params
    assert params.get('unit') is None and params.get('unit', 4) == 4 and params.get('units') == 3
    unknown = '^--model=m and --dataset=d define no hyper-parameter unit, did you mean units?'
    for ask, kind in ((lambda: params['unit'], KeyError), (lambda: params.unit, AttributeError)):
        with pytest.raises(UsageError, match=unknown) as error:
            ask()
        assert isinstance(error.value, kind)


def test_a_mistake_of_a_module_is_one_line_that_names_its_function():
    for source, code, message in (
        ('def get_params(): return {1: 2}', 2, f'--model=NAME: get_params() gives 1=2: {NAMES}'),
        ('def metadata(data_dir, params): return 3', 2, '--dataset=NAME: metadata() must return its items as a dict, not an'),
        ('def read(split, data_dir, params): return 1', 2, '--dataset=NAME: read() must return a tf.data.Dataset, not an int'),
        ('def read(split, data_dir, params): raise OSError("no")', 1, f'--dataset=NAME: read(): {UNREADABLE}'),
        (parse('3'), 2, '--dataset=NAME: parse() must return a pair (features, labels), not an int'),
        (parse('params.nix'), 2, '--model=NAME and --dataset=NAME define no hyper-parameter nix'),
        (model('predictions, 3'), 2, '--model=NAME: model() must return a loss of shape [batch] and type float32, one for'),
    ):
        found, err, path = own_module.run(source)
        directory, name, _ = path.rsplit('/', 2)
        for text, replaced in ((path, 'PATH/module.py'), (directory, 'PATH'), (f'{name}.module', 'NAME')):
            err = err.replace(text, replaced)
        assert found == code and err.startswith(f'trainer.py: {message}') and err.count('\n') == 1


@pytest.mark.parametrize('flags', [(), ('--steps_per_loop=3', '--num_towers=2')])
def test_an_error_of_an_op_of_the_users_is_one_line_with_the_place(flags):
    source = parse('{"x": x, "label": label + 2}, {"label": label}')
    source += model('predictions, loss * tf.gather([1.0, 2.0], features["label"])')
    code, err, path = own_module.run(source, '--train_steps=9', *flags)
    line = own_module.LINES + source.count('\n')
    assert code == 1
    problem = r'record \d+ of the split train: the feature label is [23], but the model takes 0 to 1'
    assert re.fullmatch(rf'trainer\.py: {problem} \({path}, line {line}\)\n', err), err

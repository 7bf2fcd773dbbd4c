"""Loading of models and datasets by name."""

import types

import pytest

from estimator_trainer.common.plugins import loader, module_check
from estimator_trainer.models import alexnet, mlp
from tests.shared import refused

MODEL = {'get_params': dict, 'model': lambda features, labels, mode, params: None}
DATASET = {'get_params': dict, 'prepare': lambda data_dir, params: None, 'read': lambda split, data_dir, params: None}


def check(kind, functions):
    module_check.check_module(kind, 'm', types.SimpleNamespace(**functions))


def test_a_dotted_path_is_any_importable_module_and_an_unknown_one_lists_the_known_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'outside').mkdir()
    for name, text in (
        ('whole', 'def get_params(): return {}\ndef model(features, labels, mode, params): pass\n'),
        ('lacking', 'def get_params(): return {}\n'),
        ('broken', 'import nosuch_dependency\n'),
    ):
        (tmp_path / 'outside' / f'{name}.py').write_text(text)
    assert loader.load('model', 'outside.whole').__file__.endswith('outside/whole.py')
    for kind, missing in (
        ('model', 'model, or else model_fn or estimator'),
        ('dataset', 'prepare, read, parse, or else input_fn'),
    ):
        message = f'--{kind}=outside.lacking: outside.lacking must define {missing}; see docs/modules.md'
        assert refused(loader.load, kind, 'outside.lacking') == message
    with pytest.raises(ModuleNotFoundError, match='nosuch_dependency'):  # Its author needs the traceback.
        loader.load('model', 'outside.broken')
    for name in ('nosuch', 'no.such', 'estimator_trainer.nosuch', '../x', '.x', 'a..b', 'x y', 'models'):
        path = name if '.' in name else f'models.{name}'
        message = refused(loader.load, 'model', name)
        assert message.startswith(f'--model={name}: no module {path}; the models are: alexnet, ')
        assert message.endswith('; give your own by its dotted path, such as my_package.my_model')
    (tmp_path / 'alone.py').touch()
    (tmp_path / 'Own.CSV').touch()
    for name, fix in (
        ('Own.CSV', 'table --hparams=table_file=Own.CSV'),
        ('./outside', 'image_folder --hparams=image_dir=./outside'),
    ):
        assert f', did you mean --dataset={fix}? The datasets are: ' in refused(loader.load, 'dataset', name)
    for name, fix in (
        ('outside/whole.py', ', did you mean --model=outside.whole? The models are: '),
        ('./models/mlp.py', ', did you mean --model=mlp? The models are: '),
        ('mlp.py', ', did you mean --model=mlp? The models are: '),
        ('alone.py', '; move alone.py into a folder, such as own/alone.py, which is --model=own.alone'),
        ('alone', '; move alone.py into a folder, such as own/alone.py, which is --model=own.alone'),
    ):
        assert fix in refused(loader.load, 'model', name) and fix in refused(loader.check_name, 'model', name)


def test_what_a_module_must_not_have_is_named_and_a_dataset_parses_records_or_batches_of_them():
    for changes, message in (
        ({'FREE_HPARAMS': ['x']}, 'FREE_HPARAMS is now called INFERENCE_HPARAMS'),
        ({'INFERENCE_HPARAMS': 'x'}, 'INFERENCE_HPARAMS must be a tuple of names, such as ("drop_rate",)'),
        ({'OVERRIDABLE_HPARAMS': 'x'}, 'OVERRIDABLE_HPARAMS must be a tuple of names, such as ("drop_rate",)'),
        ({'INDEPENDENT_EXAMPLES': 'yes'}, 'INDEPENDENT_EXAMPLES must be True or False'),
        ({'get_params': lambda name: {}}, 'get_params() must be a function of ()'),
        ({'model': lambda features, labels: None}, 'model() must be a function of (features, labels, mode, params)'),
        ({'hooks': 3}, 'hooks() must be a function of (mode, params)'),
        ({'loss_steps': lambda params: {}}, 'loss_steps() needs variables(), which says what each loss is for'),
    ):
        assert refused(check, 'model', MODEL | changes) == f'--model=m: {message}'
    check('dataset', DATASET | {'parse': lambda mode, params, record: None})
    check('dataset', DATASET | {'parse_batch': lambda mode, params, records: None})
    assert refused(check, 'dataset', DATASET) == '--dataset=m: m must define parse; see docs/modules.md'
    half = DATASET | {'parse': lambda mode, params, record: None, 'from_raw': lambda params, raw: raw}
    message = 'raw_specs() and from_raw() belong together: define both, or neither'
    assert refused(check, 'dataset', half) == f'--dataset=m: {message}'


def test_modules_of_estimator_programs_have_one_function_that_makes_the_step_or_the_batches_and_none_that_is_ignored():
    def model_fn(features, mode, config):
        pass

    def input_fn(split, params):
        pass

    check('model', {'model_fn': model_fn})
    check('model', {'estimator': lambda config, params: None, 'model': types})  # It imports a program's model.py.
    check('dataset', {'input_fn': input_fn, 'prepare': DATASET['prepare']})
    for kind, functions, message in (
        ('model', MODEL | {'model_fn': model_fn}, 'm must define only one of model, model_fn; see docs/modules.md'),
        (
            'model',
            {'model_fn': model_fn, 'hooks': lambda mode, params: []},
            'hooks() would be ignored: model_fn() makes the training step and its metrics',
        ),
        (
            'model',
            {'model_fn': lambda features, labels, step: None},
            'model_fn() must be a function of features and any of labels, mode, params, config',
        ),
        ('model', {'estimator': lambda config: None}, 'estimator() must be a function of (config, params)'),
        ('dataset', DATASET | {'input_fn': input_fn}, 'm must define only one of input_fn, read; see docs/modules.md'),
        (
            'dataset',
            {'input_fn': input_fn, 'parse': lambda mode, params, record: None},
            'parse() would be ignored: input_fn() returns the batches',
        ),
    ):
        assert refused(check, kind, functions) == f'--{kind}=m: {message}'


def test_a_module_is_made_of_the_modules_that_it_has_or_has_functions_of():
    own = types.SimpleNamespace(model=mlp.model, other=alexnet, name='x', np=types)
    assert module_check.made_of('model', 'own.model', own) == ['own.model', 'alexnet', 'mlp']
    assert module_check.made_of('dataset', 'own.model', own) == ['own.model']

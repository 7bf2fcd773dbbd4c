"""Models and datasets are found by their names."""

import types

import pytest

from common.errors import UsageError
from common.plugins import loader


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module outside the repository, importable from the current directory."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        package = tmp_path / name
        package.mkdir()
        (package / 'plugin.py').write_text(text)
        return f'{name}.plugin'

    return write


def test_the_modules_of_the_directories_are_available():
    assert {'alexnet', 'polynomial'} <= set(loader.available('model'))
    assert {'mnist', 'polynomial'} <= set(loader.available('dataset'))


@pytest.mark.parametrize('kind, name', [(kind, name) for kind in ('model', 'dataset') for name in loader.available(kind)])
def test_every_module_keeps_the_contract_and_every_call_gives_a_dict_of_its_own(kind, name):
    module = loader.load(kind, name)
    assert isinstance(module.get_params(), dict) and module.get_params() is not module.get_params()


def test_a_dotted_path_is_any_importable_module(module):
    path = module('outside', 'def get_params(): return {}\ndef model(features, labels, mode, params): pass\n')
    assert loader.load('model', path).__file__.endswith('outside/plugin.py')


@pytest.mark.parametrize('name', ['nosuch', 'no.such', 'common.nosuch', '../x', '..x', '.x', 'a..b', 'x y', 'models'])
def test_an_unknown_module_lists_the_known_ones(name):
    with pytest.raises(UsageError) as error:
        loader.load('model', name)
    path = name if '.' in name else f'models.{name}'
    assert str(error.value).startswith(f'--model={name}: no module {path}; the models are: alexnet, ')
    assert str(error.value).endswith('; give your own by its dotted path, such as my_package.my_model')


def test_a_module_that_lacks_a_function_is_named_with_it(module):
    path = module('lacking', 'def get_params(): return {}\n')
    with pytest.raises(UsageError, match='lacking.plugin must define model'):
        loader.load('model', path)
    with pytest.raises(UsageError, match='lacking.plugin must define prepare, read, parse'):
        loader.load('dataset', path)


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'FREE_HPARAMS': ['x']}, 'FREE_HPARAMS is now called INFERENCE_HPARAMS'),
        ({'INFERENCE_HPARAMS': 'x'}, 'INFERENCE_HPARAMS must be a tuple of names, such as ("drop_rate",)'),
        ({'OVERRIDABLE_HPARAMS': 'x'}, 'OVERRIDABLE_HPARAMS must be a tuple of names, such as ("drop_rate",)'),
        ({'get_params': lambda name: {}}, 'get_params() must be a function of ()'),
        ({'model': lambda features, labels: None}, 'model() must be a function of (features, labels, mode, params)'),
        ({'hooks': 3}, 'hooks() must be a function of (mode, params)'),
    ],
)
def test_what_a_model_module_must_not_have_is_named(changes, message):
    module = types.SimpleNamespace(**{'get_params': dict, 'model': lambda features, labels, mode, params: None, **changes})
    with pytest.raises(UsageError) as error:
        loader.check_module('model', 'm', module)
    assert str(error.value) == f'--model=m: {message}'


def test_a_dataset_parses_records_or_batches_of_them():
    functions = {'get_params': dict, 'prepare': lambda data_dir, params: None, 'read': lambda split, data_dir, params: None}
    for changes in ({'parse': lambda mode, params, record: None}, {'parse_batch': lambda mode, params, records: None}):
        loader.check_module('dataset', 'd', types.SimpleNamespace(**functions, **changes))
    with pytest.raises(UsageError, match=r'^--dataset=d: d must define parse; see README.md$'):
        loader.check_module('dataset', 'd', types.SimpleNamespace(**functions))


def test_an_import_that_fails_inside_a_module_is_its_authors_to_see(module):
    with pytest.raises(ModuleNotFoundError, match='nosuch_dependency'):
        loader.load('model', module('broken', 'import nosuch_dependency\n'))

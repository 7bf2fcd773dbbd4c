"""Models and datasets are found by their names."""

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
def test_every_module_keeps_the_contract(kind, name):
    assert isinstance(loader.load(kind, name).get_params(), dict)


def test_every_call_of_get_params_gives_a_dict_of_its_own():
    for kind in ('model', 'dataset'):
        for name in loader.available(kind):
            module = loader.load(kind, name)
            assert module.get_params() is not module.get_params()


def test_a_dotted_path_is_any_importable_module(module):
    path = module('outside', 'def get_params(): return {}\ndef model(features, labels, mode, params): pass\n')
    assert loader.load('model', path).__file__.endswith('outside/plugin.py')


@pytest.mark.parametrize('name', ['nosuch', 'no.such', 'common.nosuch', '../x', '..x', '.x', 'a..b', 'x y', 'models'])
def test_an_unknown_module_lists_the_known_ones(name):
    with pytest.raises(UsageError) as error:
        loader.load('model', name)
    assert f'--model={name}: ' in str(error.value) and 'alexnet, ' in str(error.value)


def test_a_module_that_lacks_a_function_is_named_with_it(module):
    path = module('lacking', 'def get_params(): return {}\n')
    with pytest.raises(UsageError, match='lacking.plugin must define model'):
        loader.load('model', path)
    with pytest.raises(UsageError, match='lacking.plugin must define prepare, read, parse'):
        loader.load('dataset', path)


def test_a_renamed_constant_of_a_module_is_named_with_its_new_name(module):
    text = 'FREE_HPARAMS = ["x"]\ndef get_params(): return {}\ndef model(features, labels, mode, params): pass\n'
    with pytest.raises(UsageError, match='FREE_HPARAMS is now called INFERENCE_HPARAMS'):
        loader.load('model', module('renaming', text))


def test_an_import_that_fails_inside_a_module_is_its_authors_to_see(module):
    with pytest.raises(ModuleNotFoundError, match='nosuch_dependency'):
        loader.load('model', module('broken', 'import nosuch_dependency\n'))

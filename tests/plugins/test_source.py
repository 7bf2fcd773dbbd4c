"""What is read from the source of a module, without importing it, is what the module gives when it is imported."""

import importlib

import pytest

from common.plugins import loader, source


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Adds a file to models/: own_module(text) -> name. It cannot be imported."""
    package = importlib.import_module('models')
    monkeypatch.setattr(package, '__path__', [*package.__path__, str(tmp_path)])

    def call(text):
        importlib.invalidate_caches()
        (tmp_path / 'family').mkdir()
        (tmp_path / 'family' / '__init__.py').write_text('raise AssertionError("it is imported")\n')
        (tmp_path / 'family' / 'member.py').write_text("def get_params():\n    return {'units': 8}\n")
        (tmp_path / 'unimportable.py').write_text(f'{text}\nraise AssertionError("it is imported")\n')
        return 'unimportable'

    return call


@pytest.mark.parametrize(
    'kind, name', [(kind, name) for kind in ('model', 'dataset') for name in loader.available(kind) if name != 'tfds']
)
def test_all_modules_of_this_project_can_be_read(kind, name):
    module = loader.load(kind, name)
    found = source.read(kind, name)
    assert (found.doc, found.params) == (module.__doc__.strip(), module.get_params())
    assert list(found.params) == list(module.get_params())


def test_values_of_all_kinds_are_read(own_module):
    text = """
from datasets import mnist as digits

def get_params():
    '''Returns the hyper-parameters.'''
    return {'rate': -1e-3, **digits.get_params(), 'image_size': 5, 'sizes': [1, 2], 'names': ['a', "b's"], 'is_on': True}
"""
    found = source.read('model', own_module(text))
    assert found.params == {
        'rate': -0.001,
        'image_size': 5,
        'num_channels': 1,
        'num_classes': 10,
        'shuffle_buffer': 60000,
        'sizes': [1, 2],
        'names': ['a', "b's"],
        'is_on': True,
    }
    assert [function.splitlines()[0].partition('(')[0] for function in found.functions] == ['def get_params'] * 2


@pytest.mark.parametrize(
    'text',
    [
        "def get_params():\n    return {'units': 2 * 4}",
        'def get_params():\n    return dict(units=8)',
        "def get_params():\n    units = 8\n    return {'units': units}",
        "def get_params():\n    print()\n    return {'units': 8}",
        "@other\ndef get_params():\n    return {'units': 8}",
        "def get_params():\n    return {'units': 8}\nget_params = other(get_params)",
        "def get_params():\n    return {'units': 8}\nif other:\n    def get_params():\n        return {'units': 9}",
        "if other:\n    def get_params():\n        return {'units': 9}",
        "async def get_params():\n    return {'units': 8}",
        'from models.alexnet import get_params',
        'from models.alexnet import get_params\ndef get_params():\n    return {}',
        'from other import tokens\ndef get_params():\n    return {**tokens.get_params()}',
        "def get_params():\n    return {'units': None}",
        "def get_params():\n    return {'units': [1, 2.0]}",
        "def get_params():\n    return {'units': {'a': 1}}",
        'def get_params():\n    return {1: 2}',
        "def get_params(units):\n    return {'units': 8}",
        "def get_params():\n    return {'units': 8}\nfrom other import *",
        "def get_params():\n    return {'units': 8}\ndel get_params",
        'from .common.formats import tokens\ndef get_params():\n    return {**tokens.get_params()}',
        'from common.formats import tokens\ntokens = other()\ndef get_params():\n    return {**tokens.get_params()}',
        'from common.formats.tokens import Defaults\ndef get_params():\n    return {**Defaults.get_params()}',
        'from common.none_such import tokens\ndef get_params():\n    return {**tokens.get_params()}',
        'from models import unimportable\ndef get_params():\n    return {**unimportable.get_params()}',
        'from models.family import member\ndef get_params():\n    return {**member.get_params()}',
        'def get_params():\n    return {',
        '',
    ],
)
def test_what_only_an_import_can_tell_is_not_guessed(own_module, text):
    assert source.read('model', own_module(text)) is None


def test_modules_with_dotted_paths_are_left_to_the_import():
    assert source.read('model', 'models.alexnet') is None

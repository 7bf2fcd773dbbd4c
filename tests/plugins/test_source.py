"""What is read from the source of a module, without importing it, is what the module gives when it is imported."""

import importlib

import pytest

from common.plugins import loader, source

GOOD = "def get_params():\n    return {'units': 8}\n"
UNCLEAR = [
    'def get_params(): return dict(units=8)',
    "def get_params(): return {'units': 2 * 4}",
    "def get_params():\n    units = 8\n    return {'units': units}",
    "def get_params():\n    print()\n    return {'units': 8}",
    f'@other\n{GOOD}',
    f'{GOOD}get_params = other(get_params)',
    f'{GOOD}if other:\n    def get_params(): pass',
    "if other:\n    def get_params(): return {'units': 9}",
    "async def get_params(): return {'units': 8}",
    'from models.alexnet import get_params',
    f'from models.alexnet import get_params\n{GOOD}',
    'from other import tokens\ndef get_params(): return {**tokens.get_params()}',
    "def get_params(): return {'units': None}",
    "def get_params(): return {'units': [1, 2.0]}",
    "def get_params(): return {'units': {'a': 1}}",
    'def get_params(): return {1: 2}',
    "def get_params(units): return {'units': 8}",
    f'{GOOD}from other import *',
    f'{GOOD}del get_params',
    'from .common.formats import tokens\ndef get_params(): return {**tokens.get_params()}',
    'from common.formats import tokens\ntokens = other()\ndef get_params(): return {**tokens.get_params()}',
    'from common.formats.tokens import Defaults\ndef get_params(): return {**Defaults.get_params()}',
    'from common.none_such import tokens\ndef get_params(): return {**tokens.get_params()}',
    'from models import unimportable\ndef get_params(): return {**unimportable.get_params()}',
    'from models.family import member\ndef get_params(): return {**member.get_params()}',
    'def get_params(): return {',
    '',
]


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Adds a file to models/ that cannot be imported, and a package: read(text) -> what is read of the file."""
    package = importlib.import_module('models')
    monkeypatch.setattr(package, '__path__', [*package.__path__, str(tmp_path)])

    def call(text):
        (tmp_path / 'family').mkdir()
        (tmp_path / 'family' / '__init__.py').write_text('raise AssertionError("it is imported")\n')
        (tmp_path / 'family' / 'member.py').write_text(GOOD)
        (tmp_path / 'unimportable.py').write_text(f'{text}\nraise AssertionError("it is imported")\n')
        importlib.invalidate_caches()
        return source.read('model', 'unimportable')

    return call


@pytest.mark.parametrize('kind', ['model', 'dataset'])
def test_all_modules_of_this_project_can_be_read(kind):
    for name in loader.available(kind):
        module, found = loader.load(kind, name), source.read(kind, name)
        if name != 'tfds':
            assert (found.doc, found.params) == (module.__doc__.strip(), module.get_params())
            assert list(found.params) == list(module.get_params())
    assert source.read(kind, f'{kind}s.polynomial') is None  # A dotted path is left to the import.


def test_values_of_all_kinds_are_read(read):
    found = read("""
from datasets import mnist as digits

def get_params():
    '''Returns the hyper-parameters.'''
    return {'rate': -1e-3, **digits.get_params(), 'image_size': 5, 'sizes': [1, 2], 'names': ['a', "b's"], 'is_on': True}
""")
    of_mnist = {'image_size': 5, 'num_channels': 1, 'num_classes': 10, 'shuffle_buffer': 60000}
    assert found.params == {'rate': -0.001, **of_mnist, 'sizes': [1, 2], 'names': ['a', "b's"], 'is_on': True}
    assert [function.splitlines()[0].partition('(')[0] for function in found.functions] == ['def get_params'] * 2


@pytest.mark.parametrize('text', UNCLEAR)
def test_what_only_an_import_can_tell_is_not_guessed(read, text):
    assert read(text) is None

"""--list, and --help for a model or a dataset: read from the source of a module, or imported if necessary."""

import pytest

from estimator_trainer import models
from estimator_trainer.common.commands import trainer
from estimator_trainer.common.plugins import loader, module_help, module_source
from tests.shared import refused

OWN = """
from estimator_trainer.common.own_data.texts import tokens

def get_params():
    return {
        # Of the hidden layers,
        # from the first on.
        'units': [8, 4],  # Each a layer.
        'name': 'it''s',
        'text': 'a # b',
        **tokens.get_params(),
        'rate': 0.5,  # A share.
        'long_names': ['of', 'many', 'letters'],  # A comment that is so long that it does not fit beside the default value.
    }

def model(features, labels, mode, params):
    pass
"""

IMPORTED = 'raise AssertionError("it is imported")\n'
GOOD = "def get_params():\n    return {'units': 8}\n"
UNCLEAR = [
    'def get_params(): return dict(units=8)',
    "def get_params(): return {'units': 2 * 4}",
    "def get_params():\n    units = 8\n    return {'units': units}",
    f'@other\n{GOOD}',
    f'{GOOD}get_params = other(get_params)',
    f'{GOOD}if other:\n    def get_params(): pass',
    "if other:\n    def get_params(): return {'units': 9}",
    "async def get_params(): return {'units': 8}",
    f'from estimator_trainer.models.alexnet import get_params\n{GOOD}',
    'from other import tokens\ndef get_params(): return {**tokens.get_params()}',
    "def get_params(): return {'units': None}",
    "def get_params(): return {'units': [1, 2.0]}",
    'def get_params(): return {1: 2}',
    "def get_params(units): return {'units': 8}",
    f'{GOOD}from other import *',
    f'{GOOD}del get_params',
    'from .common.formats import tokens\ndef get_params(): return {**tokens.get_params()}',
    'from estimator_trainer.common.own_data.texts import tokens\ntokens = 1\ndef get_params(): return {**tokens.get_params()}',
    'from estimator_trainer.common.own_data.texts.tokens import Defaults\ndef get_params(): return {**Defaults.get_params()}',
    'from estimator_trainer.models import unimportable\ndef get_params(): return {**unimportable.get_params()}',
    'from estimator_trainer.models.family import member\ndef get_params(): return {**member.get_params()}',
    'def get_params(): return {',
    '',
]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Adds a file to models/: own(name, text) -> name."""

    def write(name, text):
        path = tmp_path / f'{name}.py'
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return name

    monkeypatch.setattr('estimator_trainer.models.__path__', [*models.__path__, str(tmp_path)])
    return write


def shown(capsys, *flags):
    capsys.readouterr()
    assert trainer.main(['trainer.py', *flags]) == 0
    return capsys.readouterr().out


def test_list_shows_each_module_with_its_first_line_and_the_sets_and_help_their_hyper_parameters(own, capsys):
    own('broken', 'def model(')
    lines = shown(capsys, '--list').splitlines()
    datasets = lines.index('--dataset=')
    assert "  broken           cannot be used: '(' was never closed (broken.py, line 1)" in lines[:datasets]
    assert '  polynomial       Fits y = w_0 x^2 + w_1 x + w_2.' in lines[:datasets]
    assert any(line.startswith('  mnist            MNIST: 60,000') for line in lines[datasets:])
    assert '  alexnet_mnist' in lines[lines.index('--hparams_set=') :]
    text = shown(capsys, '--model=alexnet', '--dataset=tfrecord', '--help')
    assert text.startswith('--model=alexnet\n\nA small AlexNet: convolutions')
    lines = text.splitlines()
    assert '  filters=[32,64,128]           Each is a 3x3 convolution and 2x2 max-pooling.' in lines
    assert lines.index('--dataset=tfrecord') < lines.index('  tokens=words                  Or subwords, or bytes.')
    framework = lines.index("The framework's hyper-parameters:")
    assert '  momentum=0.9                  momentum: decay of the accumulated gradients.' in lines[framework:]


@pytest.mark.parametrize('package', ['', 'estimator_trainer.models.'])  # Read, or imported.
def test_comments_are_found_above_and_beside_an_item_and_in_what_is_included(own, package):
    text = module_help.describe_module('model', package + own('helped', OWN))
    for lines in (
        '  units=[8,4]                   Of the hidden layers, from the first on. Each a layer.\n  name=its\n  text=a # b\n',
        '  rate=0.5                      A share.\n  long_names=[of,many,letters]\n',
        f'\n{"":32}A comment that is so long that it does not fit beside the default\n{"":32}value.',
        '  max_length=400                In tokens; longer texts are cut off.\n',
    ):
        assert lines in text


def test_hyper_parameters_that_are_computed_have_no_comments_and_wrong_ones_and_unknown_modules_are_refused(own):
    for name, get_params, shown in (
        ('computed', 'def get_params(): return dict(units=3)  # A comment.', '  units=3'),
        ('builtin', 'get_params = dict', '  none'),
    ):
        name = own(name, f'{get_params}\ndef model(features, labels, mode, params): pass\n')
        text = module_help.describe_module('model', f'estimator_trainer.models.{name}')
        assert text.endswith(f'Hyper-parameters:\n\n{shown}')
    name = own('wrong', "def get_params():\n    return {'items': 3}\n")
    message = refused(module_help.describe_module, 'model', name)
    assert message.startswith("--model=wrong: get_params() gives 'items'=3: the name of a hyper-parameter must")
    for kind in ('model', 'dataset'):
        message = refused(module_help.describe_module, kind, 'nope')
        assert message.startswith(f'--{kind}=nope: no module {kind}s.nope; the {kind}s are: ')


def read(own, text):
    """Returns the Source of a module of models/ that cannot be imported, beside another such package."""
    own('family/__init__', IMPORTED)
    own('family/member', GOOD)
    return module_source.read('model', own('unimportable', f'{text}\n{IMPORTED}'))


@pytest.mark.parametrize('kind', ['model', 'dataset'])
def test_all_modules_of_this_project_can_be_read(kind):
    for name in loader.available(kind):
        module, found = loader.load(kind, name), module_source.read(kind, name)
        if name != 'tfds':
            assert (found.doc, found.params) == (module.__doc__.strip(), module.get_params())
            assert list(found.params) == list(module.get_params())
    assert module_source.read(kind, f'estimator_trainer.{kind}s.polynomial') is None  # A dotted path is left to the import.


def test_values_of_all_kinds_are_read(own):
    text = """
from estimator_trainer.datasets import mnist as digits

def get_params():
    '''Returns the hyper-parameters.'''
    return {'rate': -1e-3, **digits.get_params(), 'image_size': 5, 'sizes': [1, 2], 'names': ['a', "b's"], 'is_on': True}
"""
    found = read(own, text)
    of_mnist = {'image_size': 5, 'num_channels': 1, 'num_classes': 10, 'shuffle_buffer': 60000}
    assert found.params == {'rate': -0.001, **of_mnist, 'sizes': [1, 2], 'names': ['a', "b's"], 'is_on': True}
    assert [function.splitlines()[0].partition('(')[0] for function in found.functions] == ['def get_params'] * 2


@pytest.mark.parametrize('text', UNCLEAR)
def test_what_only_an_import_can_tell_is_not_guessed(own, text):
    assert read(own, text) is None

"""--list, and --help for a model or a dataset."""

import pytest

from common.plugins import module_help
import models
from tests.shared import refused
import trainer

OWN = """
from common.formats import tokens

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


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Adds a file to models/: own(name, text) -> name."""

    def write(name, text):
        (tmp_path / f'{name}.py').write_text(text)
        return name

    monkeypatch.setattr('models.__path__', [*models.__path__, str(tmp_path)])
    return write


def shown(capsys, *flags):
    capsys.readouterr()
    assert trainer.main(['trainer.py', *flags]) == 0
    return capsys.readouterr().out


def test_list_shows_each_module_with_its_first_line_and_the_sets(own, capsys):
    own('broken', 'def model(')
    lines = shown(capsys, '--list').splitlines()
    datasets = lines.index('--dataset=')
    assert "  broken           cannot be used: '(' was never closed (broken.py, line 1)" in lines[:datasets]
    assert '  polynomial       Fits y = w_0 x^2 + w_1 x + w_2.' in lines[:datasets]
    assert any(line.startswith('  mnist            MNIST: 60,000') for line in lines[datasets:])
    assert '  alexnet_mnist' in lines[lines.index('--hparams_set=') :]


def test_help_of_modules_shows_their_hyper_parameters_with_defaults_and_comments(capsys):
    text = shown(capsys, '--model=alexnet', '--dataset=tfrecord', '--help')
    assert text.startswith('--model=alexnet\n\nA small AlexNet: convolutions')
    lines = text.splitlines()
    assert '  filters=[32,64,128]           Each is a 3x3 convolution and 2x2 max-pooling.' in lines
    assert lines.index('--dataset=tfrecord') < lines.index('  tokens=words                  Or bytes.')


@pytest.mark.parametrize('package', ['', 'models.'])  # Read, or imported.
def test_comments_are_found_above_and_beside_an_item_and_in_what_is_included(own, package):
    text = module_help.describe_module('model', package + own('helped', OWN))
    for lines in (
        '  units=[8,4]                   Of the hidden layers, from the first on. Each a layer.\n  name=its\n  text=a # b\n',
        '  rate=0.5                      A share.\n  long_names=[of,many,letters]\n',
        f'\n{"":32}A comment that is so long that it does not fit beside the default\n{"":32}value.',
        '  max_length=400                In tokens; longer texts are cut off.\n',
    ):
        assert lines in text


@pytest.mark.parametrize(
    'name, get_params, shown',
    [
        ('computed', 'def get_params(): return dict(units=3)  # A comment.', '  units=3'),
        ('builtin', 'get_params = dict', '  none'),
    ],
)
def test_hyper_parameters_that_are_computed_are_shown_without_comments(own, name, get_params, shown):
    name = own(name, f'{get_params}\ndef model(features, labels, mode, params): pass\n')
    assert module_help.describe_module('model', f'models.{name}').endswith(f'Hyper-parameters:\n\n{shown}')


def test_hyper_parameters_that_cannot_be_and_modules_that_are_not_there_are_refused(own):
    name = own('wrong', "def get_params():\n    return {'items': 3}\n")
    message = refused(module_help.describe_module, 'model', name)
    assert message.startswith("--model=wrong: get_params() gives 'items'=3: the name of a hyper-parameter must")
    for kind in ('model', 'dataset'):
        message = refused(module_help.describe_module, kind, 'nope')
        assert message.startswith(f'--{kind}=nope: no module {kind}s.nope; the {kind}s are: ')

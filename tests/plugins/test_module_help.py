"""--list, and --help for a model or a dataset."""

import sys

import pytest

from common.errors import UsageError
from common.plugins import module_help, module_list
import models
import trainer

MODULE = '''"""A model of a user.

Second paragraph.
"""

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
    return {}, None
'''


def shown(capsys, *flags):
    capsys.readouterr()
    assert trainer.main(['trainer.py', *flags]) == 0
    return capsys.readouterr().out


def test_list_shows_each_module_with_its_first_line_and_the_sets(capsys):
    lines = shown(capsys, '--list').splitlines()
    assert '  polynomial       Fits y = w_0 x^2 + w_1 x + w_2.' in lines[: lines.index('--dataset=')]
    assert any(line.startswith('  mnist            MNIST: 60,000') for line in lines[lines.index('--dataset=') :])
    assert '  alexnet_mnist' in lines[lines.index('--hparams_set=') :]


def test_help_of_modules_shows_their_hyper_parameters_with_defaults_and_comments(capsys):
    text = shown(capsys, '--model=alexnet', '--dataset=tfrecord', '--help')
    assert text.startswith('--model=alexnet\n\nA small AlexNet: convolutions')
    lines = text.splitlines()
    assert '  filters=[32,64,128]           Each is a 3x3 convolution and 2x2 max-pooling.' in lines
    assert '  batch_norm=false              Its moving averages need some 500 steps before evaluations are good.' in lines
    assert lines.index('--dataset=tfrecord') < lines.index('  tokens=words                  Or bytes.')


def test_comments_are_found_above_and_beside_an_item_and_in_what_is_included(tmp_path, monkeypatch):
    (tmp_path / 'helped').mkdir()
    (tmp_path / 'helped' / '__init__.py').touch()
    (tmp_path / 'helped' / 'own.py').write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    lines = module_help.describe_module('model', 'helped.own').splitlines()
    assert (
        lines[lines.index('  units=[8,4]                   Of the hidden layers, from the first on. Each a layer.') + 1]
        == '  name=its'
    )
    assert '  text=a # b' in lines and '  rate=0.5                      A share.' in lines
    below = lines.index('  long_names=[of,many,letters]') + 1
    assert lines[below : below + 2] == [
        f'{"":32}A comment that is so long that it does not fit beside the default',
        f'{"":32}value.',
    ]
    assert '  max_length=400                In tokens; longer texts are cut off.' in lines
    sys.modules.pop('helped.own')


def test_hyper_parameters_that_are_computed_are_shown_without_comments(tmp_path, monkeypatch):
    (tmp_path / 'computed').mkdir()
    (tmp_path / 'computed' / 'own.py').write_text(
        'def get_params():\n    return dict(units=3)  # A comment.\n\n'
        'def model(features, labels, mode, params):\n    return {}, None\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert '  units=3' in module_help.describe_module('model', 'computed.own').splitlines()


def test_a_module_that_cannot_be_understood_does_not_hide_the_others(monkeypatch, tmp_path):
    (tmp_path / 'broken.py').write_text('def model(')
    monkeypatch.setattr('models.__path__', [*models.__path__, str(tmp_path)])
    lines = module_list.list_modules().splitlines()
    assert "  broken           cannot be used: '(' was never closed (broken.py, line 1)" in lines
    assert '  polynomial       Fits y = w_0 x^2 + w_1 x + w_2.' in lines


def test_get_params_that_is_no_plain_function_is_shown_without_comments(monkeypatch):
    monkeypatch.setattr('models.polynomial.get_params', dict)
    assert module_help.describe_module('model', 'models.polynomial').endswith('Hyper-parameters:\n\n  none')


def test_hyper_parameters_that_cannot_be_are_refused(monkeypatch, tmp_path):
    (tmp_path / 'wrong.py').write_text("def get_params():\n    return {'items': 3}\n")
    monkeypatch.setattr('models.__path__', [*models.__path__, str(tmp_path)])
    with pytest.raises(UsageError, match=r'--model=wrong: get_params\(\) gives .items.=3: the name of a hyper-parameter must'):
        module_help.describe_module('model', 'wrong')


@pytest.mark.parametrize('kind', ['model', 'dataset'])
def test_help_for_a_module_that_is_not_there_names_those_that_are(capsys, kind):
    assert trainer.main(['trainer.py', f'--{kind}=nope', '--help']) == 2
    assert f'--{kind}=nope: no module {kind}s.nope; the {kind}s are: ' in capsys.readouterr().err

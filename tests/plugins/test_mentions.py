"""Hyper-parameters that the sources of a program do not mention."""

import importlib
import sys
import types

import pytest

from estimator_trainer.common.plugins.mentions import unmentioned
from estimator_trainer.datasets import table
from estimator_trainer.models import alexnet
from tests import own_module

SOURCE = """
import mentions_other

def get_params():
    return {'lost_rate': 1, 'read': 2, 'text': 3, 'passed': 4, 'elsewhere': 5, 'part_rate': 6}

def model(features, labels, mode, params, passed=0):
    return params.read + params['text'] + mentions_other.build(params), 'not a whole part_rates'
"""
NAMES = ('lost_rate', 'read', 'text', 'passed', 'elsewhere', 'part_rate', 'batch_size')  # The last is the framework's.


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / 'mentions_model.py').write_text(SOURCE)
    (tmp_path / 'mentions_other.py').write_text('def build(params):\n    return params.elsewhere\n')
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module('mentions_model')
    for name in ('mentions_model', 'mentions_other'):
        del sys.modules[name]


def test_what_neither_a_module_nor_one_that_it_imports_mentions_cannot_be_read(module):
    assert unmentioned(NAMES, [module, alexnet]) == {'lost_rate', 'part_rate'}
    assert unmentioned(NAMES, [types.SimpleNamespace(__module__='mentions_model'), alexnet]) == {'lost_rate', 'part_rate'}


def test_nothing_is_known_without_a_source(module):
    for other in (types.SimpleNamespace(), sys, types.SimpleNamespace(__module__='builtins')):
        assert unmentioned(NAMES, [module, other]) == set()
    with open(module.__file__, 'a') as file:
        file.write('(')
    assert unmentioned(NAMES, [module]) == set()


def test_the_modules_of_this_project_mention_all_of_theirs():
    assert unmentioned([*alexnet.get_params(), *table.get_params()], [alexnet, table]) == set()


def test_a_training_refuses_what_nothing_can_read():
    source = "def get_params():\n    return {'batch_size': 4, 'eval_batch_size': 4, 'unread_rate': 0.5}\n"
    code, err, _ = own_module.run(source, '--hparams=unread_rate=0.1')
    assert code == 2 and '--hparams: unread_rate=0.1 has no effect, as neither --model=own_' in err
    used = source + '\n\ndef on_end(params):\n    return params.unread_rate\n'
    code, err, _ = own_module.run(used, '--hparams=unread_rate=0.1')
    assert code == 0

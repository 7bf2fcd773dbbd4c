"""What no source file may do."""

import ast
import pathlib

import pytest

from tests.conftest import ROOT

SOURCES = sorted(path for directory in ('.', 'common', 'common/ops', 'datasets', 'hparams', 'models')
                 for path in pathlib.Path(ROOT, directory).glob('*.py'))
UNSAFE_CALLS = {'eval', 'exec', 'compile', '__import__'}
UNSAFE_MODULES = {'pickle', 'cPickle', 'dill', 'joblib', 'marshal', 'shelve', 'yaml'}


def unsafe(tree):
    """Yields what would run what is in data, or in a set of hyper-parameters, as code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
            yield node.func.id
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition('.')[0] in UNSAFE_MODULES)
        if isinstance(node, ast.ImportFrom) and (node.module or '').partition('.')[0] in UNSAFE_MODULES:
            yield node.module
        if isinstance(node, ast.keyword) and node.arg == 'allow_pickle':
            yield node.arg


@pytest.mark.parametrize('path', SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_that_is_read_can_be_run(path):
    assert list(unsafe(ast.parse(path.read_text(encoding='utf-8')))) == []


def test_that_would_be_noticed():
    code = 'import pickle\nfrom yaml import load\neval(x)\nnumpy.load(x, allow_pickle=True)\nre.compile(x)'
    assert sorted(unsafe(ast.parse(code))) == ['allow_pickle', 'eval', 'pickle', 'yaml']

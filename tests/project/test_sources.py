"""What no source file may do: run data as code, or import against the order of the wings."""

import ast
import pathlib
import re

import pytest

from tests.shared import ROOT

SOURCES = sorted(
    path
    for pattern in ('*.py', 'common/**/*.py', 'datasets/*.py', 'hparams/*.py', 'models/*.py', 'tf_estimator/*.py')
    for path in pathlib.Path(ROOT).glob(pattern)
)
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


def test_code_that_runs_data_is_noticed():
    code = 'import pickle\nfrom yaml import load\neval(x)\nnumpy.load(x, allow_pickle=True)\nre.compile(x)'
    assert sorted(unsafe(ast.parse(code))) == ['allow_pickle', 'eval', 'pickle', 'yaml']


COMMON = pathlib.Path(ROOT, 'common')
WINGS = {
    path.parent.name: set(
        re.findall(r'\w+', re.search(r'May import: (.*)\.$', ast.get_docstring(ast.parse(path.read_text())))[1])
    )
    for path in sorted(COMMON.glob('*/__init__.py'))
}
LAYERS = ('trainer', 'sweep', 'models', 'datasets')


def imported(tree):
    """Yields the project's parts that a file imports: names of wings, 'common' for the modules beside them, 'hparams' ..."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f'{node.module}.{alias.name}' for alias in node.names]
        for first, *rest in (name.split('.') for name in names):
            if first == 'common':
                yield rest[0] if rest and rest[0] in WINGS else 'common'
            else:
                yield first


@pytest.mark.parametrize('wing', WINGS)
def test_a_wing_imports_only_what_its_first_line_allows(wing):
    beyond = {}
    for path in (COMMON / wing).glob('*.py'):
        parts = set(imported(ast.parse(path.read_text(encoding='utf-8'))))
        beyond[path.name] = (parts & {*WINGS, *LAYERS}) - WINGS[wing] - {wing}
    assert len(beyond) > 2 and not any(beyond.values()), beyond


@pytest.mark.parametrize(
    'path', [*COMMON.glob('*.py'), *pathlib.Path(ROOT, 'hparams').glob('*.py')], ids=lambda path: path.stem
)
def test_what_every_wing_may_import_imports_no_wing(path):
    assert not set(imported(ast.parse(path.read_text(encoding='utf-8')))) & {*WINGS, *LAYERS}


def test_tf_estimator_stands_alone():
    for path in pathlib.Path(ROOT, 'tf_estimator').glob('*.py'):
        assert not set(imported(ast.parse(path.read_text(encoding='utf-8')))) & {*WINGS, *LAYERS, 'common', 'hparams'}


def test_the_wings_have_an_order():
    left = {wing: allowed & {*WINGS} for wing, allowed in WINGS.items()}
    while left:
        lowest = {wing for wing, allowed in left.items() if not allowed & {*left}}
        assert lowest, f'these import each other in a circle: {left}'
        left = {wing: allowed for wing, allowed in left.items() if wing not in lowest}

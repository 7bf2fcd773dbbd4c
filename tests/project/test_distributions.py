"""The two distributions together install every package, and agree on their requirements."""

import pathlib
import shlex
import subprocess

import tf_estimator
from tf_estimator.requirements import CURE

from packaging.requirements import Requirement
import pytest
import setuptools

from tests.shared import ROOT

tomllib = pytest.importorskip('tomllib', reason='Python 3.10 has no tomllib')
NOT_INSTALLED = {'.ci', 'benchmarks', 'sweep.py', 'tests', 'tools', 'trainer.py'}


@pytest.fixture
def alone():
    """The configuration of tf_estimator."""
    return tomllib.loads(pathlib.Path(ROOT, 'tf_estimator', 'pyproject.toml').read_text(encoding='utf-8'))


@pytest.fixture
def trainer(monkeypatch):
    """The trainer's distribution, as configured by setuptools."""
    monkeypatch.chdir(ROOT)
    distribution = setuptools.Distribution({'script_name': 'setup.py'})
    distribution.parse_config_files()
    return distribution


def test_no_package_is_forgotten_or_in_both(alone, trainer):
    there = subprocess.run(['git', 'ls-files', '*.py'], capture_output=True, text=True).stdout.split()
    if not there:
        pytest.skip('this is no checkout of git')
    packages = {str(pathlib.Path(path).parent).replace('/', '.') for path in there if path.startswith('tf_estimator/')}
    assert alone['tool']['setuptools']['packages'] == sorted(packages)
    build = trainer.get_command_obj('build_py')
    build.ensure_finalized()
    installed = [*map(pathlib.Path, build.get_source_files()), *pathlib.Path('tf_estimator').glob('**/*.py')]
    wanted = [path for path in map(pathlib.Path, there) if path.parts[0] not in NOT_INSTALLED]
    assert sorted(installed) == sorted(wanted)


def test_they_need_the_same_and_what_errors_name(alone, trainer):
    needs = {need.name: need for need in map(Requirement, trainer.install_requires)}
    needs_alone = {need.name: need for need in map(Requirement, alone['project']['dependencies'])}
    assert needs['estimator-restored'].specifier.contains(tf_estimator.__version__)
    assert needs.keys() & needs_alone.keys() == {'tensorflow', 'numpy'}
    assert needs['tensorflow'] == needs_alone['tensorflow']
    named = {*map(Requirement, shlex.split(CURE.partition('pip install ')[2]))}
    assert named == {*needs_alone.values()} - {needs_alone['numpy']}
    assert alone['project']['requires-python'] == trainer.python_requires
    assert pathlib.Path('tf_estimator', 'LICENSE').read_bytes() == pathlib.Path('LICENSE').read_bytes()

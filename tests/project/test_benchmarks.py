"""The benchmarks are in step with the package."""

import glob
import importlib
import os

import pytest

from tests.shared import ROOT


@pytest.mark.parametrize('name', [os.path.basename(path)[:-3] for path in glob.glob(f'{ROOT}/benchmarks/*.py')])
def test_every_benchmark_finds_what_it_imports(name):
    importlib.import_module(f'benchmarks.{name}')

"""The package's import name, next to folders and libraries with the names of its folders."""

import os
import subprocess
import sys

import pytest

import estimator_trainer
from estimator_trainer.common.former_names import FormerNameError
from tests.own_module import GOOD, run
from tests.shared import ROOT

DRY_RUN = ('--model=own.module', '--dataset=own.module', '--schedule=dry_run')


@pytest.mark.parametrize(
    'old, new',
    [
        ('from common.ops.dropout import dropout', 'common.ops.dropout is now estimator_trainer.common.ops.layers'),
        ('from common.ops import shape', 'common.ops.shape is now estimator_trainer.common.ops.shapes'),
        ('import common.errors', 'common.errors is now estimator_trainer.common.errors'),
        ('from common.runs import api', 'common.runs.api is now estimator_trainer'),
        ('from models import alexnet', 'models.alexnet is now estimator_trainer.models.alexnet'),
        ('from hparams.build import HParams', 'hparams.build is now estimator_trainer.hparams.build'),
    ],
)
def test_a_module_that_imports_a_former_name_gets_the_present_one_in_a_line(old, new):
    code, err, path = run(f'{old}\n')
    name = os.path.basename(os.path.dirname(path))
    assert (code, err) == (2, f'trainer.py: --model={name}.module: {new}\n')


def test_a_program_that_imports_a_former_name_gets_no_second_copy_of_the_code():
    with pytest.raises(FormerNameError, match='^datasets.mnist is now estimator_trainer.datasets.mnist$'):
        from datasets import mnist  # noqa: F401
    assert not {'common.errors', 'datasets.mnist'} & {*sys.modules}


@pytest.mark.parametrize('program', [[f'{ROOT}/trainer.py'], [f'{ROOT}/estimator_trainer/__main__.py']])
def test_folders_and_libraries_of_the_same_names_are_found_by_a_users_module(tmp_path, program):
    for path in ('here/common/mine.py', 'here/models/__init__.py', 'library/datasets/__init__.py'):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text('VALUE = __name__')
    module = tmp_path / 'here' / 'own' / 'module.py'
    module.parent.mkdir()
    names = 'from common import mine\nimport datasets, models\nprint(mine.VALUE, datasets.VALUE, models.VALUE)\n'
    module.write_text(names + GOOD)
    command, env = [sys.executable, *program, *DRY_RUN], {**os.environ, 'PYTHONPATH': f'{tmp_path}/library'}
    process = subprocess.run(command, cwd=tmp_path / 'here', env=env, capture_output=True, text=True)
    assert process.returncode == 0 and process.stdout.startswith('common.mine datasets models\n'), process.stderr


def test_without_its_dependencies_the_trainer_names_the_command_that_installs_them(tmp_path):
    process = subprocess.run([sys.executable, '-S', f'{ROOT}/trainer.py'], cwd=tmp_path, capture_output=True, text=True)
    line = f'trainer.py: absl is not installed: pip install -e {ROOT}/tf_estimator -e {ROOT}\n'
    assert (process.returncode, process.stdout, process.stderr) == (1, '', line)


def test_the_names_for_programs_are_those_of_their_modules():
    from estimator_trainer.common.commands import api
    from estimator_trainer.common.records import records

    assert estimator_trainer.train is api.train and estimator_trainer.records is records
    assert all(getattr(estimator_trainer, name).__doc__ for name in estimator_trainer.__all__)
    with pytest.raises(AttributeError, match='has no attribute nothing'):
        estimator_trainer.nothing  # noqa: B018

"""The package has one import name, beside folders and libraries with the names of its folders."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

import estimator_trainer
from tests.own_module import GOOD, run
from tests.shared import ROOT

DRY_RUN = ('--model=own.module', '--dataset=own.module', '--schedule=dry_run')

PROBE = """
import sys

def get_params():
    return {}

def model(features, labels, mode, params):
    pass

for name, module in [*sys.modules.items()]:
    if name.partition('.')[0] in ('estimator_trainer', 'tf_estimator'):
        print([*getattr(module, '__path__', [module.__file__])][0])
"""


@pytest.mark.parametrize(
    'old, former, current',
    [
        ('from common.ops.dropout import dropout', 'common.ops.dropout', 'common.ops.layers'),
        ('from common.ops import shape, asserts', 'common.ops.shape', 'common.ops.shapes'),
        ('import common.errors', 'common.errors', 'common.errors'),
        ('from common.runs import api', 'common.runs.api', ''),
        ('from models import alexnet', 'models.alexnet', 'models.alexnet'),
        ('from hparams.build import (\n    HParams)', 'hparams.build', 'hparams.build'),
    ],
)
def test_a_module_that_imports_a_former_name_gets_the_current_one_in_a_line(old, former, current):
    code, err, path = run(f'{old}\n')
    name, line = os.path.basename(os.path.dirname(path)), GOOD.count('\n') + 1
    place = f'trainer.py: --model={name}.module: {path}, line {line}'
    assert (code, err) == (2, f'{place}: {former} is now estimator_trainer.{current}'.rstrip('.') + '\n')


def test_a_program_that_imports_a_former_name_gets_no_second_copy_of_the_code():
    assert importlib.util.find_spec('datasets')  # Libraries ask so whether another one is there.
    for name in ('common.errors', 'datasets.mnist'):
        with pytest.raises(ImportError, match='^(common|datasets) is now estimator_trainer.(common|datasets)$'):
            importlib.import_module(name)
    for code, former in (('import common', 'common'), ('from models import alexnet', 'models.alexnet')):
        process = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True)  # Before the package.
        assert process.stderr.endswith(f'ImportError: {former} is now estimator_trainer.{former}\n')


@pytest.mark.parametrize('program', [[f'{ROOT}/trainer.py'], ['-P', f'{ROOT}/estimator_trainer/__main__.py']])
def test_folders_and_libraries_of_the_same_names_are_found_by_a_users_module(tmp_path, program):
    for path in ('here/common/mine.py', 'here/models/__init__.py', 'library/datasets/__init__.py'):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text('VALUE = __name__')
    module = tmp_path / 'here' / 'own' / 'module.py'
    module.parent.mkdir()
    names = 'from common import mine\nimport datasets, models\nprint(mine.VALUE, datasets.VALUE, models.VALUE)\n'
    module.write_text(names + GOOD)
    process = subprocess.run(
        [sys.executable, *program, *DRY_RUN],
        cwd=tmp_path / 'here',
        env={**os.environ, 'PYTHONPATH': f'{tmp_path}/library'},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0 and process.stdout.startswith('common.mine datasets models\n'), process.stderr


@pytest.mark.parametrize('option', ['-B', '-P'])
def test_a_second_checkout_runs_its_own_code_only(tmp_path, option):
    ignored = shutil.ignore_patterns('raw', '__pycache__', '*.md')
    for name in ('common', 'datasets', 'estimator_trainer', 'hparams', 'models', 'tf_estimator'):
        shutil.copytree(f'{ROOT}/{name}', tmp_path / name, ignore=ignored)
    shutil.copy(f'{ROOT}/sweep.py', tmp_path)
    shutil.copy(f'{ROOT}/trainer.py', tmp_path)
    (tmp_path / 'models' / 'mlp.py').unlink()
    (tmp_path / 'models' / 'probe.py').write_text(PROBE)
    (tmp_path / 'elsewhere').mkdir()

    def call(script, *flags):
        command = [sys.executable, option, tmp_path / script, *flags]
        return subprocess.run(command, cwd=tmp_path / 'elsewhere', capture_output=True, text=True)

    process = call('trainer.py', '--model=estimator_trainer.models.probe', '--help')
    places = [line for line in process.stdout.splitlines() if line.startswith('/')]
    assert len(places) > 20 and all(place.startswith(str(tmp_path)) for place in places), process.stderr
    assert call('sweep.py', '--model=mlp').stderr.startswith(
        'sweep.py: --model=mlp: no module models.mlp; the models are: alexnet'
    )


def test_without_its_dependencies_the_trainer_names_the_command_that_installs_them(tmp_path):
    process = subprocess.run([sys.executable, '-S', f'{ROOT}/trainer.py'], cwd=tmp_path, capture_output=True, text=True)
    line = f'trainer.py: absl is not installed: pip install -e {ROOT}/tf_estimator -e {ROOT}\n'
    assert (process.returncode, process.stdout, process.stderr) == (1, '', line)


def test_the_names_for_programs_are_those_of_their_modules():
    from estimator_trainer.common.commands import api
    from estimator_trainer.common.records import records

    assert estimator_trainer.train is api.train and estimator_trainer.records is records
    assert {*estimator_trainer.__all__} < {*dir(estimator_trainer)}
    assert all(getattr(estimator_trainer, name).__doc__ for name in estimator_trainer.__all__)
    with pytest.raises(AttributeError, match='has no attribute nothing'):
        estimator_trainer.nothing  # noqa: B018

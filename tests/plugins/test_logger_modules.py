"""--loggers: the names that it takes."""

import importlib.util

import pytest

from estimator_trainer.common.plugins import logger_modules
from tests.shared import refused


@pytest.mark.parametrize(
    'names, message',
    [
        (
            ['tensorbord'],
            '--loggers=tensorbord: there is no logger tensorbord: the loggers are mlflow, wandb; give your',
        ),
        (['own.', 'a.b'], '--loggers=own.,a.b: there is no logger own.: '),
        ([''], '--loggers=: there is no logger without a name'),
        (['tests.own_logger', 'tests.own_logger'], '--loggers: tests.own_logger is given twice'),
        (['tests.no_logger'], '--loggers=tests.no_logger: there is no module tests.no_logger'),
        (['tests.shared'], '--loggers=tests.shared: has no class Logger; see docs/loggers.md'),
        (['own.logger'], '--loggers=own.logger: the class Logger has no log and no end; see docs/loggers.md'),
        (['own.needy'], '--loggers=own.needy: needs no_such_package, which is not installed'),
    ],
)
def test_a_wrong_name_is_refused_in_a_line(tmp_path, monkeypatch, names, message):
    (tmp_path / 'own').mkdir()
    (tmp_path / 'own/logger.py').write_text('class Logger:\n    def start(self, run):\n        pass\n')
    (tmp_path / 'own/needy.py').write_text('import no_such_package\n')
    monkeypatch.chdir(tmp_path)
    assert refused(logger_modules.check_modules, names).startswith(message)


def test_a_missing_package_is_named_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    message = "--loggers=wandb: the package wandb is not installed: pip install 'estimator-trainer[wandb]'"
    assert refused(logger_modules.check_names, ['wandb']) == message


def test_the_loggers_have_modules_and_own_ones_are_their_paths():
    found = logger_modules.modules(['mlflow', 'wandb', 'a.b'])
    assert found.pop('a.b') == 'a.b'
    assert all(importlib.util.find_spec(path) for path in found.values())

"""An Optuna study in a file."""

from collections.abc import Iterator, Mapping
import contextlib
import json
import os
import types
from typing import Any

import optuna
import sqlalchemy

from estimator_trainer.common import files
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.paths import STUDY
from estimator_trainer.common.storage.objective import Objective
from estimator_trainer.common.sweep import shared_data
from estimator_trainer.hparams.build import renamed
from estimator_trainer.hparams.comparison import differences
from estimator_trainer.hparams.defaults import DEFAULTS

CURE = 'choose another --output_dir'  # Of what differs.
_NAME = 'sweep'
_LOCK_SECONDS = 100  # That SQLite may wait for another process.
_ADDED_CHECKS = ('--precision', '--xla', '--num_gpus', '--num_towers')  # Studies of older versions do not say what they had.


def preload() -> None:
    """Imports what `open_study` imports on first use, which takes half a second."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.create_study(storage='sqlite://')  # In memory.


def open_study(
    directory: str,
    objective: Objective,
    setup: Mapping[str, Any],
    data: Mapping[str, str] = types.MappingProxyType({}),
) -> optuna.Study:
    """Opens the study of a directory, or creates it.

    Trials worse than the median of the others are pruned: `optuna.pruners.MedianPruner`, once five are complete.

    Args:
      directory: must be local.
      objective: applies to a trial's best evaluation.
      setup: the setup that trials must share to be comparable; JSON-serializable.
      data: {split or path: checksum} of the data, as far as it is known, which they must share, too.

    Raises:
      UsageError: the study was created with another setup, or its data has changed.
      RunError: the file is corrupt, or is not a study.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = os.path.join(directory, STUDY)
    setup = json.loads(files.dumps(setup))  # Without tuples, like the stored setup.
    with reporting_storage_errors(path):
        study = optuna.create_study(
            storage=optuna.storages.RDBStorage(
                str(sqlalchemy.URL.create('sqlite', database=path)), {'connect_args': {'timeout': _LOCK_SECONDS}}
            ),
            study_name=_NAME,
            pruner=optuna.pruners.MedianPruner(),
            load_if_exists=True,
            direction='maximize' if objective.is_max else 'minimize',
        )
        known = {key: value for key, value in _before(setup).items() if key in setup}
        found = differences({**known, **renamed(study.user_attrs.get('setup', setup), setup)}, setup)
        if found:
            raise UsageError(f'{path}: {found}: use the same values, or {CURE}')
        known_data = study.user_attrs.get('data', {})
        shared_data.check(path, known_data, data, [CURE])
        study.set_user_attr('setup', setup)
        study.set_user_attr('data', {**known_data, **data})
    return study


def _before(setup):
    """Returns what studies had before their setups said it: defaults, or what is unknown and may be the same."""
    flags = {f'--{name}': value for name, value in vars(Options()).items()}
    others = {name: setup.get(name) for name in _ADDED_CHECKS}
    return {**DEFAULTS, **json.loads(files.dumps(flags)), '--seeds': 1, **others}


@contextlib.contextmanager
def reporting_storage_errors(path: str) -> Iterator[None]:
    """Within the block, raises RunError if the study's file cannot be read or written."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, RuntimeError) as error:
        root: BaseException = error
        while root.__cause__:  # SQLite's own error has the informative message.
            root = root.__cause__
        cause = (str(root) or repr(root)).splitlines()[0]
        cure = 'check that it is not locked or corrupt, and that its disk has space, or choose another --output_dir'
        raise RunError(f'{path}: {cause}: {cure}') from None

"""The tracker of a run: what --loggers get of it."""

from collections.abc import Mapping
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import to_json
from estimator_trainer.common.monitoring.logger_thread import Row
from estimator_trainer.common.monitoring.tracker import Tracker, row_of_evaluation, row_of_training
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.paths import STUDY, absolute
from estimator_trainer.common.plugins.logger_modules import modules
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import best_checkpoint, checkpoints, run_dir, status
from estimator_trainer.common.storage.metrics import read_evaluations
from estimator_trainer.common.storage.metrics_file import read_rows
from estimator_trainer.common.storage.metrics_table import MODE, STEP_LOSS, is_of_training


def tracker_of(experiment: Experiment) -> Tracker | None:
    """Returns the tracker of a run, or of an evaluator, whose tracked run is another one; None without --loggers."""
    options, output_dir = experiment.options, absolute(experiment.output_dir)
    if not options.loggers or experiment.schedule.is_dry_run or not experiment.task.is_chief:
        return None
    is_evaluator = experiment.schedule.follows
    name = '/'.join(output_dir.split('/')[-2:])
    facts = {
        'name': f'{name} evaluator' if is_evaluator else name,
        'group': _sweep_of(output_dir),
        'output_dir': output_dir,
        'hparams': {name: to_json(value) for name, value in experiment.params.items()},
        'flags': _given(options),
    }
    return Tracker(
        modules(options.loggers),
        facts,
        '-evaluator' if is_evaluator else '',
        _earlier(output_dir, experiment.schedule),
        lambda: _artifacts(output_dir),
        begins=not is_evaluator,  # Its directory may not exist yet.
    )


def attach_report(experiment: Experiment) -> None:
    """Adds the report of a run that has ended to its tracked runs, which begin now if the run was not tracked."""
    found = run_dir.read_status(experiment.output_dir)
    if found.get('state') in status.LIVING and not status.is_gone(found):
        tf.logging.info('--loggers: the run still trains, and its tracked run gets the report at its end.')
    elif tracker := tracker_of(experiment):
        is_killed = found.get('state') in status.LIVING
        tracker.end('failed' if is_killed else found.get('state', 'finished'), found.get('reason') or '')


def _sweep_of(output_dir):
    """Returns the directory of the sweep that a run is a trial of; '' if it is of none."""
    above = os.path.dirname(output_dir)
    return next((path for path in (above, os.path.dirname(above)) if tf.io.gfile.exists(os.path.join(path, STUDY))), '')


def _given(options: Options) -> Mapping[str, Any]:
    """Returns the flags that differ from their defaults."""
    defaults = vars(Options())
    return {name: value for name, value in vars(options).items() if value != defaults[name] and name != 'hparams'}


def _earlier(output_dir, schedule) -> list[Row]:
    """Returns the rows of metrics.csv up to the latest checkpoint, ordered by step: only a run that resumes has some."""
    checkpoint = tf.train.latest_checkpoint(output_dir)
    if not checkpoint:
        return []
    last, rows = checkpoints.global_step(checkpoint), []
    if not schedule.follows:
        rows += [_row(found) for found in read_rows(output_dir) if is_of_training(found)]
    if schedule.evaluates or schedule.reports:
        rows += [row_of_evaluation(found) for found in read_evaluations(output_dir)]
    return sorted((found for found in rows if found.step <= last), key=lambda found: found.step)


def _row(found):
    numbers = {
        name: float(text) for name, text in found.items() if text and name not in ('global_step', 'split', MODE, STEP_LOSS)
    }
    return row_of_training(int(found['global_step']), numbers)


def _artifacts(output_dir):
    best, report = best_checkpoint.find_best(output_dir), run_dir.report_path(output_dir)
    return {**({'best_checkpoint': best} if best else {}), **({'report': report} if tf.io.gfile.exists(report) else {})}

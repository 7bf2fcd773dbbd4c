"""--from_step: a run goes back to one of its checkpoints.

What is newer moves to a folder of output_dir/abandoned. Meanwhile, rollback.json in the output_dir names the step and the
folder: if the process is killed, the next training there finishes the roll-back, whose parts may be repeated. In the end, the
file moves to the folder, where it shows the same command, given again, that it has nothing to do.
"""

import json
import os
import time

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import dumps, names_in, read_json, write_json
from estimator_trainer.common.monitoring.summaries import close_writers
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from estimator_trainer.common.storage import (
    abandoned,
    best_checkpoint,
    checkpoints,
    event_files,
    margins_file,
    metrics,
    run_dir,
)
from estimator_trainer.common.storage.restore import is_intact
from estimator_trainer.common.training import exact_program
from estimator_trainer.hparams import build, overrides
from estimator_trainer.hparams.text import parse

_REPORT_SECONDS = 60


def target(output_dir: str, options: Options) -> int | None:
    """Returns the step to which a run has to go back.

    Without --from_step, or if this command went back before, that of a roll-back that was interrupted; None if there is none.

    Raises:
      UsageError: there is no intact checkpoint of this step, or hparams.json or a rollback.json is corrupt.
      RunError: best.json is corrupt.
    """
    if options.overwrite:
        return None
    begun = _begun(output_dir)
    if options.from_step is None or _is_done(output_dir, options):
        return begun and begun[0]
    best = best_checkpoint.best_step(output_dir)
    step = best if options.from_step == 'best' else int(options.from_step)
    if step is None:
        raise UsageError(f'--from_step=best: there is none in {best_checkpoint.best_dir(output_dir)}: give a step')
    if not _is_best(output_dir, step) and not is_intact(checkpoints.path_of(output_dir, step)):
        steps = ', '.join(map(str, checkpoints.steps(output_dir))) or 'none'
        raise UsageError(
            f'--from_step={options.from_step}: {output_dir} has no intact checkpoint of step {step}; it has {steps}'
            f'{"" if best is None else f", and the best, of step {best}"}'
        )
    overrides.read_history(run_dir.hparams_path(output_dir))  # Raises if it is corrupt.
    return step


def _is_best(output_dir, step):
    """Whether the best checkpoint is of a step, and intact."""
    return best_checkpoint.best_step(output_dir) == step and bool(best_checkpoint.intact_best(output_dir))


def _is_done(output_dir, options):
    """Whether the last roll-back was that of the same command: with the same numbers, another would make the same run again."""
    path = _record_path(output_dir, _last_folder(output_dir))
    return tf.io.gfile.exists(path) and _read(path).get('command') == _command(options)


def _last_folder(output_dir):
    """Returns the number of the last roll-back; 0 if there is none."""
    names = names_in(run_dir.abandoned_dir(output_dir))
    return max((int(name) for name in names if name.isascii() and name.isdecimal()), default=0)


def _folder(output_dir, number):
    return os.path.join(run_dir.abandoned_dir(output_dir), str(number))


def _record_path(output_dir, number):
    return run_dir.rollback_path(_folder(output_dir, number))


def _read(path):
    try:
        return read_json(path)
    except ValueError as error:
        raise UsageError(f'{error}; delete it') from None


def _begun(output_dir):
    """Returns the step and the folder's number of a roll-back that has begun and not ended, or None."""
    path = run_dir.rollback_path(output_dir)
    if not tf.io.gfile.exists(path):
        return None
    record = _read(path)
    found = record.get('step'), record.get('folder')
    if not all(type(value) is int and value >= 0 for value in found):
        raise UsageError(f'{path}: does not describe a roll-back; delete it')
    return found


def _command(options):
    """Returns what makes a roll-back differ from another, as JSON has it."""
    flags = {name: getattr(options, name) for name in ('from_step', *names_with(Trait.CHANGES_RESULT))}
    return json.loads(dumps({**flags, 'override_hparams': parse(options.override_hparams, '--override_hparams')}))


def check_length(options: Options, step: int, train_steps: int) -> None:
    """Raises UsageError if --from_step leaves nothing to train: training ends at the step, or before it."""
    if options.from_step is not None and step >= train_steps:
        where = f'--from_step={options.from_step}: '
        where += f'the best checkpoint is of step {step}, and ' if options.from_step == 'best' else ''
        raise UsageError(
            f'{where}training ends at step {train_steps}, so nothing would be trained: raise --train_steps or --num_epochs; '
            'nothing was moved'
        )


def roll_back(output_dir: str, step: int, options: Options) -> None:
    """Goes back to the step that `target` returned; only for the process that holds the lock of the directory."""
    number = _last_folder(output_dir) + 1
    record = {'step': step, 'from': checkpoints.steps(output_dir)[-1], 'folder': number, 'command': _command(options)}
    write_json(run_dir.rollback_path(output_dir), record)
    finish(output_dir)


def finish(output_dir: str) -> None:
    """Finishes a roll-back that has begun, if there is one; only for the process that holds the lock of the directory.

    Raises:
      UsageError: its rollback.json is corrupt.
      RunError: the checkpoint is gone.
    """
    if not (begun := _begun(output_dir)):
        return
    record_path, step, folder = run_dir.rollback_path(output_dir), begun[0], _folder(output_dir, begun[1])
    is_in_run = is_intact(checkpoints.path_of(output_dir, step))
    if not (is_in_run or _is_best(output_dir, step)):
        raise RunError(f'{record_path}: there is no intact checkpoint of step {step} any longer: delete this file, to go on')
    tf.io.gfile.makedirs(folder)
    close_writers(output_dir)
    if not is_in_run:
        best_checkpoint.copy_back(output_dir)
    for part in (checkpoints, exact_program, event_files, metrics, margins_file, best_checkpoint):
        part.abandon(output_dir, step, folder)
    _undo_changes(run_dir.hparams_path(output_dir), step, folder)
    results = run_dir.results_path(output_dir)
    if tf.io.gfile.exists(results):
        abandoned.move(results, folder)
    loggers = run_dir.loggers_dir(output_dir)
    for name in names_in(loggers):  # So another tracked run begins, with what metrics.csv has of this one.
        abandoned.move(os.path.join(loggers, name), os.path.join(folder, 'loggers'))
    for directory, _, names in tf.io.gfile.walk(folder):
        for name in names:
            if name.endswith('.part'):  # Of a process that was killed.
                tf.io.gfile.remove(os.path.join(directory, name))
    abandoned.move(record_path, folder)
    tf.logging.info('The run is back at step %d; what was newer is in %s.', step, folder)


def _undo_changes(path, step, folder):
    """Drops the changes of hyper-parameters since a step, after copying hparams.json to a folder, unless that has it."""
    saved = read_json(path)
    if (content := overrides.undone(saved, step)) != saved:
        abandoned.keep_copy(path, folder)
        build.save(content, path)


def say_if_done(output_dir: str, options: Options) -> None:
    """Logs that a command resumes, in place of going back again."""
    if options.from_step is not None and _is_done(output_dir, options):
        tf.logging.warning(
            '--from_step=%s: this command went back before, and now resumes; to go back again, delete %s.',
            *(options.from_step, _record_path(output_dir, _last_folder(output_dir))),
        )


def wait(output_dir: str, options: Options) -> None:
    """Waits until the chief of a cluster has gone back; logs every minute that it does."""
    next_report = time.monotonic()
    while target(output_dir, options) is not None or tf.io.gfile.exists(run_dir.rollback_path(output_dir)):
        if time.monotonic() >= next_report:
            tf.logging.info('Waiting for the chief to go back to --from_step=%s.', options.from_step)
            next_report += _REPORT_SECONDS
        time.sleep(1)

"""Facts about a run for its report, in words: state, time, hyper-parameters, environment, and what to do next."""

from collections.abc import Mapping, Sequence
import datetime
import os
import platform
import shlex
import socket
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

import estimator_trainer
from estimator_trainer.common import processor
from estimator_trainer.common.errors import in_one_line
from estimator_trainer.common.files import dumps
from estimator_trainer.common.inference.model_card import versions
from estimator_trainer.common.report.charts import number
from estimator_trainer.common.storage import status
from estimator_trainer.common.storage.event_files import read_scalars
from estimator_trainer.common.storage.status import State
from estimator_trainer.common.targets import BASELINES

_PARTS = 'step_ms/'  # The prefix of the times of a step in TensorBoard.


class Share(NamedTuple):
    """A part of the training's time: share of the whole, in [0, 1]."""

    name: str
    seconds: float
    share: float
    milliseconds: float


def state_of(found: Mapping[str, Any], patience: int) -> tuple[str, str]:
    """Returns the state of a run in a word or two, and what it means, '' if nothing is to be added.

    Args:
      found: its status.
      patience: its --early_stopping_patience.
    """
    if not found:
        return 'unknown', 'There is no status.json.'
    state, step, end = found['state'], found['global_step'], found['train_steps']
    if state in status.LIVING:
        if status.is_gone(found):
            return 'killed', f'Its process ended while {state}.'
        return state, 'The run was not over when this report was written.'
    if state == State.STOPPED:
        return state, f'By {found["reason"]}: it can resume.'
    if state == State.FAILED:
        return state, f'Reason: {in_one_line(found["reason"] or "unknown")}.'
    if None in (step, end) or step >= end:
        return state, ''
    if patience:
        return (
            'stopped early',
            f'The metric had not improved for {patience} evaluations, so training ended before step {end:,}.',
        )
    return state, f'Before its last step, {end:,}.'


def time_of(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns when and where a run was trained, as (name, text), by its status."""
    if not found:
        return []
    times = {name: datetime.datetime.fromisoformat(found[name]) for name in ('started', 'updated') if found[name]}
    rows = [(name, f'{time:%Y-%m-%d %H:%M:%S} UTC') for name, time in times.items()]
    if len(times) == 2:
        rows.append(('between them', duration((times['updated'] - times['started']).total_seconds())))
    if found['resumed']:
        rows.append(('resumed', f'{found["resumed"]} times' if found['resumed'] > 1 else 'once'))
    return [*rows, ('host', str(found['host']))]


def duration(seconds: float) -> str:
    """Returns a duration such as 42 s, 3 min 20 s or 5 h 12 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f'{minutes} min {rest} s' if minutes else f'{rest} s'
    return f'{minutes // 60:,} h {minutes % 60} min'


def time_by_part(output_dir: str) -> list[Share]:
    """Returns what the time of the training was spent on, by the event files; [] if they do not tell."""
    seconds: dict[str, float] = {}
    steps, last = 0, None
    for step, milliseconds in read_scalars(output_dir, _PARTS):
        passed = step - last if last is not None else 0
        for part, value in milliseconds.items():
            seconds[part] = seconds.get(part, 0) + value * passed / 1000
        steps, last = steps + passed * bool(milliseconds), step
    total = sum(seconds.values())
    if total <= 0:
        return []
    return [Share(part, spent, spent / total, 1000 * spent / steps) for part, spent in seconds.items()]


def changed(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns (name, value, default) of the hyper-parameters in place of whose defaults, {name: value}, a run has others."""
    return [(name, dumps(params[name]), dumps(default)) for name, default in sorted(defaults.items()) if name in params]


def overridden(history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the changes of hyper-parameters on resuming, a line for each; see `hparams.overrides.read_history`."""
    return [
        f'{name} was {dumps(old)} up to step {entry["global_step"]:,}, then {dumps(new)}'
        for entry in history
        for name, (old, new) in entry['hparams'].items()
    ]


def flags_of(saved: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Returns the flags of a run, as saved, that are not the defaults."""
    given = {name: value for name, value in saved.items() if name in defaults and name not in ('schedule', 'data_dir')}
    return [
        f'--{name}={",".join(map(str, value)) if isinstance(value, list) else value}'
        for name, value in given.items()
        if value not in (None, defaults[name]) and value != [*(defaults[name] if isinstance(defaults[name], tuple) else ())]
    ]


def environment() -> list[tuple[str, str]]:
    """Returns versions and processor of this process, as (name, text)."""
    gpus = len(tf.config.list_physical_devices('GPU'))
    return [
        ('written', f'{status.now():%Y-%m-%d %H:%M:%S} UTC'),
        *versions().items(),
        ('processor', f'{processor.name()}, {os.cpu_count()} cores'),
        *([('GPUs', str(gpus))] if gpus else []),
        ('system', platform.platform()),
        ('host', socket.gethostname()),
    ]


def commands(output_dir: str, steps: int, patterns: Sequence[str]) -> list[tuple[str, str]]:
    """Returns what can be done with a run, as (purpose, command).

    Args:
      steps: at which it ends.
      patterns: of the files that the dataset reads, such as *.csv.
    """
    program = 'python trainer.py' if estimator_trainer.CHECKOUT else 'python -m estimator_trainer'
    run = f'--output_dir={shlex.quote(output_dir)}'
    pattern = shlex.quote('*.png' if '*.png' in patterns else [*patterns, ''][0])
    files = [('Predict files', f'{program} --schedule=predict {run} --input={pattern}')] if patterns else []
    return [
        ('Resume, and train longer', f'{program} {run} --train_steps={2 * max(steps, 1)}'),
        ('Evaluate', f'{program} --schedule=evaluate {run}'),
        ('Predict the evaluation split', f'{program} --schedule=predict {run}'),
        *files,
        ('Export a SavedModel', f'{program} --schedule=export {run}'),
        ('Write this report again', f'{program} --schedule=report {run}'),
        ('See it in TensorBoard', f'tensorboard --logdir={shlex.quote(output_dir)}'),
        ('In Python', f'from estimator_trainer import load; run = load({output_dir!r})'),
    ]


def tiles(
    last: Mapping[str, Any] | None, best: Mapping[str, Any] | None, split: str, metric: str
) -> list[tuple[str, str, str]]:
    """Returns the main numbers of a run, as (name, number, note): the metric that is compared, and the others of the split.

    Args:
      last, best: evaluations, {'global_step': int, split: {metric: value}}, or None.
    """
    result = []
    if best and metric in best.get(split, {}):
        result.append((f'best {metric}', number(float(best[split][metric])), f'{split}, step {best["global_step"]:,}'))
    values = (last or {}).get(split, {})
    names = sorted(values, key=lambda name: (name != metric, name != 'accuracy', name.endswith(BASELINES), name))
    for name in names[: 4 - len(result)]:
        if isinstance(values[name], (int, float)):
            assert last is not None
            result.append((f'last {name}', number(float(values[name])), f'{split}, step {last["global_step"]:,}'))
    return result

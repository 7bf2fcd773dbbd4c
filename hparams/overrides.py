"""Changes of hyper-parameters on resuming, and their history in hparams.json."""

from collections.abc import Collection, Mapping
from typing import Any

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import read_json
from estimator_trainer.hparams import build
from estimator_trainer.hparams.defaults import DEFAULTS, RENAMED, TABLE
from estimator_trainer.hparams.merge import apply
from estimator_trainer.hparams.text import to_text


def check_names(names: Collection[str], of_model: Collection[str]) -> None:
    """Raises UsageError if a run may not change one of these hyper-parameters when resuming.

    Args:
      names: of hyper-parameters.
      of_model: OVERRIDABLE_HPARAMS of the model.
    """
    known = _known(of_model)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f'--override_hparams: a run cannot change {", ".join(unknown)} when resuming; it can change {", ".join(known)}'
        )


def _known(of_model):
    return [*(name for name, entry in TABLE.items() if entry.may_change), *of_model]


def advise(of_model: Collection[str], saved: Mapping[str, Any], params: Mapping[str, Any], names: Collection[str]) -> str:
    """Returns what a user can do about the names of hyper-parameters that differ from those of a run to resume.

    Args:
      of_model: as for `check_names`.
      saved: those of the run.
      params: the given ones.
    """
    of_run = "the run's own" if all(name in saved for name in names) else "the run's own values, or the defaults of what is new"
    ways = [f'omit what differs to go on with {of_run}' if all(name in params for name in names) else 'restore the code']
    if {*names} <= {*_known(of_model)}:
        ways.append(
            f'change the run from here on, with --override_hparams={",".join(f"{n}={to_text(params[n])}" for n in names)}'
        )
    return ', or '.join([*ways, 'start over with --overwrite', 'choose another --output_dir'])


def read_history(path: str) -> list[dict[str, Any]]:
    """Returns the history in an hparams.json: [{'global_step': int, 'hparams': {name: [old, new]}}], ordered by step.

    Raises:
      UsageError: the file cannot be read, or its history is corrupt.
    """
    try:
        saved = read_json(path)
    except ValueError as error:
        raise UsageError(f'{error}; choose another --output_dir') from None
    history = saved.get(build.HISTORY, [])
    values: dict[str, Any] = {}  # After the changes so far.
    try:
        steps = [0, *(entry['global_step'] for entry in history)]
        if not all(type(step) is int for step in steps) or steps != sorted(steps):
            raise TypeError
        for name, (old, new) in ((name, pair) for entry in history for name, pair in entry['hparams'].items()):
            name = name if name in saved else RENAMED.get(name, name)
            if values.get(name, old) != old:
                raise TypeError
            values[name] = new
            for value in (old, new) if name in DEFAULTS else ():
                apply(DEFAULTS, path, {name: value})
        if any(saved.get(name, value) != value for name, value in values.items()):  # A module may have dropped one since.
            raise TypeError
    except (KeyError, TypeError, ValueError, AttributeError, UsageError):
        raise UsageError(f'{path}: {build.HISTORY} is corrupt: restore the file, or choose another --output_dir') from None
    return history


def undone(saved: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Returns the content of an hparams.json as it was when a step was saved: without the changes since, in its history."""
    values = dict(saved)
    history = values.pop(build.HISTORY, [])
    for entry in reversed(history):
        for name, (old, _) in entry['hparams'].items() if entry['global_step'] >= step else ():
            values[name if name in values else RENAMED.get(name, name)] = old
    kept = [entry for entry in history if entry['global_step'] < step]
    return {**values, **({build.HISTORY: kept} if kept else {})}


def add_entry(
    history: list[dict[str, Any]], saved: Mapping[str, Any], params: Mapping[str, Any], names: Collection[str], step: int
) -> list[dict[str, Any]]:
    """Adds the changes at a step to a history: the values of these names that differ from the saved ones.

    Changes at later steps, lost since, count from this step on.
    """
    found = [{**entry, 'global_step': min(entry['global_step'], step)} for entry in history]
    changed = {name: [saved[name], params[name]] for name in names if name in saved and saved[name] != params[name]}
    return [*found, {'global_step': step, 'hparams': changed}] if changed else found


def batch_start(history: list[dict[str, Any]]) -> tuple[int, int]:
    """Returns the step of the last change of batch_size, and the number of examples before it; (0, 0) if there is none."""
    step = examples = 0
    for entry in history:
        if 'batch_size' in entry['hparams']:
            old, _ = entry['hparams']['batch_size']
            step, examples = entry['global_step'], examples + (entry['global_step'] - step) * old
    return step, examples


def save(params: Mapping[str, Any], history: list[dict[str, Any]], path: str) -> None:
    """Writes hyper-parameters with their history as JSON for `--hparams_set`."""
    build.save({**params, build.HISTORY: history} if history else params, path)

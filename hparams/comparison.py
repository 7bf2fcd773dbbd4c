"""Hyper-parameters and flags compared with those that a run, or a sweep, was saved with."""

from collections.abc import Callable, Collection, Iterable, Mapping
import json
from typing import Any

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import read_json
from estimator_trainer.hparams import overrides
from estimator_trainer.hparams.build import HParams, renamed
from estimator_trainer.hparams.defaults import ADDED, DEFAULTS
from estimator_trainer.hparams.merge import is_path


def compare(
    params: HParams,
    path: str,
    free: Iterable[str] = (),
    advise: Callable[[HParams, HParams, list[str]], str] | None = None,
    before: int | None = None,
    given: Collection[str] | None = None,
) -> HParams:
    """Checks that a run resumes with its saved hyper-parameters, except for its length and those in `free`.

    Args:
      path: of its hparams.json.
      advise: returns the end of the message, from the saved ones, `params` and the names that differ; None if no training
        resumes.
      before: see `overrides.undone`; None for the saved ones as they are.
      given: names that the user gave; others may have appeared or disappeared, see `of_changed_code`. None if none may.

    Returns:
      The saved ones.

    Raises:
      UsageError: some differ, the message gives both values; or the file cannot be read.
    """
    try:
        added = {key: value for key, value in ADDED.items() if key in params}
        content = read_json(path) if before is None else overrides.undone(read_json(path), before)
        saved = HParams({**DEFAULTS, **added, **renamed(content, params)})  # Files of older versions lack some.
    except ValueError as error:
        raise UsageError(f'{error}; choose another --output_dir') from None
    of_code: Iterable[str] = ()
    if given is not None and all(saved.get(name) == params.get(name) for name in ('model', 'dataset')):
        of_code = (name for names in of_changed_code(saved, params, given) for name in names)
    names = _differing(saved, params, ('train_steps', 'num_epochs', 'min_steps', *free, *of_code))
    names = [name for name in names if name in ('model', 'dataset')] or names  # Others follow from these.
    if names:
        is_other_data = any(saved.get(key) and params[key] not in ('', saved[key]) for key in params if _names_data(key))
        hint = (
            '; other data can be predicted, with --input=FILES, and evaluated, with --eval_splits=test, if it is the split '
            'test of a directory that was trained on'
        )
        advice = (
            advise(saved, params, names) if advise else "omit what differs to use the run's own, or choose another --output_dir"
        )
        raise UsageError(f'{path}: {_changes(saved, params, names)}: {advice}{hint if is_other_data else ""}')
    return saved


def of_changed_code(saved: Mapping[str, Any], params: HParams, given: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the hyper-parameters that the code has gained and lost since a run was saved, {name: value}.

    Args:
      saved: the content of its hparams.json.
      given: names that the user gave: their values are no defaults.
    """
    own = {**DEFAULTS, **ADDED, **renamed(saved, params)}
    gained = {name: value for name, value in params.items() if name not in own and name not in given}
    return gained, {name: value for name, value in own.items() if name not in params and name not in ADDED}


def _names_data(key):
    """Whether a hyper-parameter is the path of a user's own data, such as table_file or image_dir."""
    return is_path(key) and key not in ('raw_dir', 'schema', 'embeddings', 'exclude')


def differences(old: Mapping[str, Any], new: Mapping[str, Any], free: Collection[str] = ()) -> str:
    """Describes the differences between two dicts, except for the keys in `free`; '' if there are none."""
    return _changes(old, new, _differing(old, new, free))


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns the keys of both dicts whose values differ."""
    return [key for key in new if old.get(key, new[key]) != new[key]]


def _differing(old, new, free):
    return [key for key in {**old, **new} if key not in free and old.get(key) != new.get(key)]


def _changes(old, new, names):
    return '; '.join(f'{key} was {_text(old, key)}, now it is {_text(new, key)}' for key in names)


def _text(values, key):
    return json.dumps(values[key]) if key in values else 'absent'

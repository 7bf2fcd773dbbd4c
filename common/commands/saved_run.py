"""The run in an output_dir, from which a command takes what it does not give."""

from collections.abc import Collection, Mapping
import contextlib
import dataclasses
from typing import Any

from absl import flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands.flags import check, to_options
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import dumps, read_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.runs import rollback, saved_dataset, saved_flags
from estimator_trainer.common.storage import checkpoints, provenance, run_dir
from estimator_trainer.hparams import build, comparison, overrides

_OF_EVALUATION = ('eval_splits', 'eval_steps', 'best_metric')
_OF_START = ('warm_start_from', 'warm_start_names', 'warm_start_exclude')
_LENGTH = ('train_steps', 'num_epochs')


@dataclasses.dataclass(frozen=True)
class SavedRun:
    """What a run recorded: its hparams.json, and the flags of its training in flags.json; the flags are {} if it has none.

    Attributes:
      hparams: with --from_step, those of that step.
      has_begun: whether it has a checkpoint.
    """

    hparams: Mapping[str, Any]
    flags: Mapping[str, Any]
    has_begun: bool


def settings(output_dir: str) -> dict[str, str]:
    """Returns the flags model and dataset of the run in a directory; empty if there is no run.

    Raises:
      UsageError: hparams.json is corrupt.
    """
    params = _hparams(output_dir) or {}
    return {name: params[name] for name in ('model', 'dataset') if isinstance(params.get(name), str)}


def _hparams(output_dir):
    """Returns the content of a run's hparams.json, or None."""
    path = run_dir.hparams_path(output_dir)
    try:
        return read_json(path) if tf.io.gfile.exists(path) else None
    except tf.errors.UnimplementedError:  # The model's module may register the file system.
        return None
    except ValueError as error:
        raise UsageError(f'{error}; {_cure(output_dir)}') from None


def _cure(output_dir: str) -> str:
    """Returns what helps a run whose hparams.json is missing or corrupt, for a message."""
    known = [start['made_by'].get('hparams') or {} for start in provenance.known(output_dir).starts]
    # After another change, the file had its history, too, without which training would go on with other batches.
    if known and not any(comparison.differences(other, known[-1], (*_LENGTH, 'min_steps')) for other in known):
        return f'restore it from {provenance.place_of(output_dir, "hparams")}'
    return f'restore it, or choose another --output_dir; --warm_start_from={output_dir} takes over the weights'


def is_alone(FLAGS: flags.FlagValues) -> bool:
    """Whether a command names a run by its output_dir alone, without model and dataset."""
    return bool(FLAGS.output_dir) and not FLAGS['model'].present and not FLAGS['dataset'].present


def take(FLAGS: flags.FlagValues, output_dir: str) -> SavedRun | None:
    """Sets flags that are not given to those of the run in an output_dir, and returns it.

    Returns None if there is nothing to take: the directory has no run, or one of another model or dataset, which a later
    comparison reports; with --overwrite; or if there is no checkpoint, and the command neither names the run by its directory
    alone nor needs one.

    Raises:
      UsageError: hparams.json or flags.json is corrupt, hparams.json alone is missing, or the flags are incompatible with those
        of the run.
      RunError: dataset.json is corrupt.
    """
    if FLAGS.overwrite:
        _check_names(FLAGS, output_dir)
        return None
    schedule, params = SCHEDULES[FLAGS.schedule], _hparams(output_dir)
    if not params and (schedule.trains or schedule.needs_run) and not schedule.is_dry_run:
        _check_is_new(output_dir)
        if schedule.trains and is_alone(FLAGS):
            tf.logging.warning(
                '%s has no run: --model=%s and --dataset=%s, the defaults, are trained there.',
                output_dir,
                FLAGS.model,
                FLAGS.dataset,
            )
    run = _find(FLAGS, output_dir, params)
    if not run:
        return None
    if run.has_begun and (schedule.trains or schedule.follows or schedule.reports) and saved_flags.are_lost(output_dir):
        tf.logging.warning(
            '%s is missing, so flags that are not given have their defaults, whatever the run had: restore it%s, or give them.',
            run_dir.flags_path(output_dir),
            saved_flags.origin(output_dir),
        )
    found = {**settings(output_dir), **_data_dir(FLAGS, output_dir, run), **_kept(FLAGS, run)}
    taken = [name for name, value in found.items() if not FLAGS[name].present and value not in (None, FLAGS[name].value)]
    for name in taken:
        FLAGS[name].value = _parsed(FLAGS, name, found[name], output_dir)
    path = run_dir.hparams_path(output_dir)
    tf.logging.info(
        'From the run: %s.', ', '.join([*(FLAGS[name].serialize() for name in taken), f'hyper-parameters of {path}'])
    )
    check(FLAGS)
    back_to = rollback.target(output_dir, to_options(FLAGS)) if schedule.trains else None
    return run if back_to is None else dataclasses.replace(run, hparams=overrides.undone(run.hparams, back_to))


def _check_is_new(output_dir):
    """Raises UsageError if a directory without hparams.json has checkpoints, as one of which only these were copied."""
    with contextlib.suppress(tf.errors.UnimplementedError):  # As in `_hparams`.
        if checkpoints.has_checkpoint(output_dir):
            raise UsageError(f'--output_dir={output_dir}: has checkpoints, but no hparams.json: {_cure(output_dir)}')


def take_local_cluster(FLAGS: flags.FlagValues, output_dir: str) -> None:
    """Sets --local_cluster, if it is not given, to that of the run in an output_dir if training goes on with it.

    Raises:
      UsageError: hparams.json or flags.json is corrupt.
    """
    schedule = SCHEDULES[FLAGS.schedule]
    if FLAGS['local_cluster'].present or FLAGS.overwrite or not schedule.trains or schedule.is_dry_run:
        return
    run = _find(FLAGS, output_dir, _hparams(output_dir))
    if run and run.flags.get(saved_flags.LOCAL_CLUSTER):
        FLAGS['local_cluster'].value = _parsed(FLAGS, 'local_cluster', run.flags[saved_flags.LOCAL_CLUSTER], output_dir)
        tf.logging.info('From the run: %s; --local_cluster= goes on in one process.', FLAGS['local_cluster'].serialize())


def _find(FLAGS, output_dir, params):
    """Returns the SavedRun from which a command without --overwrite takes what it does not give, or None; see `take`.

    Args:
      params: from `_hparams`.
    """
    schedule = SCHEDULES[FLAGS.schedule]
    if (
        not params
        or schedule.is_dry_run
        and not FLAGS.output_dir
        or any(FLAGS[name].present and FLAGS[name].value != params.get(name) for name in ('model', 'dataset'))
    ):
        return None
    run = SavedRun(params, saved_flags.load(output_dir), checkpoints.has_checkpoint(output_dir))
    return run if schedule.needs_run or run.has_begun or is_alone(FLAGS) else None


def _check_names(FLAGS, output_dir):
    """Raises UsageError if a run would be overwritten by one of another model or dataset that is only the default."""
    own: dict[str, str] = {}
    with contextlib.suppress(UsageError):  # A corrupt hparams.json is overwritten, too.
        own = settings(output_dir)
    if any(not FLAGS[name].present and FLAGS[name].value != value for name, value in own.items()):
        given = ' and '.join(f'--{name}={value}' for name, value in own.items())
        raise UsageError(f'--overwrite: the run in {output_dir} has {given}: give both, or others, to start over')


def _kept(FLAGS, run):
    """Returns the flags in flags.json that a command takes over."""
    schedule = SCHEDULES[FLAGS.schedule]
    names = names_with(Trait.KEPT) if schedule.trains else _OF_EVALUATION if schedule.follows else ()
    left_out = (*(_OF_START if run.has_begun else ()), *(() if is_alone(FLAGS) else ['schedule']))
    kept = {name: run.flags[name] for name in names if name in run.flags and name not in left_out}
    splits = run.flags.get('eval_splits') if schedule.reports else None
    return {**kept, **({'predict_split': splits[0]} if splits else {})}


def _data_dir(FLAGS, output_dir, run):
    """Returns the flag data_dir of the run, unless that directory is gone: it may have been moved along with the program's."""
    saved = saved_dataset.load(output_dir)
    if not saved and not run.has_begun and saved_flags.DATA_DIR in run.flags:  # It may not have been prepared.
        return {'data_dir': run.flags[saved_flags.DATA_DIR]}
    if not saved or not saved.data_dir or FLAGS['data_dir'].present:
        return {}
    if saved.sha256 and not tf.io.gfile.isdir(saved.data_dir):
        tf.logging.warning(
            'The data of this run was in %s, which is gone: --data_dir=%s is used.', saved.data_dir, FLAGS.data_dir
        )
        return {}
    return {'data_dir': saved.data_dir}


def _parsed(FLAGS, name, value, output_dir):
    try:
        return FLAGS[name].parser.parse(value)
    except (ValueError, TypeError) as error:
        raise saved_flags.error_of(output_dir, f'{run_dir.flags_path(output_dir)}: {name}: {error}') from None


def replaced(params: build.HParams, defaults: build.HParams) -> dict[str, Any]:
    """Returns the default values, {name: value}, in whose place a run has others; not those of its length."""
    return {name: value for name, value in defaults.items() if name not in _LENGTH and params[name] != value}


def warn_of_code(run: SavedRun, params: build.HParams, given: Collection[str]) -> None:
    """Logs the hyper-parameters that the modules of a run have gained and lost since it was saved.

    Args:
      params: those with which it goes on.
      given: names of those that the user gave.
    """
    gained, lost = comparison.of_changed_code(run.hparams, params, given)
    for values, change, outcome in ((gained, 'gained', 'with these defaults'), (lost, 'lost', 'without')):
        if values:
            text = ', '.join(f'{name}={dumps(value)}' for name, value in values.items())
            tf.logging.warning('The code has %s %s since this run was saved: it goes on %s.', change, text, outcome)


def warn_of_defaults(
    run: SavedRun, output_dir: str, params: build.HParams, now: build.HParams, changed: Collection[str], is_alone: bool
) -> None:
    """Logs the hyper-parameters of a resumed run in whose place the same command would start another run with other values.

    Logs nothing if given ones differ from the run's, which a later comparison refuses.

    Args:
      run: as it was saved.
      params: those with which it goes on.
      now: those of a new run.
      changed: the names of those that may differ from the run's.
      is_alone: whether the command has only the output_dir, so that only defaults that changed since the run began count.
    """
    saved = saved_dataset.load(output_dir)
    own = build.HParams(build.renamed(run.hparams, params))
    if any(name not in (*_LENGTH, *changed) and params.get(name, value) != value for name, value in own.items()):
        return
    found = {name: value for name, value in replaced(params, now).items() if not saved or name not in saved.metadata}
    if is_alone and saved_flags.REPLACED in run.flags:
        then = build.HParams({**params, **run.flags[saved_flags.REPLACED]})
        found = {name: value for name, value in found.items() if then[name] != value}
    if found:
        origin = build.find_set(params.model, params.dataset, '')
        tf.logging.warning(
            'This run goes on with its own %s; %s now has %s: --override_hparams changes some, --overwrite starts over.',
            ', '.join(f'{name}={dumps(params[name])}' for name in found),
            f'the set {origin}' if origin else 'the default',
            ', '.join(f'{name}={dumps(value)}' for name, value in found.items()),
        )

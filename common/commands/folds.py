"""Folds of a run: training them, and prediction and export of all together."""

from collections.abc import Mapping
import contextlib
import os
from typing import Any

from absl import flags as absl_flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster import tf_config
from estimator_trainer.common.commands import flags, request, shared_data
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import to_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import TABLE, names_with
from estimator_trainer.common.paths import absolute, is_remote
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.runs import chosen_checkpoint, ensemble, saved_flags, start_over, suspects
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import run_dir
from estimator_trainer.common.storage.metrics import read_evaluations
from estimator_trainer.common.storage.metrics_table import metrics_path
from estimator_trainer.common.sweep import fold_table, folds, forks
from estimator_trainer.common.sweep.starts import starter
from estimator_trainer.hparams import build
from estimator_trainer.hparams.text import parse

_TOGETHER = {'predict': ensemble.predict, 'export': ensemble.export, 'suspects': suspects.of_folds}  # Schedules of all folds.
_OF_ALL = ('output_dir', 'folds', 'jobs', 'model', 'dataset')  # Flags that are not for a fold.


def are_asked_for(FLAGS: absl_flags.FlagValues) -> bool:
    """Whether a command is about folds: it asks for some, or its output_dir has some."""
    return bool(FLAGS.folds or flags.has_output_dir(FLAGS) and folds.load(flags.output_dir(FLAGS)))


def run(FLAGS: absl_flags.FlagValues, stop: StopOnSignal, hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Trains folds, or predicts with all of them or exports them, and returns the result.

    Args:
      hparams: those of a Python program, with values of their types.

    Raises:
      UsageError: the flags or the data are wrong, or those of other folds in the directory.
      RunError: a fold fails, or has not finished before it is used.
    """
    tf_config.refuse(os.environ, 'folds')
    directory = flags.output_dir(FLAGS)
    saved = {} if FLAGS.overwrite else folds.load(directory)
    if FLAGS.schedule in _TOGETHER:
        return run_together(FLAGS, directory, saved[folds.COUNT], stop)
    if FLAGS.schedule not in ('train_and_evaluate', 'dry_run'):
        raise UsageError(
            f'--schedule={FLAGS.schedule} takes one run, but {directory} has folds: give the --output_dir of one, such as '
            f'{folds.directories(directory, 1)[0]}'
        )
    objects = request.Objects(hparams={**_take(FLAGS, saved), **hparams})
    if not FLAGS.folds:
        raise UsageError(f'--output_dir={directory} has {saved[folds.COUNT]} folds: give --folds={saved[folds.COUNT]}, too')
    _check(FLAGS, directory, objects)
    if FLAGS.schedule == 'dry_run':
        return _dry_run(FLAGS, stop, objects)
    return _train(FLAGS, directory, stop, objects)


def _take(FLAGS, saved):
    """Sets flags that a command does not give beside its output_dir to those with which the folds began.

    Returns the hyper-parameters that a Python program gave then.
    """
    if not saved or FLAGS['model'].present or FLAGS['dataset'].present:
        return {}
    for name, value in {**saved[folds.FLAGS], 'folds': saved[folds.COUNT]}.items():
        if name in FLAGS and not FLAGS[name].present:
            flags.set_value(FLAGS, name, value)
    return saved[folds.HPARAMS]


def _check(FLAGS, directory, objects):
    """Raises UsageError if flags are not for folds."""
    if is_remote(directory):
        raise UsageError(f'--output_dir={directory}: folds need a local directory')
    if FLAGS.folds == 1:
        raise UsageError('--folds=1 leaves nothing to train on: give 2 or more')
    refused = [name for name in names_with(Trait.NOT_IN_TRIALS) if FLAGS[name].present]
    if given := [name for name in refused if name not in ('schedule', 'overwrite', 'folds')]:
        one = folds.directories(directory, 1)[0]
        raise UsageError(*(f'--{name} is not for folds: give it with the --output_dir of one, such as {one}' for name in given))
    if twice := {'folds', 'fold'} & {*parse(FLAGS.hparams), *objects.hparams}:
        raise UsageError(f'--hparams: {sorted(twice)[0]} is set by --folds={FLAGS.folds}: omit it')


def _dry_run(FLAGS, stop, objects):
    text = ','.join(filter(None, [FLAGS.hparams, f'folds={FLAGS.folds},fold=1']))
    FLAGS.folds, FLAGS.hparams, FLAGS.output_dir = 0, text, folds.directories(flags.output_dir(FLAGS), 1)[0]
    return request.run(FLAGS, stop, None, objects)


def _train(FLAGS, directory, stop, objects):
    if not FLAGS.overwrite:
        folds.check_count(directory, FLAGS.folds)
    _, dataset, params = request.load(FLAGS, objects)
    of_folds = build.HParams({**params, 'folds': FLAGS.folds})
    _check_data(DataSource(dataset, FLAGS.data_dir, of_folds))
    same = {f'--{name}': FLAGS[name].value for name in names_with(Trait.SAME_IN_TRIALS)}

    def find_data():
        return shared_data.find(dataset, FLAGS.data_dir, of_folds, [params.train_split, 'eval', *FLAGS.eval_splits])

    data = find_data()
    run_dir.ensure_writable(directory)
    with run_dir.lock(directory):
        folds.refuse_run(directory)
        if FLAGS.overwrite:
            _delete(FLAGS, directory)
        folds.save(directory, FLAGS.folds, {**params, **same}, _kept(FLAGS), objects.hparams, data)
        given = [f'--model={FLAGS.model}', f'--dataset={FLAGS.dataset}']
        given += flags.arguments(FLAGS, but_for=Trait.SET_IN_TRIALS | Trait.NOT_IN_TRIALS)
        with forks.make_server(['trials', 'ending']) or contextlib.nullcontext() as server:
            folds.FoldRunner(starter([], (), server), given, params, directory, FLAGS.folds).train(FLAGS.jobs, stop)
        folds.check_unchanged(directory, data, find_data())
        results = read_results(directory, FLAGS.folds)
        fold_table.save(results, directory)
        for line in fold_table.to_lines(results):
            tf.logging.info('%s', line)
        result: dict[str, Any] = {'folds': FLAGS.folds, 'output_dir': directory}
        for split, metrics in fold_table.summarize(results).items():
            result[split] = {metric: {name: to_json(value) for name, value in of.items()} for metric, of in metrics.items()}
        run_dir.save_results(directory, result)
    return result


def _kept(FLAGS):
    """Returns the flags, {name: value}, with which the directory alone resumes the folds."""
    left_out = Trait.NOT_IN_TRIALS | Trait.COMMAND_LINE
    names = [name for name, entry in TABLE.items() if FLAGS[name].present and not entry.traits & left_out]
    given = {name: FLAGS[name].value for name in names if name not in ('jobs', 'output_dir')}
    return {**given, 'model': FLAGS.model, 'dataset': FLAGS.dataset, 'data_dir': absolute(FLAGS.data_dir)}


def _check_data(source):
    """Prepares the data of the first fold, so that what is wrong with it, or cannot be divided, is said here and at once."""
    with tf.Graph().as_default():
        if source.has_input_fn():
            source.make_batches(source.params.train_split)
        source.prepare()
        source.read('eval')


def _delete(FLAGS, directory):
    """Deletes the runs of earlier folds, and at last what they share: a run of other settings must not pass for finished."""
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if name.startswith('fold_') and os.path.exists(run_dir.hparams_path(path)):
            with start_over.locked(path, flags.to_options(FLAGS)):
                start_over.delete(path)
    with contextlib.suppress(FileNotFoundError):
        os.remove(folds.path_of(directory))


def read_results(directory: str, count: int) -> list[dict[str, Any]]:
    """Returns the results of finished folds: 'fold', 'output_dir', 'global_step', and {metric: value} of each split.

    They are of the best checkpoint if the run asked for one, else of the last.

    Raises:
      RunError: a fold's metrics.csv is gone or corrupt.
    """
    results = []
    for number, path in enumerate(folds.directories(directory, count), 1):
        if not (evaluated := read_evaluations(path)):
            raise RunError(f'{metrics_path(path)}: has no evaluation: restore it, or delete {path} to train this fold again')
        last = evaluated[-1]
        found = chosen_checkpoint.with_best(last, path, saved_flags.load(path))
        results.append({'fold': number, 'output_dir': path, **found.get('best', last)})
    return results


def run_together(FLAGS: absl_flags.FlagValues, directory: str, count: int, stop: StopOnSignal) -> dict[str, Any]:
    """Runs the schedule predict, export or suspects with all folds; see `common.runs.ensemble`.

    Raises:
      RunError: a fold has not finished.
    """
    check_finished(directory, count)
    given = {name: FLAGS[name].value for name in TABLE if FLAGS[name].present and name not in _OF_ALL}
    with contextlib.ExitStack() as cleanup:
        experiments = []
        for path in folds.directories(directory, count):
            of_fold = flags.from_values({**given, 'output_dir': path})
            experiments.append(cleanup.enter_context(request.opened(of_fold, request.Objects(), stop)))
        return _TOGETHER[FLAGS.schedule](experiments, directory)


def check_finished(directory: str, count: int) -> None:
    """Raises RunError if a fold has not finished."""
    for path in folds.directories(directory, count):
        if not folds.is_finished(path):
            raise RunError(f'{path} has not finished: train the folds to the end with --output_dir={directory}')

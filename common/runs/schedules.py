"""The schedules: RUN maps each name to a function from an Experiment to the result to print."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import copy
import functools
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.console import filtered_log
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import to_json
from estimator_trainer.common.inference.checkpoint_estimator import at
from estimator_trainer.common.inference.prediction import predict_split
from estimator_trainer.common.monitoring import hparams_tab, profiler
from estimator_trainer.common.plugins import code
from estimator_trainer.common.plugins.own_train import OwnTrain
from estimator_trainer.common.runs import baselines, chosen_checkpoint, decision, saved_dataset, saved_flags
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.export_schedule import export
from estimator_trainer.common.runs.find_learning_rate import find_learning_rate
from estimator_trainer.common.runs.inference_schedules import predict
from estimator_trainer.common.runs.recorder import recording
from estimator_trainer.common.runs.recording import AfterStart
from estimator_trainer.common.runs.report import report
from estimator_trainer.common.runs.seen import seen
from estimator_trainer.common.runs.serve_schedule import serve
from estimator_trainer.common.runs.suspects import suspects
from estimator_trainer.common.storage import best_checkpoint, checkpoints, run_dir
from estimator_trainer.common.storage.metrics import (
    add_metrics,
    evaluations_since_best,
    read_evaluations,
    read_metric,
    warn_of_nan,
)
from estimator_trainer.common.storage.metrics_file import read_rows
from estimator_trainer.common.storage.restore import (
    CheckpointGone,
    ModelChanged,
    new_variables,
    unknown_variables,
    without_slots,
)
from estimator_trainer.common.storage.status import State
from estimator_trainer.common.training.effects import used, warn_of_unread
from estimator_trainer.common.training.minimize import LOSS_SCALING_VARIABLES
from estimator_trainer.common.training.saving import NOT_FINITE_HINT, EvaluateAfterSave


def train(experiment: Experiment, saving_listeners: Sequence[tf.train.CheckpointSaverListener] = ()) -> dict[str, Any]:
    """Trains up to train_steps, resuming from the latest checkpoint."""
    step, output_dir = _latest_step(experiment), experiment.output_dir
    task, source = experiment.task, experiment.source
    at_start = [experiment.record]  # Of a run that resumes, nothing is recorded before its session stands.
    if task.is_chief and (step < experiment.train_steps or not saved_dataset.load(output_dir)):
        evaluated = [evaluator.split for evaluator in experiment.evaluators]
        save = saved_dataset.saving(output_dir, source, step > 0, evaluated)
        if 0 < step < experiment.train_steps:
            at_start.append(save)
        else:
            save()
    if task.is_chief and task.members:  # Even if nothing is left to train: the first one has the result.
        run_dir.add_tasks(output_dir, step, task.members)
    if step >= experiment.train_steps:
        experiment.status.reach(step)
        # A command that is repeated is no mistake, and with parameter servers, a run passes its last step.
        is_past = step > experiment.train_steps and task.shares_steps
        text = 'Nothing to train: step %d is reached, and training ends at %d; raise --train_steps or --num_epochs to continue.'
        tf.logging.log(tf.logging.WARN if is_past else tf.logging.INFO, text, step, experiment.train_steps)
        return {'global_step': step}
    if not task.start(lambda: _facts(experiment)):
        tf.logging.info('The chief has nothing to train.')
        return {'global_step': step}
    task.recognize(source.params)
    try:
        with (
            _explaining_errors(experiment, step),
            task.naming_lost_tasks(),
            hparams_tab.session(output_dir, lambda: used(source.params, source.names_read, source.has_input_fn())) as shown,
            _final_loss(experiment.stop),
            recording(experiment) as (also_at_start, recorders),
        ):
            hooks = [shown, *map(AfterStart, [*at_start, *also_at_start])]
            listeners = [*recorders, *saving_listeners]
            experiment.estimator.train(experiment.train_input_fn, hooks, None, experiment.train_steps, listeners)
    finally:
        experiment.stop.end(None)  # Even after an error, whose diagnosis may take long.
        profiler.stop()
    step = _latest_step(experiment) if task.is_chief else task.last_step
    experiment.status.reach(step)
    for line in experiment.times.describe():
        tf.logging.info('%s', line)
    experiment.stop.exit_if_received()
    return {'global_step': step}


def _facts(experiment: Experiment) -> dict[str, str]:
    """Returns what the tasks of a cluster compare once their data is there, {name: checksum}."""
    digests = code.digests([experiment.model, experiment.source.module])
    digests.pop('__main__', None)  # Each task may have a program of its own.
    of_code = {f'the checksum of the code of {name}': digest for name, digest in digests.items() if digest}
    return {**of_code, **saved_dataset.facts(experiment.source)}


@contextlib.contextmanager
def _explaining_errors(experiment: Experiment, step: int) -> Iterator[None]:
    """Within the block, which trains from a step on, errors about the loss and the checkpoint say the cause and the cure."""
    try:
        yield
    except tf.estimator.NanLossDuringTrainingError:  # On a worker, whose own hooks follow the Estimator's.
        last_step = max(experiment.task.last_step, step)
        raise RunError(f'the loss of a step after step {last_step} is nan: {NOT_FINITE_HINT}') from None
    except tf.errors.NotFoundError as error:
        missing = re.search(r'Key (\S+) not found in checkpoint', error.message)
        if not missing:
            raise
        raise _unlike_checkpoint(experiment, missing.group(1), error.op.graph) from None
    except ModelChanged as error:
        raise _changed(experiment, error.checkpoint_path, error.changes) from None


def _final_loss(stop):
    """Within the returned context, the Estimator says its last loss only if training was not stopped: it would not be final."""
    return filtered_log(lambda record: not (stop.received and str(record.msg).startswith('Loss for final step')))


def _unlike_checkpoint(experiment, name, graph):
    """Returns the error for a checkpoint without variables of the training graph, one of which has this name."""
    checkpoint, freeze = experiment.estimator.latest_checkpoint(), experiment.options.freeze
    again = f'or start from it in another --output_dir, with --warm_start_from={checkpoint}'
    if name.rpartition('/')[2] in LOSS_SCALING_VARIABLES:
        reason = 'was not trained with --precision=float16, and has no loss scale: use the --precision it was trained with'
        return RunError(f'{checkpoint}: {reason}, {again}')
    if saved_flags.load(experiment.output_dir).get('freeze', freeze) != freeze:
        return RunError(f'{checkpoint}: has no variable {name}: use the --freeze with which the run began, {again}')
    with graph.as_default():
        found = {'new': new_variables(checkpoint), 'gone': without_slots(unknown_variables(checkpoint, trains=True))}
    return _changed(experiment, checkpoint, '; '.join(f'{kind}: {", ".join(names)}' for kind, names in found.items() if names))


def _changed(experiment, checkpoint, changes):
    text = (
        f'{checkpoint}: --model={experiment.params.model} has changed since this run ({changes}): restore its code, '
        f'continue in another --output_dir with --warm_start_from={checkpoint}, or start over with --overwrite'
    )
    return ModelChanged(checkpoint, changes, text)


def evaluate(experiment: Experiment, checkpoint_path: str | None = None) -> dict[str, Any]:
    """Evaluates a checkpoint, by default that of --checkpoint, on all splits, or on the files of --input.

    The metrics of splits are added to metrics.csv; those of files, which may be any, are only returned.
    """
    if not checkpoint_path:
        decision.warn_of_metrics(experiment.params)
        given, evaluate_one = experiment.options.checkpoint, functools.partial(evaluate, experiment)
        found = chosen_checkpoint.use(experiment.output_dir, given, evaluate_one)
        baselines.warn(found)
        return found
    if _is_recorded(experiment, checkpoint_path):
        read_rows(experiment.output_dir)  # A corrupt file fails before the evaluation, which may take long.
    return _record(experiment, checkpoint_path, _measure(experiment, checkpoint_path))


def _measure(experiment, checkpoint_path):
    result: dict[str, Any] = {}
    for evaluator in experiment.evaluators:
        metrics = evaluator.evaluate(checkpoint_path)
        result['global_step'] = metrics.pop('global_step')
        # Bytes are serialized summaries, such as images, for TensorBoard only.
        result[evaluator.split] = {
            name: to_json(value) for name, value in sorted(metrics.items()) if not isinstance(value, bytes)
        }
    warn_of_nan(result)
    return result


def _record(experiment, checkpoint_path, result):
    if _is_recorded(experiment, checkpoint_path):
        add_metrics(experiment.output_dir, result)
    if experiment.on_metrics:
        experiment.on_metrics(copy.deepcopy(result))
    return result


def _is_recorded(experiment, checkpoint):
    """Whether metrics.csv gets the evaluation of a checkpoint."""
    return checkpoints.is_of(experiment.output_dir, checkpoint) and not experiment.options.input


def train_and_evaluate(experiment: Experiment) -> dict[str, Any]:
    """Trains, evaluates its checkpoints, keeps the best, and stops early if the objective does not improve."""
    return _with_best(experiment, _train_and_evaluate(experiment))


def _train_and_evaluate(experiment):
    result = _evaluate_and_keep(experiment) if _has_missed_an_evaluation(experiment) else None
    if _should_stop(experiment):
        return result or _evaluate_and_keep(experiment)
    listener = EvaluateAfterSave(
        functools.partial(_evaluate_and_keep, experiment),
        functools.partial(_should_stop, experiment),
        experiment.stop,
        experiment.eval_every_steps,
        experiment.times,
        # An iteration may end at any step, after which a run that resumes has no step of it.
        lambda: isinstance(experiment.estimator, OwnTrain) and _lacks_evaluation(experiment),
    )
    train(experiment, [listener])
    if listener.result:  # Otherwise a graph may be missing, and with it what reads a hyper-parameter.
        source = experiment.source
        warn_of_unread(experiment.model, source.params, source.names_read, source.has_input_fn(), source.given)
    return listener.result or result or _evaluate_again(experiment)


def _evaluate_again(experiment):
    """Evaluates the latest checkpoint of a run with nothing left to train, on data that may have changed meanwhile."""
    if saved := saved_dataset.load(experiment.output_dir):
        saved_dataset.warn_of_changes(experiment.source, saved, [evaluator.split for evaluator in experiment.evaluators])
    return _evaluate_and_keep(experiment)


def _with_best(experiment, result):
    found = chosen_checkpoint.with_best(result, experiment.output_dir, vars(experiment.options))
    baselines.warn(found.get('best', found))
    return found


def _has_missed_an_evaluation(experiment):
    """Whether the run was interrupted between saving a checkpoint and evaluating it."""
    step = _latest_step(experiment)
    return step > 0 and step % experiment.eval_every_steps == 0 and _lacks_evaluation(experiment)


def _lacks_evaluation(experiment):
    step = _latest_step(experiment)
    splits = {result['global_step']: result.keys() for result in read_evaluations(experiment.output_dir)}.get(step, ())
    return not all(evaluator.split in splits for evaluator in experiment.evaluators)


def _evaluate_and_keep(experiment, checkpoint_path=None):
    output_dir = experiment.output_dir
    path = checkpoint_path or experiment.estimator.latest_checkpoint()
    experiment.status.enter(State.EVALUATING)
    result = _measure(experiment, path)
    best_checkpoint.keep_if_best(path, output_dir, experiment.objective, experiment.evaluators[0].split, result)
    _record(experiment, path, result)  # The last: what metrics.csv has is not evaluated again after a restart.
    experiment.status.evaluated(result)
    return result


def _should_stop(experiment):
    """Whether the objective has not improved for early_stopping_patience evaluations, including those before a restart."""
    options = experiment.options
    if not options.early_stopping_patience:
        return False
    output_dir, split, metric = experiment.output_dir, options.eval_splits[0], experiment.objective.metric
    values = read_metric(output_dir, split, metric, _latest_step(experiment))  # Later checkpoints may have been lost.
    since = evaluations_since_best(values, experiment.objective, options.early_stopping_min_delta)
    is_over = since >= options.early_stopping_patience
    if is_over:
        tf.logging.info(
            f'Stopping early: {metric} has not improved for {since} evaluations '
            f'(--early_stopping_patience={options.early_stopping_patience}; a larger one trains on).'
        )
    return is_over


def continuous_eval(experiment: Experiment) -> dict[str, Any]:
    """Evaluates every new checkpoint from another process, up to that of train_steps, and keeps the best."""
    tf.logging.info('Waiting for checkpoints in %s up to step %d.', experiment.output_dir, experiment.train_steps)
    read_rows(experiment.output_dir)
    for path in checkpoints.new_checkpoints(experiment.output_dir, experiment.train_steps, experiment.options.eval_timeout):
        try:
            result = _evaluate_and_keep(experiment, path)
        except CheckpointGone:
            tf.logging.warning('%s was deleted before it could be evaluated; a larger --keep_checkpoint_max keeps more.', path)
            continue
        if result['global_step'] >= experiment.train_steps:
            return _with_best(experiment, result)
    raise AssertionError('the iterator has no end')


def dry_run(experiment: Experiment) -> dict[str, Any]:
    """Trains and evaluates one step, and predicts one batch."""
    result = _train_and_evaluate(experiment)
    checkpoint = experiment.estimator.latest_checkpoint()
    estimator = at(experiment.estimator, checkpoint)
    next(predict_split(estimator, experiment.source, experiment.options.eval_splits[0], checkpoint))
    return result


def _latest_step(experiment):
    """Returns the step of the latest checkpoint; 0 if there is none."""
    checkpoint = experiment.estimator.latest_checkpoint()
    return checkpoints.global_step(checkpoint) if checkpoint else 0


RUN: Mapping[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function
    for function in (
        train_and_evaluate,
        train,
        evaluate,
        continuous_eval,
        predict,
        export,
        serve,
        report,
        suspects,
        seen,
        find_learning_rate,
        dry_run,
    )
}

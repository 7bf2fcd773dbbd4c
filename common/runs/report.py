"""The schedule report: what the output_dir of a run has, and the predictions of a split, as one HTML page."""

import functools
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import write
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.report import curves, page
from estimator_trainer.common.report import run_facts as facts
from estimator_trainer.common.report.curves import Best
from estimator_trainer.common.runs import chosen_checkpoint, saved_flags, tracking
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.inference_schedules import check_finite
from estimator_trainer.common.runs.reported_predictions import parts_of_mistakes, parts_of_predictions
from estimator_trainer.common.storage import best_checkpoint, checkpoints, run_dir
from estimator_trainer.common.storage.history import read_history
from estimator_trainer.common.storage.metrics import read_evaluations
from estimator_trainer.common.storage.objective import parse_objective
from estimator_trainer.hparams import overrides


def report(experiment: Experiment) -> dict[str, Any]:
    """Writes output_dir/report.html, about the run and its predictions for --predict_split."""
    page.check_installed()
    check_finite(experiment.source, experiment.options.predict_split)
    output_dir, given = experiment.output_dir, experiment.options.checkpoint
    return chosen_checkpoint.use(output_dir, given, functools.partial(_write, experiment))


def _write(experiment, checkpoint):
    output_dir = experiment.output_dir
    path = run_dir.report_path(output_dir)
    write(path, page.render({**_parts_of_run(output_dir, experiment.source), **parts_of_predictions(experiment, checkpoint)}))
    tracking.attach_report(experiment)
    return {'global_step': checkpoints.global_step(checkpoint), 'report': path}


def _read(output_dir):
    """Returns what a run has written about itself: its flags, its status, all evaluations and the best one."""
    evaluations, best = read_evaluations(output_dir), best_checkpoint.evaluation(output_dir)
    return saved_flags.load(output_dir), run_dir.read_status(output_dir), evaluations, best


def overview(output_dir: str, model: str, dataset: str) -> dict[str, Any]:
    """Returns the variables of the page that say how a run is: its state, the latest and best metrics, and the curves.

    Args:
      output_dir: of a run with a checkpoint.
      model, dataset: their names.
    """
    return _overview(_read(output_dir), output_dir, model, dataset)


def _overview(found, output_dir, model, dataset):
    flags, status, evaluations, best = found
    objective, split = parse_objective(flags.get('best_metric')), (flags.get('eval_splits') or ['eval'])[0]
    charts, omitted = curves.draw(read_history(output_dir), Best(objective, split, best['global_step'] if best else None))
    step, end = status.get('global_step') or checkpoints.steps(output_dir)[-1], status.get('train_steps')
    return {
        'output_dir': output_dir,
        'model': model,
        'dataset': dataset,
        'state': facts.state_of(status, flags.get('early_stopping_patience', 0)),
        'steps': f'{step:,} of {end:,} steps' if end else f'{step:,} steps',
        'tiles': facts.tiles(evaluations[-1] if evaluations else None, best, split, objective.metric),
        'curves': charts,
        'omitted_curves': omitted,
    }


def mistakes_page(experiment: Experiment, count: int) -> str:
    """Returns a page with the worst mistakes alone, up to `count`, for a notebook."""
    check_finite(experiment.source, experiment.options.predict_split)
    output_dir, given, params = experiment.output_dir, experiment.options.checkpoint, experiment.params

    def render(checkpoint):
        parts = parts_of_mistakes(experiment, checkpoint, count)
        return page.render({'model': params.model, 'dataset': params.dataset, **parts}, 'mistakes.html.jinja')

    return chosen_checkpoint.use(output_dir, given, render)


def _parts_of_run(output_dir: str, source: DataSource) -> dict[str, Any]:
    """Returns the variables of the page that come from the files of a run."""
    found, params = _read(output_dir), source.params
    flags, status, evaluations, best = found
    columns, metrics = curves.of_metrics(evaluations, best)
    end = status.get('train_steps') or status.get('global_step') or checkpoints.steps(output_dir)[-1]
    patterns = [*getattr(source.module, 'INPUT_PATTERNS', ())]
    return {
        **_overview(found, output_dir, params.model, params.dataset),
        'metric_columns': columns,
        'metrics': metrics,
        'summary': _summary(output_dir, source),
        'hparams': facts.changed(params, flags.get(saved_flags.REPLACED, {})),
        'overridden': facts.overridden(overrides.read_history(run_dir.hparams_path(output_dir))),
        'flags': facts.flags_of(flags, vars(Options())),
        'time': facts.time_of(status),
        'shares': facts.time_by_part(output_dir),
        'environment': facts.environment(),
        'commands': facts.commands(output_dir, end, patterns),
    }


def _summary(output_dir, source):
    """Returns the text about the training data that the run has kept, or else the dataset's; '' if there is none."""
    path = run_dir.summary_path(output_dir)
    if not tf.io.gfile.exists(path):
        return source.summary().rstrip()
    with tf.io.gfile.GFile(path, 'rb') as file:
        return file.read().decode(errors='replace').rstrip()

"""Runs side by side, from the files in their output_dirs. Imports neither TensorFlow nor NumPy."""

from collections.abc import Mapping, Sequence
import json
import math
import os
from typing import Any, NamedTuple

from estimator_trainer.common import json_text
from estimator_trainer.common.errors import in_one_line
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from estimator_trainer.common.storage import metrics_table
from estimator_trainer.common.storage.objective import Objective, parse_objective
from estimator_trainer.hparams.defaults import DEFAULTS
from estimator_trainer.hparams.text import to_text

# On which weights or metrics depend. A resume ignores warm_start_from, so it lacks the trait.
_FLAGS = (*names_with(Trait.CHANGES_RESULT), 'warm_start_from', 'eval_splits', 'eval_steps')
_ANOTHER = '--best_metric=METRIC:max, or :min, names another'
_LOWER = ('loss', 'rmse', 'error', 'frechet_distance')  # These names, or others with _ and one of these as their end.
_USUAL = ('accuracy', 'rmse')
_MAX_METRICS = 5  # Of a table.
_MAX_PROBLEMS = 8
_HIGHER = (
    *('accuracy', 'auc', 'precision', 'recall', 'f1', 'f1_macro', 'best_f1', 'average_precision', 'r2', 'exact_match'),
    'auc_precision_recall',
)


class Run(NamedTuple):
    """What the files of a run say.

    Attributes:
      name: relative to the directory that all runs are in.
      step: the last one; None if unknown.
      settings: hyper-parameters, and flags on which the result depends.
      best_metric: the flag; None for its default.
      evaluations: of the first split: (step, {metric: number}).
      training: (step, loss) of each line of the log.
      problems: a line for each file that cannot be read.
    """

    name: str
    output_dir: str
    state: str
    step: int | None
    settings: Mapping[str, Any]
    best_metric: str | None
    evaluations: Sequence[tuple[int, Mapping[str, float]]]
    training: Sequence[tuple[int, float]]
    problems: Sequence[str]


class Comparison(NamedTuple):
    """Runs, the best first, with the evaluation of each that counts, or None.

    metrics and settings are the names of those that are compared, notes lines about what is shown.
    """

    runs: Sequence[Run]
    chosen: Sequence[tuple[int, Mapping[str, float]] | None]
    objective: Objective
    metrics: Sequence[str]
    settings: Sequence[str]
    notes: Sequence[str]


class Table(NamedTuple):
    """Texts; numbers are the indices of columns of numbers, best (row, column) of the best ones; row 0 is the first run."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: range
    best: set[tuple[int, int]]


def read_run(name: str, output_dir: str, state: str, step: int | None) -> Run:
    """Returns what is known of a run; without its files, that is little."""
    problems: list[str] = []
    flags, hparams = (_read_json(output_dir, file, problems) for file in ('flags.json', 'hparams.json'))
    if hparams.pop('override_history', None):
        problems.append('hyper-parameters were changed on resuming: the last ones are shown')
    settings = {**DEFAULTS, **hparams} if hparams else {}
    if flags:
        defaults = {**json.loads(json.dumps(vars(Options()))), 'num_tasks': 1}  # With lists in place of tuples.
        settings |= {name: flags.get(name, defaults[name]) for name in (*_FLAGS, 'num_tasks')}
    splits, best_metric = flags.get('eval_splits'), flags.get('best_metric')
    split = str(splits[0]) if isinstance(splits, list) and splits else 'eval'
    evaluations, training = [], []
    try:
        rows = metrics_table.read(output_dir)
        evaluations = [
            (found['global_step'], _numbers(found[split])) for found in metrics_table.evaluations(rows) if split in found
        ]
        training = [(int(row['global_step']), float(row.get('loss') or 'nan')) for row in rows if row.get('mode')]
        step = max((int(row['global_step']) for row in rows), default=None) if step is None else step
    except (OSError, ValueError) as error:
        problems.append(f'metrics.csv cannot be read: {error}')
    lines = [in_one_line(f'{name}: {problem}') for problem in problems]
    return Run(name, output_dir, state, step, settings, best_metric and str(best_metric), evaluations, training, lines)


def _read_json(directory, name, problems):
    """Returns the JSON object in a file; {} if there is none."""
    path = os.path.join(directory, name)
    if not os.path.isfile(path):  # Reading a pipe would wait.
        return {}
    try:
        with open(path, encoding='utf-8-sig') as file:
            found = json_text.loads(file.read())
        if not isinstance(found, dict):
            raise ValueError('is not a JSON object')
    except (OSError, ValueError) as error:
        problems.append(f'{name} cannot be read: {error}')
        return {}
    return found


def _numbers(metrics):
    return {name: value for name, value in metrics.items() if isinstance(value, (int, float))}


def compare(runs: Sequence[Run], best_metric: str | None) -> Comparison:
    """Compares runs by an objective: the given one, or that of all of them, or else the loss.

    The evaluation that counts is the best one by the objective; without a number for it, the last one.

    Raises:
      UsageError: best_metric is malformed.
    """
    wanted = {run.best_metric for run in runs}
    objective = parse_objective(best_metric or (wanted.pop() if len(wanted) == 1 else None))
    pairs = sorted(((run, _choose(run, objective)) for run in runs), key=lambda pair: _rank(pair, objective))
    found = [set(evaluation[1]) for _, evaluation in pairs if evaluation]
    common = set.intersection(*found) if found else set()
    metrics = sorted(common, key=lambda name: (name != objective.metric, name != 'loss', name not in _USUAL, name))
    names = dict.fromkeys(name for run in runs for name in run.settings)
    settings = [name for name in names if _differs([run.settings[name] for run in runs if name in run.settings])]
    notes = _notes(pairs, objective, sorted(set().union(*found) - common), bool(wanted) and not best_metric)
    if len(metrics) > _MAX_METRICS:
        notes.append(f'Not in the table: {", ".join(metrics[_MAX_METRICS:])}.')
    return Comparison([run for run, _ in pairs], [one for _, one in pairs], objective, metrics, settings, notes)


def _differs(values):
    return any(value != values[0] for value in values)


def _choose(run, objective):
    best = objective.best(metrics.get(objective.metric, math.nan) for _, metrics in run.evaluations)
    of_best = (evaluation for evaluation in run.evaluations if evaluation[1].get(objective.metric) == best)
    return next(of_best if best is not None else reversed(run.evaluations), None)


def _rank(pair, objective):
    run, evaluation = pair
    value = evaluation[1].get(objective.metric, math.nan) if evaluation else math.nan
    return value != value, -value if objective.is_max else value, run.name


def _notes(pairs, objective, missing, do_differ):
    metric, chosen = objective.metric, [evaluation for _, evaluation in pairs if evaluation]
    if not chosen:
        notes = ['No run has an evaluation of its first split: --schedule=evaluate --output_dir=RUN adds one.']
    elif not any(metric in metrics for _, metrics in chosen):
        notes = [f'No run has the metric {metric}, so the metrics are the last ones: {_ANOTHER}.']
    else:
        notes = [f'Metrics are those at the {"highest" if objective.is_max else "lowest"} {metric} of each run.']
    if _differs([run.settings['dataset'] for run, _ in pairs if 'dataset' in run.settings]):
        notes.append('The runs are of different datasets: their metrics cannot be compared.')
    if do_differ:
        notes.append(f'The runs differ in --best_metric, and are sorted by {metric}: {_ANOTHER}.')
    if missing:
        notes.append(f'Only some runs have {", ".join(missing)}: left out.')
    problems = [problem for run, _ in pairs for problem in run.problems]
    rest = [f'{len(problems) - _MAX_PROBLEMS:,} lines like these are left out.'] if len(problems) > _MAX_PROBLEMS else []
    return [*notes, *problems[:_MAX_PROBLEMS], *rest]


def is_max(metric: str, objective: Objective) -> bool | None:
    """Whether higher values of a metric are better; None if that is unknown."""
    if metric == objective.metric:
        return objective.is_max
    if metric.endswith(tuple(f'_{name}' for name in _LOWER)) or metric in _LOWER:
        return False
    return True if metric in _HIGHER or metric.endswith('_accuracy') else None


def as_table(found: Comparison) -> Table:
    """Returns the texts of a table with a row for each run."""
    has_steps = any(evaluation and evaluation[0] != run.step for run, evaluation in zip(found.runs, found.chosen))
    shown, first = found.metrics[:_MAX_METRICS], 3 + has_steps
    columns = ['run', 'state', 'step', *['metrics at'] * has_steps, *shown, *found.settings]
    rows = []
    for run, evaluation in zip(found.runs, found.chosen):
        step, metrics = evaluation or (None, {})
        cells = [run.name, run.state, _step(run.step), *[_step(step)] * has_steps]
        cells += [number(metrics[name]) if name in metrics else '' for name in shown]
        rows.append([in_one_line(cell) for cell in [*cells, *(_text(run.settings.get(name)) for name in found.settings)]])
    best = {(row, first + column) for column, name in enumerate(shown) for row in _best(found, name)}
    return Table(columns, rows, range(2, first + len(shown)), best)


def _step(step):
    return '' if step is None else f'{step:,}'


def _text(value):
    if isinstance(value, float):
        return f'{value:.6g}'
    return '' if value is None else to_text(value)


def number(value: float) -> str:
    """Returns a number with four digits."""
    return f'{value:.4g}'


def _best(found, name):
    """Returns the rows with the best value of a metric; [] if all have it, or what is better is unknown."""
    direction = is_max(name, found.objective)
    values = [evaluation[1][name] if evaluation else math.nan for evaluation in found.chosen]
    best = None if direction is None else Objective(name, direction).best(values)
    rows = [row for row, value in enumerate(values) if value == best]
    return rows if len(rows) < len([value for value in values if value == value]) else []


def as_dicts(found: Comparison) -> list[dict[str, Any]]:
    """Returns a dict for each run, the best first: see `api.compare`."""
    return [
        {
            'run': run.name,
            'output_dir': run.output_dir,
            'state': run.state,
            'step': run.step,
            'metrics_step': evaluation[0] if evaluation else None,
            'metrics': {name: evaluation[1][name] for name in found.metrics} if evaluation else {},
            'settings': {name: run.settings.get(name) for name in found.settings},
        }
        for run, evaluation in zip(found.runs, found.chosen)
    ]

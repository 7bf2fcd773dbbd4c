"""The schedule suspects: which training examples are probably labeled wrongly, and which are in the evaluation's data, too."""

from collections.abc import Iterator, Sequence
import dataclasses
import functools
import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import write
from estimator_trainer.common.inference import duplicates
from estimator_trainer.common.inference import suspects as found_suspects
from estimator_trainer.common.inference.duplicates import Found
from estimator_trainer.common.inference.outcome import outcome
from estimator_trainer.common.inference.suspects import Ranked, Scored
from estimator_trainer.common.pipeline import identity
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.common.records.elements import INFINITE
from estimator_trainer.common.report import mistakes, page, rows
from estimator_trainer.common.report.charts import number
from estimator_trainer.common.report.predicted import is_comparable
from estimator_trainer.common.runs import chosen_checkpoint, saved_dataset
from estimator_trainer.common.runs.drawn import records_of_steps
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.reported_slices import raw_columns, read_records
from estimator_trainer.common.runs.reported_tasks import NONE, predictions_of
from estimator_trainer.common.storage import checkpoints, margins_file
from estimator_trainer.common.targets import why_no_class

_MARGIN = 'the logit of the label minus the largest other one'
BY_AREA = f'the area under the margin, the mean over the epochs of {_MARGIN}'
BY_FOLDS = f'the margin, {_MARGIN}, as the fold predicts it that has not trained on the example'
_CSV, _PAGE, _DUPLICATES = 'suspects.csv', 'suspects.html', 'duplicates.csv'
_MAX_SHOWN = 100  # Duplicates on the page.
_MAX_COLUMNS = 12
_COMPARED = 200_000  # Examples of each split that are compared: thumbnails take 200 MB.


def suspects(experiment: Experiment) -> dict[str, Any]:
    """Ranks the training examples of a run by the margins that it has recorded."""
    output_dir = experiment.estimator.model_dir
    _check_task(experiment)
    if not margins_file.exists(output_dir):
        raise UsageError(
            f'--schedule=suspects: {output_dir} has no margins: train with --record_margins from the beginning, or with --folds'
        )
    if count_examples(experiment.source, experiment.source.params.train_split, at_most=1) == INFINITE:
        raise UsageError('--schedule=suspects: the training split is infinite, so no example has several epochs')
    saved_dataset.check_same(experiment.source, output_dir)
    _check_corrections(output_dir)
    scores = _areas(experiment)
    return chosen_checkpoint.use(output_dir, experiment.options.checkpoint, functools.partial(_of_run, experiment, scores))


def _of_run(experiment, scores, checkpoint):
    ranked = found_suspects.rank(
        _scored(experiment, checkpoint, experiment.source.params.train_split, scores), experiment.options.top
    )
    if missing := ranked.total - int(np.isfinite(scores).sum()):
        tf.logging.warning('%d of %d training examples have no margins, and are not ranked.', missing, ranked.total)
    result = _write([experiment], experiment.estimator.model_dir, ranked, BY_AREA)
    return {'global_step': checkpoints.global_step(checkpoint), **result}


def of_folds(experiments: Sequence[Experiment], output_dir: str) -> dict[str, Any]:
    """Ranks the training examples of folds, each by the prediction of the fold that has not trained on it."""
    _check_task(experiments[0])
    for experiment in experiments:
        saved_dataset.check_same(experiment.source, experiment.output_dir, ['eval'])
    _check_corrections(output_dir)

    def scored():
        for experiment in experiments:
            use = functools.partial(chosen_checkpoint.use, experiment.estimator.model_dir, experiment.options.checkpoint)
            yield from _scored(experiment, use(str), 'eval')

    return _write(experiments, output_dir, found_suspects.rank(scored(), experiments[0].options.top), BY_FOLDS)


def _check_task(experiment):
    """Raises UsageError if no run on this data has margins."""
    params = experiment.source.params
    if found := why_no_class(params.metadata, params.get('task')):
        raise UsageError(f'--schedule=suspects ranks examples of one class each, but {found}')


def _check_corrections(output_dir):
    """Raises UsageError if labels that somebody has corrected, perhaps in a spreadsheet of another format, would be lost."""
    path = os.path.join(output_dir, _CSV)
    if tf.io.gfile.exists(path) and not found_suspects.is_untouched(path):
        raise UsageError(f'{path} has been edited, which would be lost: move it to another place')


def _areas(experiment: Experiment) -> np.ndarray:
    """Returns the area under the margin of each record of the training split, float64 [records]."""
    source, output_dir = experiment.source, experiment.estimator.model_dir
    latest = checkpoints.latest_intact(output_dir)
    step = checkpoints.global_step(latest) if latest else 0
    margins = margins_file.read(output_dir, source.params.examples_at(step))
    drawn = records_of_steps(source, output_dir, 0, step)
    return found_suspects.areas((some.numbers for some in drawn), margins)


def _scored(experiment, checkpoint, split, scores=None) -> Iterator[Scored]:
    """Yields the examples of a split with their scores, by default by their predictions."""
    source = experiment.source
    whole = source.in_whole(split, np.arange(count_examples(source, split)))[1] if source.is_part(split) else None
    for place, prediction in enumerate(predictions_of(experiment, checkpoint, split)):
        found = outcome(prediction.values)
        if found.probabilities is None or not is_comparable(found, prediction.label):
            raise UsageError(
                f'--schedule=suspects needs labels of classes, and predictions class and probabilities; --model='
                f'{source.params.model} predicts: {", ".join(prediction.values)}'
            )
        known = {name: value for name, value in prediction.fields.items() if name in identity.COLUMNS}
        known |= {} if whole is None else {identity.NUMBER: int(whole[place])}
        if source.params.folds and source.has_own_folds():
            del known[identity.NUMBER]  # Of this fold only.
        score = found_suspects.out_of_fold(found, int(prediction.label)) if scores is None else _at(scores, place)
        yield Scored(score, dataclasses.replace(prediction, fields=known), found, (experiment, split, place))


def _at(scores, place):
    return float(scores[place]) if place < len(scores) else np.nan


def _write(experiments, output_dir, ranked: Ranked, rule: str) -> dict[str, Any]:
    """Writes suspects.csv, duplicates.csv and the page; returns the result."""
    first = experiments[0]
    names = first.source.params.metadata.get('class_names')
    path = os.path.join(output_dir, _CSV)
    found_suspects.save(path, ranked.suspects, names)
    tf.logging.info('%d of %d training examples are suspects, by %s.', len(ranked.suspects), ranked.total, rule)
    result: dict[str, Any] = {'suspects': path, 'count': len(ranked.suspects), 'examples': ranked.total}
    copies = duplicates.find(first.source, _COMPARED) if len(experiments) == 1 else None
    if copies and copies.duplicates:
        result['duplicates'] = os.path.join(output_dir, _DUPLICATES)
        write(result['duplicates'], copies.to_csv(names))
        for line in copies.warnings():
            tf.logging.warning('%s.', line)
    if page.is_installed():
        result['page'] = os.path.join(output_dir, _PAGE)
        write(result['page'], page.render(_parts(first.source, ranked, rule, copies, names), 'suspects.html.jinja'))
    else:
        tf.logging.info('The page of the suspects %s.', page.NEEDS)
    return result


def _parts(source, ranked: Ranked, rule: str, copies: Found | None, names) -> dict[str, Any]:
    columns, shown = raw_columns(source), []
    records: dict[Any, Any] = {}
    for one in ranked.shown:
        experiment, split, place = one.origin
        records.setdefault((id(experiment), split), (experiment, split, []))[2].append(place)
    by_place = {
        (id(experiment), place): record
        for experiment, split, some in records.values()
        for place, record in zip(some, read_records(experiment.source, split, some))
    }
    for one in ranked.shown:
        experiment, _, place = one.origin
        cells = rows.cells(by_place[id(experiment), place], columns, source.params.metadata)
        found = mistakes.describe(one.prediction, cells, names)
        shown.append(found._replace(detail=f'score {number(one.score)}, {found.detail}'))
    return {
        **NONE,
        'model': source.params.model,
        'dataset': source.params.dataset,
        'rule': rule,
        'total': ranked.total,
        'count': len(ranked.suspects),
        'classification': True,
        'mistakes': shown,
        'mistake_columns': columns[:_MAX_COLUMNS],
        'num_columns': len(columns),
        'omitted_columns': 0,
        'duplicates': copies.rows(names)[:_MAX_SHOWN] if copies else [],
        'num_duplicates': len(copies.duplicates) if copies else 0,
    }

"""Metadata of a user's table: its features, their kinds, and the prediction task."""

from collections.abc import Mapping
import functools
import re
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, listed
from estimator_trainer.common.own_data import description, folds
from estimator_trainer.common.own_data.alarm import warn_of_unknown
from estimator_trainer.common.own_data.schema import (
    CATEGORICAL,
    CLASSIFICATION,
    COLUMNS,
    DATE,
    ID,
    IGNORE,
    NUMERIC,
    REGRESSION,
    TARGET,
    TEXT,
    WEIGHT,
    Schema,
    by_name,
    find_roles,
)
from estimator_trainer.common.own_data.split_rows import BadRows
from estimator_trainer.common.own_data.splits import SplitFile
from estimator_trainer.common.own_data.tables import dates
from estimator_trainer.common.own_data.tables.blocks import Table
from estimator_trainer.common.own_data.tables.cells import missing_values
from estimator_trainer.common.own_data.tables.checks import (
    CURE,
    check_readings,
    check_unread,
    may_be_id,
    warn_of_extremes,
    warn_of_totals,
)
from estimator_trainer.common.own_data.tables.columns import Settings
from estimator_trainer.common.own_data.tables.numbers import to_number
from estimator_trainer.common.own_data.tables.overview import summarize
from estimator_trainer.common.own_data.tables.survey import Column, count_values, grouped_rows, survey, trained_cells
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.own_data.vocabulary import sorted_classes, union
from estimator_trainer.hparams.build import HParams

_MAX_DISTINCT = 2 * 10**6  # In all columns together.
_MAX_CLASSES = 10**5
_MAX_INTEGER_CLASSES = 20  # More integers in a column are amounts, such as ages or years, rather than classes.
_INDEX = re.compile(r'Unnamed: \d+|__index_level_\d+__')  # As pandas calls the column of row numbers of a frame that it wrote.


def describe(
    tables: Mapping[SplitFile, Table],
    trained: SplitFile,
    schema: Schema,
    params: HParams,
    is_by_class: bool = False,
    image: description.Feature | None = None,
) -> tuple[dict[str, Any], str]:
    """Reads the tables; returns the metadata of the dataset, see datasets/table.py, and a summary for people.

    Kinds, statistics and vocabularies are from the training rows only, the names of the classes from all rows.

    Args:
      tables: those of all files.
      trained: the file with the training rows.
      schema: facts given about the columns.
      is_by_class: whether rows move between the splits of the file, as in `folds`; the metadata then names them, moved_rows.
      image: the column of the paths of pictures, if there is one.
      params: hyper-parameters: train_split, target, missing, decimal, dates, max_bad_share, and those of `tokens`.

    Raises:
      UsageError: the schema is wrong, the target is unknown, a column can be read in two ways, or there are no features.
      RunError: there are no rows, a row is invalid, or the target has only one value.
    """
    table, bad = tables[trained], BadRows(params.max_bad_share)
    named = by_name(find_roles(schema, [*filter(None, table.header)], table.path, params.target))
    targets = [name for name, role in named.items() if role == TARGET]
    kinds = _given_kinds(table, schema, named, image, params.get('group'))
    settings = Settings(
        max(_MAX_DISTINCT // len(table.header), 1000), missing_values(params.missing), params.decimal, params.dates
    )
    ids = [name for name in table.header if name.lower() == ID or may_be_id(name)]
    look = functools.partial(
        survey, table, split=params.train_split, kinds=kinds, targets=targets, counted=[*named, *ids], settings=settings
    )
    found = look(trained, bad=bad)
    if is_by_class or params.get('folds'):
        moved = _with_moved(table, trained, found, targets, schema, settings, params)
        trained, found = moved, found if moved == trained else look(moved, bad=BadRows(1))
    columns, classes, last = found
    warn_of_totals(table, columns, last)
    check_readings(table, columns, named, params.max_bad_share)
    # Of folds, whose training rows differ, all values decide, so that all have the same task.
    counted = {name: union(classes[name].values(), _MAX_CLASSES) for name in targets if params.get('folds')}
    wanted = {*targets, *(name for name, column in columns.items() if column.kind == CATEGORICAL)}
    others = {file: count_values(other, wanted, settings, bad) for file, other in tables.items() if other is not table}
    for name in targets:
        classes[name] |= {file.splits[0]: values[name] for file, values in others.items() if name in values}
    facts: dict[str, Any] = {'missing': list(params.missing)} if params.missing else {}
    facts |= {'moved_rows': sorted(trained.moved)} if is_by_class else {}
    found_targets = {
        name: _describe_target(
            columns[name], classes[name], params.train_split, table, schema.task_of(name), bad.max_share, counted.get(name)
        )
        for name in targets
    }
    facts |= description.describe_targets(table.path, found_targets, schema.is_multilabel)
    features = _describe_columns(table, columns, schema, named, params, facts, image)
    facts |= _describe_texts(table, trained, features, settings.missing, params)
    _warn_of_unknown(features, others)
    facts |= description.describe_features(table.path, COLUMNS, features, facts['task'])
    return facts, summarize(table.path, columns, facts, classes[targets[0]])


def _describe_texts(table, trained, features, missing, params):
    """Returns the vocabulary of the columns of free text in the training rows; {} if there are none."""
    names = [feature['name'] for feature in description.of_kind(features, TEXT)]
    if not names:
        return {}
    words = tokens.WordCounts(params)
    for cells in trained_cells(table, trained, params.train_split, names, missing):
        words.update(cells)
    return words.describe(params)


def _warn_of_unknown(features, others):
    """Warns of categories most of whose values in another file, {file: {name: its ValueCounts}}, are unknown."""
    for feature in description.of_kind(features, CATEGORICAL):
        for file, values in others.items():
            if found := values.get(feature['name']):
                warn_of_unknown(f'values of column {feature["name"]}', feature['vocabulary'], found.counts(), file.path)


def _with_moved(table, trained, found, targets, schema, settings, params):
    """Returns the file with the rows of its fold moved, or without folds, as `by_class` does, if one target has classes."""
    (target, *others), (columns, classes, _) = targets, found
    counted = union(classes[target].values(), _MAX_CLASSES) if params.get('folds') else None
    task = _task_of(columns[target], classes[target], schema.task_of(target), counted)
    has_classes = not others and task == CLASSIFICATION
    if not has_classes and not params.get('folds'):
        return trained

    def rows():
        for number, value, group in grouped_rows(table, target, params.get('group', ''), settings.missing):
            yield number, value if has_classes else '', group

    return folds.with_moved(trained, classes[target], rows, params)


def _given_kinds(table, schema, named, image, group=''):
    """Returns {name: its given kind, or None} of the columns to look at; warns of a column of row numbers.

    A column of groups is none of them unless its kind is given: to evaluation, each of its values is new. Nor is the column of
    the paths of pictures, if there is one.
    """
    path = image['name'] if image else None
    if path in named:
        raise UsageError(f'{table.path}: the column {path}, of the paths of pictures, is also the {named[path]}')
    if group and (group not in table.header or named.get(group) == TARGET):
        reason = (
            'is a target' if group in table.header else f'is no column of {table.path}, which has: {listed(table.header, 20)}'
        )
        raise UsageError(f'group={group} {reason}: name the column whose values must not be in two folds')
    given = {name: item['kind'] for name, item in schema.given.items()}
    kinds: dict[str, str | None] = {}
    for name in table.header:
        if not name:
            tf.logging.warning('%s: a column without a name is ignored.', table.path)
        elif name in named:
            kinds[name] = None
        elif name == group and name not in given:
            tf.logging.info('%s: the column %s is not learned from: it has the groups of folds; %s.', table.path, name, CURE)
        elif _INDEX.fullmatch(name) and name not in given:
            tf.logging.warning('%s: the column %s is ignored: pandas names row numbers so; %s.', table.path, name, CURE)
        elif name != path and given.get(name, IGNORE if schema.ignores_others else None) != IGNORE:
            kinds[name] = given.get(name)
    return kinds


def _describe_target(column, classes, split, table, task, max_bad_share, counted):
    """Returns the facts about the target; classes are the counts of its values in each split that has it; see `_task_of`."""
    place = f'{table.path}: the target {column.name}'
    if not column.profile.num_present:
        raise RunError(f'{table.path}: no row has a target to train on, in the column {column.name}')
    if column.reading and column.reading.order and task != REGRESSION:
        raise UsageError(f'{place} is a date: compute a number of days from it, or a class')
    is_integer = _is_integer(column, classes)
    if _task_of(column, classes, task, counted) == REGRESSION:
        if not task and not is_integer:
            cure = 'give "task": "classification" in --hparams=schema=FILE if they are classes'
            tf.logging.warning('%s has fractions, so its numbers are taken as amounts, a regression; %s.', place, cure)
        return _describe_numbers(column, table, max_bad_share)
    trained = classes[split].merged()
    if is_integer and not task and len(trained) > 2:
        cure = 'give "task": "regression" in --hparams=schema=FILE if they are amounts'
        tf.logging.warning('%s has %d different integers, taken as classes; %s.', place, len(trained), cure)
    return _describe_classes(column, classes, split, place)


def _task_of(column, classes, task, counted):
    """Returns the task, if given, or else by the counted values, by default those of the training rows."""
    is_integer = _is_integer(column, classes)
    return task or description.infer_task(column.is_number, is_integer, counted or column.values, _MAX_INTEGER_CLASSES)


def _is_integer(column, classes):
    return column.is_number and column.numbers.is_integer and not _has_fraction(classes.values())


def _has_fraction(classes):
    """Whether one of some values is a number, but no integer."""
    numbers = (to_number(value) for counts in classes for value in counts.counts())
    return any(number is not None and number != int(number) for number in numbers)


def _describe_numbers(column, table, max_bad_share):
    if not column.is_number:
        raise UsageError(f'{table.path}: the target {column.name} is not a number: --hparams=schema can give another task')
    check_unread(table, column, max_bad_share)
    if imprecise := _imprecise(f'{table.path}: column {column.name}', column):
        raise RunError(imprecise)
    if column.numbers.min == column.numbers.max:
        raise RunError(_constant(f'{table.path}: the target {column.name}', f'{column.numbers.min:g}'))
    warn_of_extremes(f'{table.path}: the target {column.name}', column)
    return description.describe_target(column.numbers.finish())


def _describe_classes(column, classes, split, place):
    names = union(classes.values(), _MAX_CLASSES)
    if not names.is_exact or column.profile.identifies and names.are_distinct:
        cure = 'name another, or "task": "regression" in the schema'
        raise UsageError(f'{place} has too many different values to be classes: {cure}')
    found = sorted_classes(names.values())
    if len(found) < 2:
        raise RunError(_constant(place, *found))
    description.log_classes(place, found, {each: counts.counts() for each, counts in classes.items()}, split)
    return description.describe_classes(found)


def _constant(place, value):
    return f'{place} is always {value}: there is nothing to learn'


def _imprecise(place, column):
    """Describes a column whose numbers float32 cannot distinguish; '' otherwise."""
    numbers, moments = column.numbers, column.numbers.finish()
    may_differ = numbers.min < numbers.max or column.profile.is_rounded
    if moments.is_exact_in_float32 and not (moments.is_constant and may_differ):
        return ''
    return f'{place}: the numbers around {moments.mean:g} differ too little for float32: subtract a constant'


def _describe_columns(table, columns, schema, roles, params, facts, image):
    """Returns the features, the picture first, then the columns with a role, {name: role}, including an id if one is found."""
    named = {**roles, **_find_id(columns, schema, roles)}
    features = [image] if image else []
    for name, column in columns.items():
        if name in named:
            continue
        if column.kind is None:
            reason = 'it has a different value in each row' if column.profile.num_present else 'it is empty'
            description.log_ignored(table.path, COLUMNS, name, reason)
            continue
        features.append(_feature(column, params))
        if column.kind == NUMERIC and (wrong := _imprecise(f'{table.path}: column {name}', column)):
            tf.logging.warning('%s', wrong)
    description.check_learnable(table.path, COLUMNS, features, named)
    return features + [_with_role(columns[name], role, facts) for name, role in named.items()]


def _feature(column: Column, params: HParams) -> description.Feature:
    feature = {'name': column.name, 'kind': column.kind}
    if column.kind in (CATEGORICAL, TEXT):
        return {**feature, **(column.values.describe(params) if column.kind == CATEGORICAL else {})}
    indicator = {'indicator': column.profile.num_missing > 0}
    described = column.numbers.finish().describe(params)
    if column.kind == DATE:
        numbers, order = column.numbers, column.reading.order if column.reading else dates.YMD
        origin = float(np.floor(numbers.min))
        described['mean'] -= origin
        found = dates.cycles(numbers.min, numbers.max, not numbers.is_integer)
        has_zone = column.profile.evidence.has_zone
        zone = {} if has_zone is None else {'has_zone': has_zone}
        return {**feature, **described, **indicator, 'order': order, 'origin': origin, 'cycles': found, **zone}
    return {**feature, **described, **indicator, **column.style}


def _with_role(column, role, facts):
    is_number = role == WEIGHT or role == TARGET and description.facts_of_target(facts, column.name)['task'] == REGRESSION
    return {'name': column.name, 'kind': role, **(column.style if is_number else {})}


def _find_id(columns: Mapping[str, Column], schema: Schema, roles: Mapping[str, str]) -> dict[str, str]:
    """Returns {name: ID} of a column with such a name and a different value in each row; {} if there is none."""
    given = {*schema.given, *roles}
    found = [name for name, column in columns.items() if name.lower() == ID and name not in given and column.profile.identifies]
    return {found[0]: ID} if found and ID not in roles.values() else {}

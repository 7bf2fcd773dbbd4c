"""Inference of the features of a user's table, their kinds, and the prediction task."""

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, show
from estimator_trainer.common.own_data import description
from estimator_trainer.common.own_data.cells import MISSING, is_almost_number, to_integer_text
from estimator_trainer.common.own_data.columns import ColumnProfile
from estimator_trainer.common.own_data.delimited import Table
from estimator_trainer.common.own_data.description import Feature
from estimator_trainer.common.own_data.lines import in_blocks
from estimator_trainer.common.own_data.schema import (
    CATEGORICAL,
    COLUMNS,
    ID,
    IGNORE,
    NUMERIC,
    REGRESSION,
    TARGET,
    Schema,
    find_roles,
)
from estimator_trainer.common.own_data.split_rows import BadRows
from estimator_trainer.common.own_data.splits import SplitFile
from estimator_trainer.common.own_data.vocabulary import ValueCounts, sorted_classes
from estimator_trainer.hparams.build import HParams

_MAX_DISTINCT = 2 * 10**6  # In all columns together.
_MAX_CLASSES = 10**5
_MAX_INTEGER_CLASSES = 20  # More integers in a column are amounts, such as ages or years, rather than classes.


def describe(tables: Mapping[SplitFile, Table], trained: SplitFile, schema: Schema, params: HParams) -> dict[str, Any]:
    """Reads the tables once and returns the metadata of the dataset; see datasets/csv.py.

    Kinds, statistics and vocabularies are from the training rows only, the names of the classes from all rows.

    Args:
      tables: those of all files.
      trained: the file with the training rows.
      schema: facts given about the columns.
      params: hyper-parameters: train_split, target, min_count, max_vocabulary and max_bad_share.

    Raises:
      UsageError: the schema is wrong, the target is unknown, or there are no features.
      RunError: there are no rows, a row is invalid, or the target has only one value.
    """
    table, bad = tables[trained], BadRows(params.max_bad_share)
    roles = find_roles(schema, table.names, table.path, params.target)
    profiles, classes = _read(table, lambda row: trained.split_of(row) == params.train_split, schema, roles, bad)
    others = [other for other in tables.values() if other is not table and roles[TARGET] in other.header]
    facts = _describe_target(profiles[roles[TARGET]], roles[TARGET], classes, table.path, schema.task, others, bad)
    columns = _describe_columns(table.path, profiles, schema, roles, params)
    facts |= description.describe_features(table.path, COLUMNS, columns, facts['task'])
    _log_ignored(table, columns, profiles)
    return facts


def _read(table, is_trained_on, schema, roles, bad):
    """Returns {column: profile} of the training rows, and the counts of the target in all rows of their table."""
    kinds = {name: given['kind'] for name, given in schema.given.items()}
    limit = max(_MAX_DISTINCT // len(table.header), 1000)
    profiles = {name: ColumnProfile(limit, kinds.get(name)) for name in table.names if kinds.get(name) != IGNORE}
    profiles |= {name: ColumnProfile(limit) for name in roles.values()}
    classes = ValueCounts(_MAX_CLASSES)
    for block in in_blocks(bad.sound(table.rows())):
        _count_classes(classes, block, table, roles[TARGET])
        rows = [row for row in block if is_trained_on(row.position.row)]
        lines = [row.position.line for row in rows]
        for name, cells in zip(table.header, zip(*(row.value for row in rows))):
            if name in profiles:
                profiles[name].update(cells, lines)
    return profiles, classes


def _count_classes(classes, rows, table, target):
    i = table.header.index(target)
    classes.update([cell for cell in (row.value[i] for row in rows) if cell not in MISSING])


def _describe_target(profile, name, classes, path, task, others, bad):
    if not profile.values.total:
        raise RunError(f'{path}: no row has a target to train on, in the column {name}')
    few = _MAX_INTEGER_CLASSES
    if (task or description.infer_task(profile.is_numeric, profile.is_integer, profile.values, few)) == REGRESSION:
        return _describe_numbers(profile, name, path)
    for table in others:
        for rows in in_blocks(bad.sound(table.rows())):
            _count_classes(classes, rows, table, name)
    return _describe_classes(profile, name, classes, path, '' if task else _explain_text(path, name, profile))


def _describe_numbers(profile, name, path):
    if not profile.moments.count:
        raise UsageError(f'{path}: the target {name} is not a number: --hparams=schema can give another task')
    if profile.values.is_exact and len(profile.values) == 1:
        raise RunError(_constant(path, name, *profile.values.values()))
    if imprecise := _imprecise(path, name, profile.moments):
        raise RunError(imprecise)
    return description.describe_target(profile.moments)


def _describe_classes(profile, name, counts, path, wrong):
    """Returns the facts about a target of classes; profile is of the training rows, counts of all rows.

    wrong explains why a mostly numeric target is not a number.
    """
    if not counts.is_exact or profile.identifies and counts.are_distinct:
        many = f'{path}: the target {name} has too many different values to be classes'
        raise UsageError(wrong or f'{many}: name another, or "task": "regression" in the schema')
    names, trained_on = (
        set(map(to_integer_text, values) if profile.is_integer else values)
        for values in (counts.values(), profile.values.values())
    )
    if len(names) < 2:
        raise RunError(_constant(path, name, *names))
    if wrong:
        tf.logging.warning('%s, or give the task, regression or classification, in --hparams=schema=FILE', wrong)
    untrained = sorted(names - trained_on) if profile.values.is_exact else []
    if untrained:
        tf.logging.warning('%s: no row trained on is of the class %s.', path, ', '.join(untrained[:10]))
    return description.describe_classes(sorted_classes(names))


def _constant(path, name, value):
    return f'{path}: the target {name} is always {value}: there is nothing to learn'


def _explain_text(path, name, profile):
    """Describes the first cell that turns a numeric column into text; '' if there is none or many."""
    if not profile.is_mostly_numeric:
        return ''
    line, cell = profile.first_text
    if ',' in cell and is_almost_number(cell):
        reason, cure = 'has a decimal comma', 'write decimal points'
    else:
        reason, cure = 'is not a number, as nearly all others are', 'correct it'
    return f'{path}: line {line}: column {name}: {show(cell)} {reason}, so the column is not numeric: {cure}'


def _imprecise(path, name, moments):
    """Describes a column whose numbers float32 cannot distinguish; '' otherwise."""
    if moments.is_exact_in_float32:
        return ''
    return f'{path}: column {name}: the numbers around {moments.mean:g} differ too little for float32: subtract a constant'


def _describe_columns(path, profiles, schema, roles, params):
    """Returns the features, then the columns with a role, including an id if one is found."""
    features = list(_features(path, {name: profiles[name] for name in profiles if name not in roles.values()}, params))
    named = {**roles, **_find_id(profiles, schema, roles)}
    learned = [feature for feature in features if feature['name'] not in named.values()]
    description.check_learnable(path, COLUMNS, learned, named)
    return learned + [{'name': name, 'kind': role} for role, name in named.items()]


def _features(path: str, profiles: Mapping[str, ColumnProfile], params: HParams) -> Iterator[Feature]:
    """Yields the informative columns, and warns of probable mistakes in any."""
    for name, profile in profiles.items():
        if wrong := _explain_text(path, name, profile):
            tf.logging.warning('%s, or give its kind, numeric or categorical, in --hparams=schema=FILE', wrong)
        if profile.kind == NUMERIC:
            if wrong := _imprecise(path, name, profile.moments):
                tf.logging.warning('%s', wrong)
            yield {'name': name, 'kind': NUMERIC, **profile.moments.describe(params), 'indicator': profile.num_missing > 0}
        elif profile.kind == CATEGORICAL:
            yield {'name': name, 'kind': CATEGORICAL, **profile.values.describe(params)}


def _find_id(profiles, schema, roles):
    """Returns {ID: name} of a column with such a name and a different value in each row; {} if there is none."""
    given = {*schema.given, *roles.values()}
    found = [name for name, profile in profiles.items() if name.lower() == ID and name not in given and profile.identifies]
    return {ID: found[0]} if found and ID not in roles else {}


def _log_ignored(table, columns, profiles):
    used = [column['name'] for column in columns]
    for name, profile in profiles.items():
        if name not in used:
            reason = 'it has a different value in each row' if profile.values.total else 'it is empty'
            description.log_ignored(table.path, COLUMNS, name, reason)
    if '' in table.header:
        tf.logging.info('%s: a column without a name is ignored.', table.path)

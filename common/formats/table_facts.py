"""Infers which columns of a user's table are features, of which kind, and what to predict."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import itertools
import re
from typing import Any

import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.formats.columns import CATEGORICAL, NUMERIC, ColumnProfile
from common.formats.delimited import MISSING, Table, is_almost_number, to_integer_text, to_number
from common.formats.lines import Row
from common.formats.schema import CLASSIFICATION, REGRESSION, add_roles, check_kinds, check_names
from common.formats.split_rows import BadRows
from common.formats.vocabulary import ValueCounts, sorted_classes
from common.values import show

IGNORE, TARGET, ID, WEIGHT = 'ignore', 'target', 'id', 'weight'
ROLES = (TARGET, ID, WEIGHT)
_USUAL_TARGETS = ('target', 'label')
_BLOCK = 1000
_MAX_DISTINCT = 2 * 10**6  # In all columns together.
_MAX_CLASSES = 10**5
_MAX_INTEGER_CLASSES = 20  # More integers in a column are amounts, such as ages or years, rather than classes.


def find_roles(schema: Mapping[str, Any], schema_path: str, target: str, table: Table) -> dict[str, str]:
    """Returns {role: column} for the target and, if the schema names them, the id and the weight.

    Args:
      schema: from `read_schema`.
      schema_path: for messages.
      target: the hyper-parameter of this name.
      table: the one that is trained on.

    Raises:
      UsageError: there is no such column, or the target is not known.
    """
    names = [name for name in table.header if name]
    check_names('--hparams=target', 'column', filter(None, [target]), names, table.path)
    named = [*schema.get('columns', ()), *(schema[role] for role in ROLES if role in schema)]
    check_names(schema_path, 'column', named, names, table.path)
    check_kinds(schema_path, 'column', schema.get('columns', {}), (NUMERIC, CATEGORICAL, IGNORE))
    if target and schema.get(TARGET, target) != target:
        raise UsageError(f'--hparams=target={target}: {schema_path} names another target, {schema[TARGET]}')
    usual = [name for name in names if name.lower() in _USUAL_TARGETS]
    target = target or schema.get(TARGET, '') or (usual[0] if len(usual) == 1 else '')
    if not target:
        raise UsageError(f'--hparams=target=COLUMN is required: the columns of {table.path} are: {", ".join(names)}')
    return add_roles(schema, schema_path, 'column', {TARGET: target}, (ID, WEIGHT))


def describe(
    tables: Iterable[Table],
    trained: Table,
    is_trained_on: Callable[[int], bool],
    roles: Mapping[str, str],
    schema: Mapping[str, Any],
    min_count: int,
    max_vocabulary: int,
    bad: BadRows,
) -> dict[str, Any]:
    """Reads the tables once and returns the metadata of the dataset; see datasets/csv.py.

    Args:
      tables: all of them; the names of the classes are from all.
      trained: the one that is trained on: kinds, statistics and vocabularies are from its rows alone.
      is_trained_on: whether the row of this number is trained on.
      roles: from `find_roles`.
      schema: from `read_schema`.
      min_count: of a value, to be in a vocabulary.
      max_vocabulary: largest size of a vocabulary.
      bad: is told of the rows that are wrong.

    Raises:
      UsageError: there is no feature.
      RunError: there are no rows, or the target has only one value.
    """
    given, target = schema.get('columns', {}), roles[TARGET]
    limit = max(_MAX_DISTINCT // len(trained.header), 1000)
    profiles = {name: ColumnProfile(limit, given.get(name)) for name in trained.header if name and given.get(name) != IGNORE}
    profiles |= {name: ColumnProfile(limit) for name in roles.values()}
    classes = ValueCounts(_MAX_CLASSES)
    for block in _blocks(_sound(trained, bad)):
        _count_classes(classes, block, trained, target)
        rows = [row for row in block if is_trained_on(row.position.row)]
        lines = [row.position.line for row in rows]
        for name, cells in zip(trained.header, zip(*(row.value for row in rows))):
            if name in profiles:
                profiles[name].update(cells, lines)
    if not profiles[target].values.total:
        raise RunError(f'{trained.path}: no row has a target to train on, in the column {target}')
    task = schema.get('task') or _infer_task(profiles[target])
    if task == CLASSIFICATION:
        for table in tables:
            if table.path != trained.path and target in table.header:
                for block in _blocks(_sound(table, bad)):
                    _count_classes(classes, block, table, target)
        wrong = '' if 'task' in schema else _explain_text(trained.path, target, profiles[target])
        facts = _describe_classes(profiles[target], target, classes, trained, wrong)
    else:
        facts = _describe_numbers(profiles[target], target, trained)
    columns = list(_features(trained.path, profiles, roles, given, min_count, max_vocabulary))
    if ID not in roles:
        free = [name for name in profiles if name not in given and name not in roles.values()]
        for name in [name for name in free if name.lower() == ID and profiles[name].identifies][:1]:
            roles = {**roles, ID: name}
            columns = [column for column in columns if column['name'] != name]
    if not columns:
        raise UsageError(f'{trained.path}: there is no column to learn from besides {", ".join(roles.values())}')
    columns += [{'name': name, 'kind': role} for role, name in roles.items()]
    sizes = [len(column['vocabulary']) + 1 for column in columns if column['kind'] == CATEGORICAL]
    facts |= {'columns': columns, 'vocabulary_sizes': {'categorical': sizes} if sizes else {}}
    _log(trained, facts, profiles)
    return facts


def _sound(table, bad):
    for row in table.rows():
        if isinstance(row.value, RunError):
            bad.add(row.value)
        else:
            yield row


def _blocks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while block := list(itertools.islice(rows, _BLOCK)):
        yield block


def _count_classes(classes, rows, table, target):
    i = table.header.index(target)
    classes.update([cell for cell in (row.value[i] for row in rows) if cell not in MISSING])


def _infer_task(profile):
    is_few = profile.is_integer and profile.values.is_exact and len(profile.values) <= _MAX_INTEGER_CLASSES
    return CLASSIFICATION if is_few or not profile.is_numeric else REGRESSION


def _describe_numbers(profile, name, trained):
    if not profile.moments.count:
        raise UsageError(f'{trained.path}: the target {name} is not a number: --hparams=schema can give another task')
    if profile.values.is_exact and len(profile.values) == 1:
        raise RunError(_constant(trained.path, name, *profile.values.values()))
    imprecise = _imprecise(trained.path, name, profile.moments)
    if imprecise:
        raise RunError(imprecise)
    return {'task': REGRESSION, 'target_mean': profile.moments.mean, 'target_std': profile.moments.std}


def _describe_classes(profile, name, counts, trained, wrong):
    """Returns the facts about a target of classes.

    Args:
      profile: of the rows trained on.
      name: of the column.
      counts: of its cells in all rows.
      trained: the table that is trained on.
      wrong: why the target is not a number, if most of its cells are; or ''.
    """
    if not counts.is_exact or profile.identifies and counts.are_distinct:
        many = f'{trained.path}: the target {name} has too many different values to be classes'
        raise UsageError(wrong or f'{many}: name another, or "task": "regression" in the schema')
    names, trained_on = (
        set(map(to_integer_text, values) if profile.is_integer else values)
        for values in (counts.values(), profile.values.values())
    )
    if len(names) < 2:
        raise RunError(_constant(trained.path, name, *names))
    if wrong:
        tf.logging.warning('%s, or give the task, regression or classification, in --hparams=schema=FILE', wrong)
    untrained = sorted(names - trained_on) if profile.values.is_exact else []
    if untrained:
        tf.logging.warning('%s: no row trained on is of the class %s.', trained.path, ', '.join(untrained[:10]))
    return {'task': CLASSIFICATION, 'class_names': sorted_classes(names), 'num_classes': len(names)}


def _constant(path, name, value):
    return f'{path}: the target {name} is always {value}: there is nothing to learn'


def _explain_text(path, name, profile):
    """Describes the first cell that makes a column of numbers one of text; '' if it has no or many such cells."""
    if not profile.is_mostly_numeric:
        return ''
    line, cell = profile.first_text
    if ',' in cell and is_almost_number(cell):
        reason, cure = 'has a decimal comma', 'write decimal points'
    else:
        reason, cure = 'is not a number, as nearly all others are', 'correct it'
    return f'{path}: line {line}: column {name}: {show(cell)} {reason}, so the column is not numeric: {cure}'


def _imprecise(path, name, moments):
    """Describes a column whose numbers float32 cannot tell apart; '' if it can."""
    if moments.is_exact_in_float32:
        return ''
    return f'{path}: column {name}: the numbers around {moments.mean:g} differ too little for float32: subtract a constant'


def _features(path, profiles, roles, given, min_count, max_vocabulary):
    """Yields the columns that are features."""
    for name, profile in profiles.items():
        if name in roles.values() or not profile.values.total and name not in given:
            continue
        if profile.is_numeric:
            moments = profile.moments
            imprecise = _imprecise(path, name, moments)
            if imprecise:
                tf.logging.warning('%s', imprecise)
            yield {
                'name': name,
                'kind': NUMERIC,
                'mean': moments.mean,
                'std': moments.std,
                'indicator': profile.num_missing > 0,
            }
            continue
        wrong = _explain_text(path, name, profile)
        if wrong:
            tf.logging.warning('%s, or give its kind, numeric or categorical, in --hparams=schema=FILE', wrong)
        if name in given or not profile.identifies:
            vocabulary = profile.values.most_common(min_count, max_vocabulary)
            yield {'name': name, 'kind': CATEGORICAL, 'vocabulary': vocabulary}


def _log(table, facts, profiles):
    def named(kind):
        return [column['name'] for column in facts['columns'] if column['kind'] == kind]

    for kind in (NUMERIC, CATEGORICAL, TARGET, ID, WEIGHT):
        if named(kind):
            details = f', {facts["task"]}' if kind == TARGET else ''
            tf.logging.info('%s: %s: %s%s', table.path, kind, ', '.join(named(kind)), details)
    used = [column['name'] for column in facts['columns']]
    for name, profile in profiles.items():
        if name not in used:
            reason = 'has a different value in each row' if profile.values.total else 'is empty'
            tf.logging.info(
                '%s: the column %s is ignored: it %s. --hparams=schema=FILE can override this.', table.path, name, reason
            )
    if '' in table.header:
        tf.logging.info('%s: a column without a name is ignored.', table.path)


def make_encoder(table: Table, facts: Mapping[str, Any], has_labels: bool) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Returns a function from the cells of a row to {column: value}, without those that are missing.

    Args:
      table: any with the columns of the metadata; the target, the id and the weight may be missing.
      facts: the metadata.
      has_labels: whether the function returns the target and the weight.

    Returns:
      A function that raises RunError if a row is wrong.

    Raises:
      UsageError: a column is missing.
    """
    places = {name: i for i, name in enumerate(table.header)}
    wanted = [column for column in facts['columns'] if has_labels or column['kind'] not in (TARGET, WEIGHT)]
    missing = [column['name'] for column in wanted if column['kind'] in (NUMERIC, CATEGORICAL) and column['name'] not in places]
    if missing:
        raise UsageError(f'{table.path}: has no column {", ".join(missing[:10])}, which the model takes')
    items = [
        (places[column['name']], column['name'], column['kind'], _is_number(column['kind'], facts['task']))
        for column in wanted
        if column['name'] in places
    ]
    has_integer_classes = all(re.fullmatch(r'-?\d+', name) for name in facts.get('class_names', ()))

    def encode(cells):
        example = {}
        for i, name, kind, is_number in items:
            cell = cells[i]
            if cell in MISSING:
                if kind in (TARGET, WEIGHT):
                    raise RunError(f'column {name}: the {kind} is missing')
            elif not is_number:
                example[name] = to_integer_text(cell) if kind == TARGET and has_integer_classes else cell
            else:
                number = example[name] = to_number(cell)
                if number is None:
                    raise RunError(f'column {name}: {show(cell)} is not a number')
                if kind == WEIGHT and number < 0:
                    raise RunError(f'column {name}: a weight must not be negative, but is {cell}')
        return example

    return encode


def _is_number(kind, task):
    return kind in (NUMERIC, WEIGHT) or kind == TARGET and task == REGRESSION

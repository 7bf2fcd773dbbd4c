"""A summary of a table for people: what was found in each column, and what was decided."""

from collections.abc import Mapping
from typing import Any

from estimator_trainer.common.own_data import summary
from estimator_trainer.common.own_data.description import facts_of_target
from estimator_trainer.common.own_data.schema import CATEGORICAL, COLUMNS, DATE, NUMERIC, TARGET, TEXT, WEIGHT
from estimator_trainer.common.own_data.summary import Line
from estimator_trainer.common.own_data.tables import dates
from estimator_trainer.common.own_data.tables.survey import Column
from estimator_trainer.common.own_data.values import key
from estimator_trainer.common.own_data.vocabulary import ValueCounts


def summarize(path: str, columns: Mapping[str, Column], facts: Mapping[str, Any], classes: Mapping[str, ValueCounts]) -> str:
    """Returns the text about a table.

    Args:
      path: of its file.
      columns: of the training rows.
      facts: the metadata.
      classes: {split: counts of the values of the first target}.
    """
    rows = ', '.join(f'{counts.total:,} in {split}' for split, counts in classes.items())
    kinds = {column['name']: column['kind'] for column in facts['columns']}
    lines = [_line(column, kinds.get(name, 'ignored'), facts) for name, column in columns.items()]
    return summary.to_text(f'{path}: rows with a target: {rows}', COLUMNS, lines)


def _line(column, kind, facts):
    profile = column.profile
    share = profile.num_missing / max(profile.num_missing + profile.num_present, 1)
    content = _content(column, kind, facts) if profile.num_present else 'it is empty'
    style = column.reading.style if column.reading and kind in (NUMERIC, TARGET, WEIGHT) else None
    written = f', as in {profile.evidence.first[1]}' if style and profile.evidence.first else ''
    return Line(column.name, kind, share, content + written)


def _content(column, kind, facts):
    numbers, values = column.numbers, column.values
    class_names = facts_of_target(facts, column.name).get('class_names') if kind == TARGET else None
    if class_names:
        names = {key(name): name for name in class_names}  # They have the commonest spelling in all splits.
        counts = {names.get(key(value), value): count for value, count in values.merged().items()}
        return summary.of_counts(counts, 'classes', names.values())
    if kind in (NUMERIC, TARGET, WEIGHT) and column.is_number:
        if numbers.min == numbers.max:
            return f'always {numbers.min:.6g}'
        return f'{numbers.min:.6g} to {numbers.max:.6g}, mean {numbers.finish().mean:.6g}'
    if kind == DATE:
        (found,) = [item for item in facts['columns'] if item['name'] == column.name]
        first, last = map(dates.to_date, (numbers.min, numbers.max))
        parts = ', '.join(['position in time', *(f'place in the {cycle}' for cycle in found['cycles'])])
        return f'{first} to {last}, {column.reading.order}: {parts}'
    if kind == CATEGORICAL:
        return summary.of_counts(values.merged(), 'values')
    if kind == TEXT:
        return "free text: the mean of its words' embeddings"
    return 'a different value in each row' if column.profile.identifies else ''

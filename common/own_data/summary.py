"""A summary of data for people, on one screen: each column or feature, its kind, and what is in it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.errors import listed, printable
from estimator_trainer.common.own_data.description import Feature
from estimator_trainer.common.own_data.schema import CATEGORICAL, CLASSIFICATION, IMAGE, NUMERIC, TEXT, Terms

_MAX_LINES = 60
_MAX_VALUES = 4
_MAX_WIDTH = 24
_MAX_CONTENT = 90


class Line(NamedTuple):
    """A column or feature: missing is the share of its missing values, content what the others are."""

    name: str
    kind: str
    missing: float = 0.0
    content: str = ''


def to_text(title: str, terms: Terms, lines: Sequence[Line], has_schema: bool = True) -> str:
    """Returns a table of lines below a title, and where to decide otherwise if there is a schema."""
    shown = [(terms.item, 'kind', 'missing', 'values'), *map(_cells, lines[:_MAX_LINES])]
    widths = [max(len(cells[i]) for cells in shown) for i in range(3)]
    rows = ['  '.join([*(cell.ljust(width) for cell, width in zip(cells, widths)), cells[3]]).rstrip() for cells in shown]
    more = [f'... and {len(lines) - _MAX_LINES:,} more {terms.items}'] if len(lines) > _MAX_LINES else []
    cure = [f'To read a {terms.item} otherwise, give its kind in --hparams=schema=FILE.'] if has_schema else []
    return '\n'.join([title, *rows, *more, *cure, ''])


def _cells(line):
    missing = f'{100 * line.missing:.1f} %' if line.missing else ''
    return _cut(line.name, _MAX_WIDTH), line.kind, missing, _cut(line.content, _MAX_CONTENT)


def _cut(text, width):
    text = printable(' '.join(text.split()))
    return text if len(text) <= width else f'{text[: width - 3]}...'


def of_counts(counts: Mapping[str, int], what: str, names: Iterable[str] = ()) -> str:
    """Returns the number of values, {value: count}, and the shares of the most frequent, or of `names`, in their order."""
    total = max(sum(counts.values()), 1)
    order = list(names) or sorted(counts, key=lambda value: (-counts[value], value))
    shares = ', '.join(f'{value} {100 * counts.get(value, 0) / total:.3g} %' for value in order[:_MAX_VALUES])
    return f'{len(order):,} {what}: {shares}' + (', ...' if len(order) > _MAX_VALUES else '')


def of_features(facts: Mapping[str, Any], features: Iterable[Feature]) -> list[Line]:
    """Returns the lines of features that metadata describes."""
    return [Line(feature['name'], feature['kind'], 0.0, _content(facts, feature)) for feature in features]


def _content(facts, feature):
    kind = feature['kind']
    if kind == NUMERIC:
        values = np.ravel(feature['mean'])
        shown = f'mean {values[0]:.4g}, standard deviation {np.ravel(feature["std"])[0]:.4g}'
        return f'{len(values):,} numbers' if len(values) > 1 else shown
    if kind == CATEGORICAL:
        vocabulary = feature['vocabulary']
        return f'{len(vocabulary):,} known values: {listed(vocabulary, _MAX_VALUES)}'
    if kind == IMAGE:
        return f'{feature["size"]} by {feature["size"]} pixels, {feature["channels"]} channels'
    if kind == TEXT:
        return f'{facts["vocabulary_size"]:,} ids of tokens'
    return of_task(facts) if kind in ('label', 'target') else ''


def of_task(facts: Mapping[str, Any]) -> str:
    """Returns the classes of metadata, or the mean and standard deviation of its target."""
    if facts['task'] != CLASSIFICATION:
        return f'regression: mean {facts["target_mean"]:.4g}, standard deviation {facts["target_std"]:.4g}'
    names = facts['class_names']
    return f'{len(names):,} classes: {listed(names, _MAX_VALUES)}'

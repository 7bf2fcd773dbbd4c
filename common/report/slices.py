"""The slices of a split on which a model is worse: the examples with a value, or in a range of values, of a column.

With many slices, some look bad by chance. Each is therefore tested against the rest, at 5 % divided by the number of slices
(Bonferroni): shares of correct predictions by Fisher's exact test, errors by Wilcoxon's rank-sum test.
"""

from collections.abc import Callable, Iterator, Sequence
import math
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.report.charts import number, percent, shorten
from estimator_trainer.common.report.predicted import Predicted
from estimator_trainer.common.report.ranks import rank_sum, to_ranks

MIN_EXAMPLES = 20  # Of a slice.
_MAX_SHOWN = 20
_MAX_VALUES = 10  # Of a column of numbers that is taken by value, not by range.
_RANGES = 4
_LEVEL = 0.05
_Z = 1.959964  # The quantile of the normal distribution for an interval of 95 %.
_MAX_TEXT = 60

Format = Callable[[Any], str]


class Column(NamedTuple):
    """A column of n examples: values are bytes or numbers, None where missing; format gives the text of one."""

    name: str
    values: Sequence[Any]
    format: Format


class Slice(NamedTuple):
    """A row of the table: metrics are texts; verdict is worse or better where chance would not explain it, else ''."""

    column: str
    value: str
    examples: int
    metrics: tuple[str, str]
    verdict: str


class Slices(NamedTuple):
    """text says what was found; titles are those of the metrics; whole has those of all examples; omitted are not shown."""

    text: str
    examples: int
    titles: tuple[str, str]
    whole: tuple[str, str]
    rows: Sequence[Slice]
    omitted: int


class Measure(NamedTuple):
    """How slices are compared: badness and p-value of the examples at a mask, and what the table shows of them."""

    titles: tuple[str, str]
    badness: Callable[[np.ndarray], float]
    p_value: Callable[[np.ndarray], float]
    texts: Callable[[np.ndarray], tuple[str, str]]


def find(columns: Sequence[Column], found: Predicted, chosen: np.ndarray) -> Slices | None:
    """Returns the slices of columns, the worst first: those that chance does not explain, then the others.

    Args:
      columns: of the chosen examples.
      chosen: int [m], their indices in the arrays of `found`.

    Returns:
      None if there are not two slices of MIN_EXAMPLES.
    """
    measure = _measure(found, chosen)
    everything = np.ones(len(chosen), bool)
    if measure is None:
        return None
    groups = [(column.name, text, mask) for column in columns for text, mask in split(column)]
    if len(groups) < 2:
        return None
    whole, rows = measure.badness(everything), []
    for name, text, mask in groups:
        badness = measure.badness(mask)
        is_clear = measure.p_value(mask) <= _LEVEL / len(groups)
        verdict = ('worse' if badness > whole else 'better') if is_clear else ''
        rows.append((verdict != 'worse', -badness, Slice(name, text, int(mask.sum()), measure.texts(mask), verdict)))
    rows.sort(key=lambda row: row[:2])
    slices = [row for *_, row in rows]
    shown = slices[:_MAX_SHOWN]
    text = _describe(slices, len(chosen), len(found.labels))
    return Slices(text, len(chosen), measure.titles, measure.texts(everything), shown, len(slices) - len(shown))


def split(column: Column) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (text, bool [n]) of the slices of a column that have MIN_EXAMPLES, but not all examples.

    Those are its values; of numbers with many values, ranges of equal size; of texts that are rarely equal, numbers of words.
    Missing values are a slice, too.
    """
    is_known = np.array([value is not None for value in column.values], bool)
    known = [value for value in column.values if value is not None]
    yield from _large([('missing', ~is_known)])
    if not known:
        return
    if not isinstance(known[0], bytes):
        numbers = np.array([math.nan if value is None else value for value in column.values], float)
        few = len(np.unique(numbers[is_known])) <= _MAX_VALUES
        yield from _by_value(column, is_known) if few else _by_range(numbers, is_known, column.format)
        return
    slices = [*_by_value(column, is_known)]
    yield from slices
    if 2 * sum(mask.sum() for _, mask in slices) < len(known):
        words = np.array([math.nan if value is None else len(value.split()) for value in column.values], float)
        yield from _by_range(words, is_known, lambda count: f'{count:.0f}', ' words')


def _by_value(column, is_known):
    values, groups = np.unique(np.array([v for v in column.values if v is not None], object), return_inverse=True)
    places = np.full(len(column.values), -1)
    places[is_known] = groups
    large = np.flatnonzero(np.bincount(groups) >= MIN_EXAMPLES)
    yield from _large((shorten(column.format(values[i]), _MAX_TEXT), places == i) for i in large)


def _by_range(numbers, is_known, format: Format, unit=''):
    """Yields slices of about equal size; equal numbers are in the same one, so their ends tell them apart."""
    edges = np.unique(np.quantile(numbers[is_known], np.arange(1, _RANGES) / _RANGES, method='inverted_cdf'))
    groups = np.searchsorted(edges, numbers, side='left')
    for i in range(len(edges) + 1):
        mask = is_known & (groups == i)
        if mask.any():
            low, high = format(numbers[mask].min()), format(numbers[mask].max())
            yield from _large([(f'{low}{unit}' if low == high else f'{low} to {high}{unit}', mask)])


def _large(slices):
    return [(text, mask) for text, mask in slices if MIN_EXAMPLES <= mask.sum() < len(mask)]


def _measure(found: Predicted, chosen: np.ndarray) -> Measure | None:
    if found.classes is not None:
        return _of_classes((found.classes != found.labels)[chosen])
    assert found.values is not None
    errors = np.abs(found.values - found.labels)[chosen]
    return _of_numbers(errors) if np.isfinite(errors).all() else None


def _of_classes(is_wrong: np.ndarray) -> Measure:
    def texts(mask):
        count, right = int(mask.sum()), int((~is_wrong[mask]).sum())
        low, high = wilson(right, count)
        return percent(right / count), f'{100 * low:.1f} to {100 * high:.1f} %'

    return Measure(
        ('correct', '95 % interval'),
        lambda mask: float(is_wrong[mask].mean()),
        lambda mask: fisher(len(mask), int(is_wrong.sum()), int(mask.sum()), int(is_wrong[mask].sum())),
        texts,
    )


def _of_numbers(errors: np.ndarray) -> Measure:
    ranks = to_ranks(errors)
    return Measure(
        ('mean absolute error', 'root mean squared error'),
        lambda mask: float(errors[mask].mean()),
        lambda mask: _p_of_errors(errors, ranks, mask),
        lambda mask: (number(float(errors[mask].mean())), number(float(np.sqrt(np.square(errors[mask]).mean())))),
    )


def _p_of_errors(errors, ranks, mask):
    """Returns that of the ranks; 1 if the mean, which large errors move, tells the opposite."""
    same = (errors[mask].mean() > errors.mean()) == (ranks[mask].mean() > ranks.mean())
    return rank_sum(ranks, mask) if same else 1.0


def wilson(right: int, count: int) -> tuple[float, float]:
    """Returns the interval of 95 % for a share, `right` of `count`. (E. B. Wilson, 1927.)"""
    share, z = right / count, _Z
    center, scale = share + z * z / (2 * count), 1 + z * z / count
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max((center - half) / scale, 0.0), min((center + half) / scale, 1.0)


def fisher(total: int, wrong: int, count: int, wrong_here: int) -> float:
    """Returns the p-value that a slice has so many, or so few, of the mistakes; two-sided, as twice the smaller tail.

    Args:
      total, wrong: the numbers of all examples, and of those that are wrong.
      count, wrong_here: those of the slice.
    """
    possible = np.arange(max(0, count - (total - wrong)), min(count, wrong) + 1)
    logs = np.array([_log_binomial(wrong, k) + _log_binomial(total - wrong, count - k) for k in possible.tolist()])
    weights = np.exp(logs - _log_binomial(total, count))
    tails = weights[possible >= wrong_here].sum(), weights[possible <= wrong_here].sum()
    return min(1.0, 2 * float(min(tails)))


def _log_binomial(n, k):
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _describe(slices, examples, all_examples):
    sample = f', of {examples:,} of the examples,' if examples < all_examples else ''
    bad = [one for one in slices if one.verdict == 'worse']
    text = f'{len(slices)} slices of at least {MIN_EXAMPLES} examples{sample} were looked at; '
    if not bad:
        return f'{text}none is worse than chance would explain.'
    first = bad[0]
    return (
        f'{text}{len(bad)} {"is" if len(bad) == 1 else "are"} worse than chance would explain. The worst: {first.column}: '
        f'{first.value}.'
    )

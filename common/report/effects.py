"""The effect of each setting of compared runs on a metric: the variance of its ranks that the setting explains.

The runs are grouped by the setting, numbers in ranges with about equally many runs, and their ranks are compared, as by W. H.
Kruskal and W. A. Wallis (1952): a run that diverged is the worst, however large its loss. The share is epsilon squared, without
what groups explain by chance, so it suits a few runs; permutations tell how likely it is by chance.
"""

from collections.abc import Sequence
import json
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.report.charts import short
from estimator_trainer.common.report.ranks import to_ranks

MIN_POINTS = 8
_LEVEL = 0.05
_PERMUTATIONS = 2000
_PER_GROUP = 5  # Runs.
_MAX_GROUPS = 5


class Effect(NamedTuple):
    """share is in [0, 1]; chance the p-value; best the value, or range, with the best mean rank."""

    name: str
    share: float
    chance: float
    is_clear: bool
    best: str


def measure(settings: dict[str, Sequence[Any]], badness: np.ndarray) -> list[Effect]:
    """Returns the effects of settings, the largest first; without those of which most runs have a value of their own.

    Args:
      settings: {name: values [n]}, JSON values.
      badness: float [n], the lower the better; infinity is worse than all numbers.
    """
    ranks = to_ranks(badness)
    random = np.random.default_rng(0)
    shuffled = np.stack([ranks, *(random.permutation(ranks) for _ in range(_PERMUTATIONS))])
    found = []
    for name, values in settings.items():
        groups, texts = grouped(values)
        if 1 < len(texts) <= len(values) / 2:
            shares = _explained(shuffled, groups)
            chance = float((shares >= shares[0] - 1e-9).mean())
            best = int(np.argmin(np.bincount(groups, ranks) / np.bincount(groups)))
            found.append(Effect(name, max(float(shares[0]), 0.0), chance, False, texts[best]))
    found.sort(key=lambda one: (-one.share, one.chance, one.name))
    return [one._replace(is_clear=one.chance <= _LEVEL / len(found)) for one in found]


def is_numeric(values: Sequence[Any]) -> bool:
    """Whether all are numbers, but not truth values."""
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def text_of(value: Any) -> str:
    """Returns a setting in short; a dash for one that a run does not have."""
    if value is None:
        return '–'
    return value if isinstance(value, str) else short(value) if is_numeric([value]) else json.dumps(value)


def grouped(values: Sequence[Any]) -> tuple[np.ndarray, list[str]]:
    """Returns the group of each value, int [n], and the text of each group; None, of runs without the setting, has its own."""
    count = max(2, min(_MAX_GROUPS, len(values) // _PER_GROUP))
    known = [value for value in values if value is not None]
    if is_numeric(known) and len({*known}) > count:
        edges = np.unique(np.quantile(np.array(known, float), np.arange(1, count) / count, method='inverted_cdf'))
        keys = [-1 if value is None else int(np.searchsorted(edges, value, side='left')) for value in values]
        parts = {key: [value for value, other in zip(values, keys) if other == key] for key in sorted({*keys})}
        texts = [text_of(None) if key < 0 else _range(min(part), max(part)) for key, part in parts.items()]
        return np.unique(keys, return_inverse=True)[1], texts
    names = [json.dumps(value) for value in values]
    places = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names]), [text_of(json.loads(name)) for name in places]


def _range(low, high):
    return short(low) if low == high else f'{short(low)} to {short(high)}'


def _explained(ranks: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Returns epsilon squared of each row of ranks, float [rows, n]; 0 if all ranks are equal."""
    members = np.eye(groups.max() + 1)[groups]
    n, k = members.shape
    centered = ranks - ranks.mean(axis=1, keepdims=True)
    total = np.square(centered).sum(axis=1)
    between = (np.square(centered @ members) / members.sum(axis=0)).sum(axis=1)
    if not total[0] or n <= k:
        return np.zeros(len(ranks))
    return 1 - (total - between) / (n - k) / (total / (n - 1))

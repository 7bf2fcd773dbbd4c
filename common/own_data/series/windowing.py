"""Windows of series: past values, and the next ones to forecast; split by time, never by chance, with two baselines."""

from collections.abc import Mapping, Sequence
import dataclasses
import functools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, listed
from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.moments import Moments
from estimator_trainer.common.own_data.schema import NUMERIC, TARGET
from estimator_trainer.common.own_data.series import reader
from estimator_trainer.common.own_data.series.reader import Series
from estimator_trainer.common.own_data.series.timeline import DAY, TIME, Step
from estimator_trainer.common.targets import FORECAST
from estimator_trainer.hparams.build import HParams

_SHOWN = 5
_BLOCK = 1 << 20  # Numbers.
_LEAST_SCALE = 0.1  # Of the median standard deviation of the training windows.
_ROUNDING = 1e-12  # Of numbers: a smaller deviation is that of equal ones.
LARGEST = 1e18  # Of a target: float32 has its square.


def find_cut(found: Mapping[str, Series], params: HParams, step: Step) -> int | None:
    """Returns the first time of the evaluation, which has the last eval_share of the times of all groups; None without it.

    Days whose times differ between groups count once.
    """
    if not params.eval_share:
        return None
    times = np.unique(np.concatenate([series.times for series in found.values()]))
    if step.unit != TIME:
        times = times[np.unique(times // DAY, return_index=True)[1]]
    held_out = min(max(round(params.eval_share * len(times)), params.horizon), len(times) - 1)
    return int(times[len(times) - held_out])


@dataclasses.dataclass(frozen=True)
class Windows(Sequence[dict[str, Any]]):
    """The windows of series as features for `records.encode`.

    Attributes:
      series: {group: Series}.
      groups: the number of the group of each window, int [n].
      lasts: the index of its last past row, int [n].
      window, horizon: the numbers of past and of future rows.
      season: the number of rows of a season.
    """

    series: Mapping[str, Series]
    groups: np.ndarray
    lasts: np.ndarray
    window: int
    horizon: int
    season: int

    def __len__(self) -> int:
        return len(self.lasts)

    def __getitem__(self, number: int) -> dict[str, Any]:  # type: ignore[override]
        group, last = self.place(number)
        series, begin = self.series[group], last + 1
        return {
            'past': series.values[begin - self.window : begin],
            'time': int(series.times[last]),
            'future': series.values[begin : begin + self.horizon, 0],
            'baselines': np.stack(self.baselines(number)),
        }

    @functools.cached_property
    def names(self) -> list[str]:
        """Those of all groups."""
        return [*self.series]

    def place(self, number: int) -> tuple[str, int]:
        """Returns the group of a window, and the index of its last past row."""
        return self.names[self.groups[number]], int(self.lasts[number])

    def baselines(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the last value, and that of the same time last season or, if unknown, the last; float64 [horizon] each."""
        group, last = self.place(number)
        target = self.series[group].values[:, 0]
        steps = np.arange(1, self.horizon + 1)
        before = last + steps - self.season * -(-steps // self.season)
        return np.full(self.horizon, target[last]), np.where(before >= 0, target[np.maximum(before, 0)], target[last])

    def future_times(self, number: int) -> np.ndarray:
        """Returns the times of the future rows, int64 [horizon]."""
        group, last = self.place(number)
        return self.series[group].times[last + 1 : last + 1 + self.horizon]


def all_windows(found: Mapping[str, Series], params: HParams, season: int) -> Windows:
    """Returns the windows with a future of all groups, one from each row on."""
    lasts = [np.arange(params.window - 1, len(series.times) - params.horizon) for series in found.values()]
    groups = np.repeat(np.arange(len(lasts)), [*map(len, lasts)])
    return Windows(found, groups, np.concatenate(lasts), params.window, params.horizon, season)


def split_windows(windows: Windows, cut: int | None) -> dict[str, Windows]:
    """Returns {split: Windows}: the future of training windows ends before the cut, that of the others begins there."""
    if cut is None:
        return {'train': windows}
    parts = [series.times for series in windows.series.values()]
    times, lasts = np.concatenate(parts), np.cumsum([0, *map(len, parts)])[windows.groups] + windows.lasts
    firsts, ends = times[lasts + 1], times[lasts + windows.horizon]
    return {
        split: dataclasses.replace(windows, groups=windows.groups[chosen], lasts=windows.lasts[chosen])
        for split, chosen in {'train': ends < cut, 'eval': firsts >= cut}.items()
    }


def check_lengths(path: str, found: Mapping[str, Series], params: HParams) -> dict[str, Series]:
    """Returns the groups with enough rows for a window with its future, and warns of others; raises RunError without any."""
    rows = params.window + params.horizon
    long = {group: series for group, series in found.items() if len(series.times) >= rows}
    if not long:
        longest = max(len(series.times) for series in found.values())
        raise RunError(
            f'{path}: no series has {rows} rows, as window={params.window} and horizon={params.horizon} require: the longest '
            f'has {longest}: lower window or horizon'
        )
    if short := [group for group in found if group not in long]:
        text = '%s: %d of %d series have fewer than window + horizon = %d rows and are skipped: %s.'
        tf.logging.warning(text, path, len(short), len(found), rows, listed(short, _SHOWN))
    return long


def check_target(path: str, columns: Sequence[Feature], found: Mapping[str, Series], window: int) -> None:
    """Warns of groups whose target never changes; raises RunError if none does, or if float32 cannot hold changes."""
    (target,) = of_kind(columns, TARGET)
    constant = [group for group, series in found.items() if np.ptp(series.values[:, 0]) == 0]
    if len(constant) == len(found):
        raise RunError(f'{path}: column {target["name"]} never changes in any series: there is nothing to forecast')
    for group, series in found.items():
        _check_precision(f'{path}: column {target["name"]}: {reader.label(columns, group)}', series.values[:, 0], window)
    if constant:
        text = '%s: column %s never changes in %d of %d series: the last value forecasts these: %s.'
        tf.logging.warning(text, path, target['name'], len(constant), len(found), listed(constant, _SHOWN))


def _check_precision(place, target, window):
    largest, scales = np.abs(target).max(), _scales(target, window)
    if largest > LARGEST:
        raise RunError(f'{place}{_too_large(largest)}')
    if len(scales) and np.spacing(np.float32(largest)) > np.median(scales) / 10:
        raise RunError(f'{place}{_lost(largest, np.median(scales))}')


def lost_in_float32(past: np.ndarray, least_scale: float) -> str:
    """Returns why a forecast from a window of the target, float64 [window], would be wrong in float32; '' if it is not.

    Args:
      past: the window.
      least_scale: see `describe`; smaller changes do not matter.
    """
    largest, scale = np.abs(past).max(), past.std()
    if largest > LARGEST:
        return _too_large(largest)
    is_lost = np.spacing(np.float32(largest)) > max(scale, least_scale) and scale > _ROUNDING * largest
    return _lost(largest, scale) if is_lost else ''


def _too_large(largest):
    return f'{largest:.3g} is larger than {LARGEST:g}: write the numbers in a larger unit'


def _lost(largest, scale):
    return (
        f'numbers up to {largest:.10g} change by about {scale:.3g} in a window, which is lost in float32: subtract a constant '
        'from them, or write how much they change'
    )


def _scales(target, window):
    """Returns the standard deviations of the windows that change."""
    if len(target) < window:
        return np.zeros([0])
    view, size = np.lib.stride_tricks.sliding_window_view(target, window), max(_BLOCK // window, 1)
    blocks = (view[i : i + size] for i in range(0, len(view), size))  # NumPy copies the windows.
    return np.concatenate([block[np.ptp(block, axis=1) > 0].std(axis=1) for block in blocks])


def describe(
    path: str, columns: Sequence[Feature], splits: Mapping[str, Windows], step: Step, cut: int | None, season: int
) -> dict[str, Any]:
    """Returns the metadata, see datasets/series.py; its statistics are of the training part only. Warns of constant inputs.

    Raises:
      RunError: a split has no windows.
    """
    for split, windows in splits.items():
        if not len(windows):
            raise RunError(
                f'{path}: no series has a window for the split {split}{_where(split, step, cut)}: lower window or horizon, or '
                'change eval_share'
            )
    trained = splits['train']
    parts = [one if cut is None else Series(*(part[one.times < cut] for part in one)) for one in trained.series.values()]
    inputs = of_kind(columns, NUMERIC)
    moments: list[Moments] = [Moments() for _ in inputs]
    for part in parts:
        for i, one in enumerate(moments):
            one.update(part.values[:, i + 1])
    if constant := [one['name'] for one, of in zip(inputs, moments) if of.is_constant]:
        # Once they change, a forecast follows weights as they were initialized.
        text = '%s: the columns %s never change before the evaluation, so nothing is learned from them: remove them.'
        tf.logging.warning(text, path, ', '.join(constant))
    described = iter(moments)
    facts = [{**one, 'mean': (of := next(described)).mean, 'std': of.std} if one['kind'] == NUMERIC else one for one in columns]
    times = np.concatenate([part.times for part in parts])
    return {
        'task': FORECAST,
        'horizon': trained.horizon,
        'columns': facts,
        'step': step._asdict(),
        'season_length': season,
        'cycles': step.cycles(int(np.ptp(times))),
        'least_scale': _least_scale(parts, trained.window),
    }


def _least_scale(parts, window):
    """Returns the least divisor of a window; the standard deviation of all values if no window changes, as one of a row."""
    scales = np.concatenate([_scales(part.values[:, 0], window) for part in parts])
    if len(scales):
        return _LEAST_SCALE * float(np.median(scales))
    return float(np.concatenate([part.values[:, 0] for part in parts]).std()) or 1.0


def summarize(
    path: str, facts: Mapping[str, Any], splits: Mapping[str, Windows], cut: int | None, ignored: Sequence[str], given: int
) -> str:
    """Returns what was found and decided, for people; given is the season of the hyper-parameters, 0 for the usual one."""
    step, series = Step(**facts['step']), next(iter(splits.values())).series
    names = {kind: [one['name'] for one in of_kind(facts['columns'], kind)] for kind in (reader.GROUP, TARGET, NUMERIC)}
    ends = [time for one in series.values() for time in one.times[[0, -1]]]
    first, last = step.texts([min(ends), max(ends)])
    groups = ''.join(f' of {name}' for name in names[reader.GROUP])
    inputs = [f'the past of {", ".join([*names[TARGET], *names[NUMERIC]])}', *(['the calendar'] if facts['cycles'] else [])]
    season = facts['season_length']
    how = 'as given' if given else 'the usual ones of this interval'
    rows = {
        'interval': step.describe(),
        'target': names[TARGET][0],
        'inputs': ', '.join(inputs),
        'ignored': ', '.join(ignored),
        'season': f'{season} rows, {how}' if season > 1 else 'none: season= gives its number of rows',
        **{
            split: f'{len(windows):,} window{"s" if len(windows) > 1 else ""}{_where(split, step, cut)}'
            for split, windows in splits.items()
        },
    }
    head = f'{path}: {len(series):,} series{groups}, from {first} to {last}'
    return '\n'.join([head, *(f'{name:<9} {text}' for name, text in rows.items() if text)]) + '\n'


def _where(split, step, cut):
    if cut is None:
        return ''
    when = step.texts([cut])[0]
    return f', whose forecasts end before {when}' if split == 'train' else f', whose forecasts begin at {when} or later'

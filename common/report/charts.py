"""Charts as the geometry of an SVG, which the template of the page draws, and in words, for those who cannot see it."""

from collections.abc import Iterable, Sequence
import math
from typing import NamedTuple

import numpy as np

WIDTH, HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 388, 10, 212
_MAX_POINTS = 400  # Of a line: more than pixels are of no use.
_MAX_TICK = 7  # Characters beside the axis.
_LOG_RANGE = 100  # From this ratio of positive values on, the axis is logarithmic.


class Series(NamedTuple):
    """Points with a name for the legend: x and y are float [n]. NaN and infinity leave gaps.

    kind is line, dots, guide (a thin dashed line) or both (a line with dots); color is a number of the page's palette.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    kind: str = 'line'
    color: int = 0


class Axis(NamedTuple):
    """Ticks are (pixel, text)."""

    title: str
    ticks: Sequence[tuple[float, str]]


class Path(NamedTuple):
    """The points of a Series as the `d` of an SVG path."""

    name: str
    kind: str
    color: int
    line: str
    dots: str


class Chart(NamedTuple):
    """text says what the chart shows; bars are (x, y, width, height); marker is (pixel, text) of a vertical line, or None."""

    title: str
    text: str
    x: Axis
    y: Axis
    paths: Sequence[Path] = ()
    bars: Sequence[tuple[float, float, float, float]] = ()
    marker: tuple[float, str] | None = None


class Scale(NamedTuple):
    """A mapping of the values from low to high to pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, values: np.ndarray) -> np.ndarray:
        """Returns pixels, rounded to tenths; NaN for values that are not finite, or that a logarithm does not have."""
        with np.errstate(all='ignore'):
            low, high, shown = (np.log10(v) if self.is_log else v for v in (self.low, self.high, np.asarray(values, float)))
            return np.round(self.start + (shown - low) / (high - low) * (self.end - self.start), 1)

    def axis(self, title: str) -> Axis:
        values = self.values()
        texts = [short(value) for value in values]
        if max(map(len, texts), default=0) > _MAX_TICK:
            texts = [_scientific(value) if value else '0' for value in values]
        return Axis(title, [(float(pixel), text) for pixel, text in zip(self.place(np.array(values)), texts)])

    def values(self) -> list[float]:
        """Returns the values of ticks."""
        return log_ticks(self.low, self.high) if self.is_log else ticks(self.low, self.high)


def plot(
    title: str,
    text: str,
    series: Sequence[Series],
    x_title: str,
    y_title: str,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    marker: tuple[float, str] | None = None,
    may_be_log: bool = False,
) -> Chart:
    """Returns a chart of lines or dots.

    Args:
      text: what it shows, in words.
      x_range, y_range: of the axes; by default those of the finite values.
      marker: (x, text) of a vertical line.
      may_be_log: whether the y-axis is logarithmic if the values are positive and differ by a factor of 100.
    """
    x_low, x_high = x_range or range_of(np.concatenate([one.x for one in series]))
    x = Scale(x_low, x_high, _LEFT, _RIGHT)
    y_low, y_high = y_range or range_of(np.concatenate([one.y for one in series]))
    is_log = may_be_log and y_low > 0 and y_high >= _LOG_RANGE * y_low
    if y_range is None and not is_log:
        room = (y_high - y_low) / 20
        y_low, y_high = min(y_low, 0) if 0 <= y_low < room else y_low - room, y_high + room
    y = Scale(y_low, y_high, _BOTTOM, _TOP, is_log)
    paths = [_path(one, x, y) for one in series]
    placed = marker and (float(x.place(np.array(marker[0]))), marker[1])
    return Chart(title, text, x.axis(x_title), y.axis(y_title), paths, marker=placed)


def histogram(title: str, text: str, values: np.ndarray, x_title: str, y_title: str) -> Chart:
    """Returns a chart of how often values, finite float [n], are in each of up to 30 intervals; see `plot`."""
    counts, edges = np.histogram(values, min(30, max(5, math.isqrt(len(values)))))
    x, y = Scale(edges[0], edges[-1], _LEFT, _RIGHT), Scale(0, max(counts.max(), 1), _BOTTOM, _TOP)
    lefts, tops = x.place(edges), y.place(counts)
    widths = np.maximum(np.diff(lefts) - 1, 0.5)
    bars = [(float(left), float(top), float(width), _BOTTOM - float(top)) for left, top, width in zip(lefts, tops, widths)]
    return Chart(title, text, x.axis(x_title), y.axis(y_title), bars=bars)


def range_of(values: np.ndarray) -> tuple[float, float]:
    """Returns the least and the greatest finite value, or an interval around the only one."""
    found = values[np.isfinite(values)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
    if low < high:
        return low, high
    return low - (abs(low) / 10 or 0.5), high + (abs(high) / 10 or 0.5)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Returns the multiples of 1, 2 or 5 times a power of ten in an interval, as many as possible up to `most`."""
    power = math.floor(math.log10((high - low) / most))
    for step in (factor * 10.0**exponent for exponent in (power, power + 1, power + 2) for factor in (1, 2, 5)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [float(f'{number * step:.12g}') for number in range(first, last + 1)]
    raise AssertionError('a step of a hundredth of the interval suffices')


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Returns powers of ten in an interval of positive numbers, up to `most`."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1, max(1, math.ceil((last - first + 1) / most)))]


def short(value: float) -> str:
    """Returns a number in a few characters: 12k, 0.05, 1e-6."""
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-4:
        return _scientific(value)
    for unit, suffix in ((1e6, 'M'), (1e4, 'k')):
        if size >= unit:
            return f'{value / (1e6 if suffix == "M" else 1e3):.4g}{suffix}'
    return f'{value:.4g}'


def _scientific(value):
    mantissa, _, exponent = f'{value:.3e}'.partition('e')
    return f'{float(mantissa):g}e{int(exponent)}'


def number(value: float) -> str:
    """Returns a number for people, with four digits, or all of an integer."""
    if value != value:
        return 'NaN'
    if float(value).is_integer() and abs(value) < 1e12:
        return f'{value:,.0f}'
    return f'{value:,.0f}' if 1e4 <= abs(value) < 1e12 else f'{value:.4g}'


def shorten(text: str, limit: int) -> str:
    """Returns a text, with an ellipsis in place of what follows the first `limit` characters."""
    return text if len(text) <= limit else f'{text[:limit]}…'


def percent(share: float) -> str:
    """Returns a share in [0, 1] as a percentage with a decimal, which hides neither a few nor a few that lack."""
    if share != share or share in (0, 1):
        return 'NaN' if share != share else f'{100 * share:.0f} %'
    return '< 0.1 %' if share < 0.0005 else '> 99.9 %' if share > 0.9995 else f'{100 * share:.1f} %'


def share(value: float) -> str:
    """Returns a share in [0, 1] with three decimals; a dash for NaN."""
    return '–' if value != value else f'{value:.3f}'


def line_through(points: Iterable[tuple[float, float]]) -> str:
    """Returns the `d` of an SVG path through points, with gaps at those that are not finite."""
    line, begins = [], True
    for x, y in points:
        is_known = math.isfinite(x) and math.isfinite(y)
        if is_known:
            line.append(f'{"M" if begins else "L"}{x:g},{y:g}')
        begins = not is_known
    return ''.join(line)


def _path(one, x, y):
    xs, ys = _thin(one.x, one.y) if one.kind in ('line', 'both') else (one.x, one.y)
    points = np.stack([x.place(xs), y.place(ys)], axis=1)
    known = points[np.isfinite(points).all(axis=1)].tolist()
    has_dots = one.kind in ('dots', 'both') or one.kind == 'line' and len(known) == 1  # A line of one point is invisible.
    line = '' if one.kind == 'dots' else line_through(points.tolist())
    return Path(one.name, one.kind, one.color, line, ''.join(f'M{px:g},{py:g}h0' for px, py in known) if has_dots else '')


def _thin(x, y):
    """Returns at most _MAX_POINTS points of a line: the least and the greatest of each of equal parts."""
    if len(x) <= _MAX_POINTS:
        return x, y
    kept = []
    for part in np.array_split(np.arange(len(x)), _MAX_POINTS // 2):
        found = part[np.isfinite(y[part])]
        kept += sorted({int(found[y[found].argmin()]), int(found[y[found].argmax()])}) if len(found) else [int(part[0])]
    return x[kept], y[kept]

"""Dates and times in TensorFlow ops, as `dates` reads them, for exported models."""

import math

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.own_data.tables import dates
from estimator_trainer.common.own_data.texts import tokens

_SPACES = r'[\s\pZ]*'  # Browsers write a narrow space before PM.
_TIME = rf'(?:[T ]+(?:\d{{1,2}}):\d\d(?::\d\d(?:[.,]\d+)?)?{_SPACES}(?:[AaPp]\.?[Mm]\.?)?{_SPACES}(?:{dates.OFFSET})?)?'
_CLOCK = (
    rf'^.*[T ]+(\d{{1,2}}):(\d\d)(?::(\d\d(?:[.,]\d+)?))?{_SPACES}(?:([AaPp])\.?[Mm]\.?)?{_SPACES}'
    r'(?:Z|UTC|([+-]\d\d)(?::?(\d\d))?)?$'
)
_BETWEEN = r'(?:-(\d{1,2})-|/(\d{1,2})/|\.(\d{1,2})\.)'  # The same separator twice: patterns of RE2 refer to no group.
# The groups are year, month and day, as rewritings: of those of `_BETWEEN`, one is not empty.
_YEAR_FIRST = (rf'^(\d{{4}}){_BETWEEN}(\d{{1,2}}){_TIME}$', (r'\1', r'\2\3\4', r'\5'))
_BY_NUMBERS = {
    dates.YMD: [_YEAR_FIRST],
    dates.DMY: [_YEAR_FIRST, (rf'^(\d{{1,2}}){_BETWEEN}(\d{{4}}){_TIME}$', (r'\5', r'\2\3\4', r'\1'))],
    dates.MDY: [_YEAR_FIRST, (rf'^(\d{{1,2}})(?:-(\d{{1,2}})-|/(\d{{1,2}})/)(\d{{4}}){_TIME}$', (r'\4', r'\1', r'\2\3'))],
}
_SHORT = r'^(\d{1,2}(?:[/.]\d{1,2}[/.]|\.?[ -]#\d+#\.?[ -]))'  # What precedes a year of two digits.
_CENTURIES = {'19': r'(69|[7-9]\d)', '20': r'([0-5]\d|6[0-8])'}
# Names of months have become numbers.
_BY_NAMES = [
    (rf'^(\d{{1,2}})\.?[ -]#(\d+)#\.?[ -](\d{{4}}){_TIME}$', (r'\3', r'\2', r'\1')),
    (rf'^#(\d+)#\.? (\d{{1,2}}),? (\d{{4}}){_TIME}$', (r'\3', r'\1', r'\2')),
]


def to_days(cells: tf.Tensor, order: str) -> tf.Tensor:
    """Returns the dates in cells, string [n], in days since 1970-01-01, float64 [n]; NaN where there is none in this order."""
    texts = tokens.strip(cells)
    for name, number in sorted(dates.MONTHS.items(), key=lambda item: -len(item[0])):
        texts = tf.strings.regex_replace(texts, rf'(?i)\b{name}\b', f'#{number}#')
    for century, years in _CENTURIES.items():
        texts = tf.strings.regex_replace(texts, rf'{_SHORT}{years}({_TIME})$', rf'\1{century}\2\3')
    found = tf.fill(tf.shape(texts), tf.constant(math.nan, tf.float64))
    for pattern, groups in [*_BY_NUMBERS[order], *_BY_NAMES]:
        is_match = tf.strings.regex_full_match(texts, pattern)
        year, month, day = (_group(texts, is_match, pattern, group) for group in groups)
        found = tf.where(is_match & _exists(year, month, day), _days(year, month, day), found)
    return found + _clock(texts)


def _group(texts, is_match, pattern, group):
    """Returns a group of a pattern, as a rewriting, as a number, float64 [n]; 0 where it does not match or is empty."""
    found = tf.strings.regex_replace(texts, pattern, group)
    found = tf.strings.regex_replace(found, ',', '.')
    is_number = is_match & tf.strings.regex_full_match(found, r'[+-]?\d+(\.\d+)?')
    return tf.strings.to_number(tf.where(is_number, found, tf.fill(tf.shape(found), '0')), tf.float64)


def _days(year, month, day):
    """Returns the days since 1970-01-01 of dates of the Gregorian calendar.

    (H. Hinnant: chrono-Compatible Low-Level Date Algorithms: years begin in March.)
    """
    shifted = year - tf.cast(month <= 2, tf.float64)
    era = tf.floor(shifted / 400)
    of_era = shifted - era * 400
    of_year = tf.floor((153 * tf2.math.floormod(month + 9, 12) + 2) / 5) + day - 1
    return era * 146097 + of_era * 365 + tf.floor(of_era / 4) - tf.floor(of_era / 100) + of_year - 719468


def _exists(year, month, day):
    """Whether there are such dates: the next month begins later."""
    following = _days(year + tf.floor(month / 12), tf2.math.floormod(month, 12) + 1, tf.ones_like(day))
    return (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (_days(year, month, day) < following)


def _clock(texts):
    """Returns the times of a day in days, UTC; NaN if there is no such time."""
    is_match = tf.strings.regex_full_match(texts, _CLOCK)
    hour, minute, second, hours, minutes = (_group(texts, is_match, _CLOCK, rf'\{number}') for number in (1, 2, 3, 5, 6))
    half = tf.strings.lower(tf.strings.regex_replace(texts, _CLOCK, r'\4'))
    is_pm, is_half = tf.equal(half, 'p') & is_match, (tf.equal(half, 'p') | tf.equal(half, 'a')) & is_match
    is_valid = (minute <= 59) & (second < 61) & tf.where(is_half, (hour >= 1) & (hour <= 12), hour <= 23)
    hour = tf.where(is_half, tf2.math.floormod(hour, 12) + 12 * tf.cast(is_pm, tf.float64), hour)
    is_west = tf.equal(tf.strings.substr(tf.strings.regex_replace(texts, _CLOCK, r'\5 '), 0, 1), '-')
    offset = hours * 60 + tf.where(is_west, -minutes, minutes)
    time = (hour * 60 + minute - offset) / 1440 + second / 86400
    return tf.where(is_match & ~is_valid, tf.fill(tf.shape(time), tf.constant(math.nan, tf.float64)), time)

"""Alarms: most values or words of some data are unknown to a model, as they are spelled otherwise in its training data."""

from collections.abc import Collection, Iterable, Mapping

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import in_one_line, listed
from estimator_trainer.common.own_data.values import MISSING, key

_SHARE = 0.5  # Of the values; more unknown ones are an alarm.
_SHOWN = 3
_LISTED = 10  # Features in a message.
_MAX_LENGTH = 30  # Of a value that is shown.


def unknown_values(known: Iterable[str], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns those of the counted values that are no spelling of a known one, with their counts; missing ones are none."""
    keys = {key(value) for value in known}
    return {value: count for value, count in counts.items() if value not in MISSING and key(value) not in keys}


def warn_of_unknown(what: str, known: Iterable[str], counts: Mapping[str, int], place: str) -> bool:
    """Warns if more than half of some values are unknown, and shows a few of both.

    Args:
      what: the values, in words that follow 'of the', such as 'values of column state'.
      known: the vocabulary of the training data, the most frequent values first; without any, nothing is compared.
      counts: {value: count} of the other data; missing values are ignored.
      place: of the other data, such as the path of the file.

    Returns:
      Whether it warned.
    """
    known = list(known)
    total = sum(count for value, count in counts.items() if value not in MISSING)
    unknown = unknown_values(known, counts)
    num_unknown = sum(unknown.values())
    if not known or num_unknown <= _SHARE * total:
        return False
    here = sorted(unknown, key=lambda value: (-unknown[value], value))
    tf.logging.warning(
        '%s: %d %% of the %s are unknown: the training data has %s, here are %s: the model knows nothing about them; write '
        'them as there, if they are the same',
        place,
        100 * num_unknown // total,
        what,
        _show(known),
        _show(here),
    )
    return True


def warn_of_absent(names: Collection[str], place: str) -> None:
    """Warns of features of numbers or categories that no example of some data has, though some examples may lack them."""
    if names:
        tf.logging.warning(
            '%s: no example has a value of %s, as the training data has: the model takes them for missing: if the data has '
            'them, write them under these names',
            place,
            listed(names, _LISTED),
        )


def _show(values):
    shown = [in_one_line(value if len(value) <= _MAX_LENGTH else f'{value[:_MAX_LENGTH]}...') for value in values[:_SHOWN]]
    return ', '.join([*shown, '...'] if len(values) > _SHOWN else shown)

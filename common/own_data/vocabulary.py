"""Vocabularies: the values or words of the training data, and lookup tables from them to ids."""

import collections
from collections.abc import Collection, Iterable, Mapping, Sequence
import itertools
import operator
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import assets
from estimator_trainer.common.errors import listed
from estimator_trainer.common.own_data.values import WHOLE, display, key, spellings

_NOT_IN_A_FILE = re.compile(r'[\t\r\n]')  # TensorFlow drops each carriage return of a line.
_MAX_CHARACTERS = 1 << 26  # Of the values of a column that are counted: long texts would fill the memory.
_MAX_FILES = 100  # Of columns; tables for a thousand take seconds to build.


class ValueCounts:
    """Counts the distinct values of a stream in bounded memory: drops the rarest if there are too many, or too long ones.

    Attributes:
      are_distinct: whether no value has occurred twice, among those before the first were dropped.
      total: number of values.
    """

    def __init__(self, max_distinct: int):
        self._max_distinct = max_distinct
        self._counts: collections.Counter[str] = collections.Counter()
        self._characters = 0  # Of the values that are counted.
        self.is_exact = True
        self.are_distinct = True
        self.total = 0

    def __len__(self) -> int:
        return len(self._counts)

    def update(self, values: Collection[str]) -> None:
        self.add(collections.Counter(values))

    def add(self, counts: Mapping[str, int]) -> None:
        """Adds {value: how often it occurs}."""
        self._characters += sum(map(len, counts.keys() - self._counts.keys()))
        added = map(operator.add, counts.values(), map(self._counts.get, counts, itertools.repeat(0)))
        dict.update(self._counts, zip(counts, added))  # Three times as fast as Counter.update.
        self.total += sum(counts.values())
        if self.is_exact and len(self._counts) < self.total:
            self.are_distinct = False
        limit = 1
        while len(self._counts) > self._max_distinct or self._characters > _MAX_CHARACTERS:
            self.is_exact = False
            self._counts = collections.Counter({value: count for value, count in self._counts.items() if count > limit})
            self._characters = sum(map(len, self._counts))
            limit += 1

    def counts(self) -> Mapping[str, int]:
        """Returns {value: count}, as spelled."""
        return self._counts

    def merged(self) -> dict[str, int]:
        """Returns {value: count}: spellings of one value count together, under the commonest, as it is shown."""
        names: dict[str, str] = {}
        found: collections.Counter[str] = collections.Counter()
        for value, count in sorted(self._counts.items(), key=lambda item: (-item[1], item[0])):
            found[names.setdefault(key(value), display(value))] += count
        return dict(found)

    def values(self) -> Iterable[str]:
        return self.merged().keys()

    def most_common(self, min_count: int, max_size: int) -> list[str]:
        """Returns at most max_size values that occur at least min_count times, the most frequent first."""
        found = sorted((-count, value) for value, count in self.merged().items() if count >= min_count)
        return [value for _, value in found[:max_size]]

    def describe(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the metadata of these values: their vocabulary, by the hyper-parameters."""
        return {'vocabulary': [value for value in self.most_common(params['min_count'], params['max_vocabulary']) if value]}


def union(counts: Iterable[ValueCounts], max_distinct: int) -> ValueCounts:
    """Returns the counts of all values; they are exact if those of each are, and the values are not too many together."""
    found = ValueCounts(max_distinct)
    for each in counts:
        found.add(each.counts())
        found.is_exact = found.is_exact and each.is_exact
    return found


def lookup_table(ids: Mapping[str, int] | Mapping[int, int], default: int, name: str) -> tf.lookup.StaticHashTable:
    """Creates a table from string or int64 to int64, initialized by `tf.tables_initializer` of the outermost graph.

    In an export, its content is an asset, a file with the given name, if all keys can be in one.
    """
    with tf.init_scope():  # A tf.data function cannot hold its own table.
        return tf.lookup.StaticHashTable(_initializer(ids or {'': default}, name), default)  # It must not be empty.


def _initializer(ids, name):
    """Returns the initializer of a table; its file has a key, a tab and an id in each line."""
    dtype = tf.string if isinstance(next(iter(ids)), str) else tf.int64
    if assets.are_written() and not any(_NOT_IN_A_FILE.search(str(key)) for key in ids):
        content = ''.join(f'{key}\t{number}\n' for key, number in ids.items())
        return tf.lookup.TextFileInitializer(assets.asset(name, content.encode()), dtype, 0, tf.int64, 1)
    return tf.lookup.KeyValueTensorInitializer(
        tf.constant([*ids], dtype, [len(ids)]), tf.constant([*ids.values()], tf.int64, [len(ids)])
    )


def column_ids(values: tf.Tensor, vocabularies: Mapping[str, Sequence[str]]) -> tf.Tensor:
    """Returns the ids of values, string [..., columns], as int32: 1 + the index in the column's vocabulary; 0 if unknown.

    Each of a value's spellings has its id, unless it is another value of the vocabulary.
    """
    known = {name: _known(vocabulary, 1) for name, vocabulary in vocabularies.items()}
    have_integers = [*map(_has_integers, vocabularies.values())]
    if assets.are_written() and len(known) <= _MAX_FILES:
        tables = [lookup_table(ids, 0, name) for name, ids in known.items()]
        cells = [_whole(values[..., i]) if has_integers else values[..., i] for i, has_integers in enumerate(have_integers)]
        found = tf.stack([table.lookup(texts) for table, texts in zip(tables, cells)], axis=-1)
    else:  # One table for all columns is faster: keys begin with the column's number.
        ids = {f'{i} {value}': number for i, of_one in enumerate(known.values()) for value, number in of_one.items()}
        columns = tf.constant([str(i) for i in range(len(known))])
        table = lookup_table(ids, 0, 'categories')
        found = table.lookup(tf.strings.join([tf.broadcast_to(columns, tf.shape(values)), values], ' '))
        if any(have_integers):  # The unknown alone, mostly few, are looked up again: this is fast.
            places = tf.where(tf.equal(found, 0) & tf.constant(have_integers))
            keys = tf.strings.join([tf.gather(columns, places[:, -1]), _whole(tf.gather_nd(values, places))], ' ')
            found = tf.tensor_scatter_nd_update(found, places, table.lookup(keys))
    return tf.cast(found, tf.int32)


def _known(vocabulary, first):
    """Returns {spelling: id} of values, whose ids begin with `first`."""
    ids = {value: number for number, value in enumerate(vocabulary, first)}
    for value, number in list(ids.items()):
        for spelling in spellings(value):
            ids.setdefault(spelling, number)
    return ids


def _has_integers(vocabulary):
    """Whether a vocabulary has integers, none of them with decimals, as tags may have."""
    return any(text.lstrip('+-').isdecimal() for text in vocabulary) and not any(map(WHOLE.fullmatch, vocabulary))


def _whole(values):
    """Returns 1.00 as 1, as `display` does."""
    return tf.strings.regex_replace(values, f'^{WHOLE.pattern}$', r'\1')


def class_ids(values: tf.Tensor, class_names: Sequence[str], name: str) -> tf.Tensor:
    """Returns the class indices of strings, int32, in any of their spellings; asserts that all are known.

    Args:
      values: string tensor of any shape.
      class_names: in their order.
      name: of the label, for the message.
    """
    ids = _known(class_names, 0)
    found = lookup_table(ids, -1, name).lookup(_whole(values) if _has_integers(class_names) else values)
    shown = listed(class_names, 5)
    with tf.control_dependencies(
        [tf.debugging.Assert(tf.reduce_all(found >= 0), [f'Key: {name}. Must be one of the classes: {shown}'])]
    ):
        return tf.cast(found, tf.int32)


def sorted_classes(values: Iterable[str]) -> list[str]:
    """Sorts class names: numerically if all are numbers, else alphabetically."""
    values = list(values)
    try:
        return sorted(values, key=lambda value: (float(value), value))
    except ValueError:
        return sorted(values)

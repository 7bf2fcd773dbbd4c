"""Duplicates between the training data and the evaluation's, and contradictory labels."""

import types

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.formats.encoded import PICTURE
from estimator_trainer.common.inference import duplicates
from estimator_trainer.common.inference.duplicates import CONTRADICTORY, EQUAL, SIMILAR
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.common.targets import FORECAST
from estimator_trainer.hparams.build import add_metadata
from tests.pipeline.pipelines import make_params

RANDOM = np.random.RandomState(0)


def make_source(splits, parse, metadata=None, **functions):
    """A dataset of {split: structure of arrays [n, ...]}."""
    read = lambda split, data_dir, params: tf.data.Dataset.from_tensor_slices(splits[split])  # noqa: E731
    return DataSource(
        types.SimpleNamespace(read=read, parse=parse, **functions), '', add_metadata(make_params(), metadata or {})
    )


def blurred(image, noise=0.0):
    """A picture of large areas, as photos are."""
    areas = RANDOM.uniform(size=[5, 5, 1]) if image is None else image
    return np.clip(np.kron(areas, np.ones([8, 8, 1])) + RANDOM.uniform(-noise, noise, [40, 40, 1]), 0, 1).astype(np.float32)


def test_equal_and_similar_pictures_are_found_and_contradictory_labels():
    areas = [RANDOM.uniform(size=[5, 5, 1]) for _ in range(8)]
    train = np.stack([blurred(one) for one in areas[:5]] + [blurred(areas[1])])
    held_out = np.stack([blurred(areas[6]), train[2], blurred(areas[4], 0.05), 0.6 * train[0] + 0.2, np.zeros_like(train[0])])
    splits = {'train': (train, [0, 1, 2, 3, 4, 5]), 'eval': (held_out, [0, 2, 3, 0, 0])}
    source = make_source(splits, lambda mode, params, record: ({'image': record[0]}, {'label': record[1]}))
    found = duplicates.find(source)
    assert found.duplicates == [
        (EQUAL, 'eval', 'example 1', 2, 'example 2', 2),
        (SIMILAR, 'eval', 'example 2', 3, 'example 4', 4),
        (SIMILAR, 'eval', 'example 3', 0, 'example 0', 0),
        (CONTRADICTORY, 'train', 'example 5', 5, 'example 1', 1),
    ]
    assert found.warnings() == [
        '3 of 5 examples of eval are in the training data, too, 2 of them as similar pictures, such as example 1, which is '
        'example 2 there: leave them out of one, or the evaluation says little about new data',
        '1 training examples are equal to others with another label, such as example 5 and example 1',
    ]
    assert found.to_csv(list('abcdef')).splitlines()[:2] == [
        'what,split,where,label,train_where,train_label',
        'equal,eval,example 1,c,example 2,c',
    ]


def test_examples_with_pictures_are_not_equal_by_their_other_columns():
    files, cities = [bytes([number]) for number in range(4)], ['a', 'b', 'a', 'b']
    examples = {'train': [*zip(files[:2], cities)], 'eval': [*zip([files[2], files[1]], cities[2:])]}
    splits = {split: [records.encode({'photo': file, 'city': city}) for file, city in some] for split, some in examples.items()}
    specs = {'photo': tf.TensorSpec([None], tf.string, PICTURE), 'city': tf.TensorSpec([None], tf.string)}

    def parse(mode, params, record):
        found = tf.io.parse_single_example(record, {name: tf.io.FixedLenFeature([], tf.string) for name in specs})
        return found, {}

    for given, expected in (
        (specs, [('example 1', 'example 1')]),
        ({'city': specs['city']}, [(f'example {i}',) * 2 for i in (0, 1)]),
    ):
        source = make_source(splits, parse, raw_specs=lambda params, given=given: given, from_raw=None)
        assert [(one.where, one.train_where) for one in duplicates.find(source).duplicates] == expected


def test_records_that_do_not_have_the_names_of_raw_inputs_are_compared_by_their_features():
    raw = {'raw_specs': lambda params: {'size': tf.TensorSpec([None], tf.float32)}, 'from_raw': None}
    serialized = {
        split: [records.encode({'x': float(x)}) for x in some] for split, some in (('train', [1, 2]), ('eval', [3, 2]))
    }

    def parse(mode, params, record):
        return tf.io.parse_single_example(record, {'x': tf.io.FixedLenFeature([], tf.float32)}), {}

    parsed = lambda mode, params, record: (record, {})  # noqa: E731
    for splits, function in ((serialized, parse), ({'train': {'x': [1, 2]}, 'eval': {'x': [3, 2]}}, parsed)):
        (found,) = duplicates.find(make_source(splits, function, **raw)).duplicates
        assert (found.where, found.train_where) == ('example 1', 'example 1')


def test_padding_is_no_difference_and_a_limit_is_kept():
    def parse(mode, params, record):
        return {'text': tf.range(1, record[0] + 1), 'example_id': record[1]}, {'label': record[0]}

    splits = {'train': ([3, 1, 9], ['a', 'b', 'c']), 'eval': ([2, 1, 7, 3], ['d', 'e', 'f', 'g'])}
    source = make_source(splits, parse)
    found = duplicates.find(source)
    assert [(one.where, one.train_where) for one in found.duplicates] == [('e', 'b'), ('g', 'a')] and not found.is_part
    found = duplicates.find(source, limit=2)
    assert [one.where for one in found.duplicates] == ['e'] and found.is_part and ' (of the first 2) ' in found.warnings()[0]


def test_places_need_no_file():
    places = lambda split, data_dir, params: iter([{'series': 'a', 'row': 3}])  # noqa: E731
    parse = lambda mode, params, record: ({'x': record}, {'y': record})  # noqa: E731
    (found,) = duplicates.find(make_source({'train': [1], 'eval': [1]}, parse, places=places)).duplicates
    assert (found.where, found.train_where) == ('series a, row 3', 'series a, row 3')


def test_what_cannot_be_compared_is_skipped():
    source = make_source({'train': [1]}, lambda mode, params, record: ({'x': record}, {'y': record}))
    assert duplicates.find(source) is None  # There is no split eval.


def test_windows_of_series_that_repeat_are_no_duplicates():
    def source(task):
        metadata = {'task': task}
        return make_source(splits, lambda mode, params, record: ({'past': record}, {'label': record}), metadata)

    splits = {name: np.zeros([2, 3], np.float32) for name in ('train', 'eval')}
    assert duplicates.find(source('regression')).duplicates and duplicates.find(source(FORECAST)) is None

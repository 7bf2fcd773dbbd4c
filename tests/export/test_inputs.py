"""The inputs of exported files: pixels and columns of numbers, if they lead to the features of a split; else the features."""

import types

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.export import inputs
from estimator_trainer.common.inference.signatures import signatures_of
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.hparams import build
from tests.shared import refused

COLUMNS = {'age': [20.0, 40.0, np.nan], 'height': [1.5, np.nan, 2.0]}


def make(**functions):
    params = build.make_hparams('m', {'image_size': 2, 'num_channels': 1, 'eval_batch_size': 2}, 'd', {})
    return DataSource(types.SimpleNamespace(**functions), '', params)


def from_raw(params, raw):
    stacked = tf.stack([raw['age'] / 10, raw['height']], 1)
    return {'numeric': tf.where(tf.is_nan(stacked), tf.zeros_like(stacked), stacked)}


def table(name='age', **functions):
    """A dataset of COLUMNS, of which missing values are not stored; its raw inputs have these names."""
    rows = [{key: value for key, value in zip((name, 'height'), row) if value == value} for row in zip(*COLUMNS.values())]
    spec = {key: tf.io.FixedLenFeature([], tf.float32, np.nan) for key in (name, 'height')}

    def parse_batch(mode, params, serialized):
        parsed = tf.io.parse_example(serialized, spec)
        return from_raw(params, {'age': parsed[name], 'height': parsed['height']}), {}

    return make(
        read=lambda *_: tf.data.Dataset.from_tensor_slices([records.encode(row) for row in rows]),
        parse_batch=parse_batch,
        raw_specs=lambda params: {key: tf.TensorSpec([None], tf.float32) for key in COLUMNS},
        from_raw=functions.get('from_raw', from_raw),
    )


def pictures(scale):
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 2, 2, 1) * 20

    def image_features(params, images):
        return {'image': tf.cast(images, tf.float32) / scale}

    return pixels, make(
        read=lambda *_: tf.data.Dataset.from_tensor_slices(pixels),
        parse_batch=lambda mode, params, record: (image_features(params, record), {}),
        image_features=image_features,
    )


def all_of(found):
    return {name: np.concatenate([batch[name] for batch in found.batches('eval')]) for name in found.signature.specs}


def test_columns_of_numbers_are_inputs_with_nan_where_they_are_missing():
    found = inputs.of_numbers(table(), 'eval')
    assert found.is_raw and found.signature.specs == {name: tf.TensorSpec([None], tf.float32) for name in COLUMNS}
    for name, values in all_of(found).items():
        np.testing.assert_array_equal(values, COLUMNS[name])


def test_columns_that_do_not_lead_to_the_features_are_no_inputs():
    for source in (table(name='years'), table(from_raw=lambda params, raw: {'numeric': from_raw(params, raw)['numeric'] + 1})):
        found = inputs.of_numbers(source, 'eval')
        assert not found.is_raw
        assert all_of(found)['numeric'].tolist() == [[2, 1.5], [4, 0], [0, 2]]


def test_pictures_are_pixels_if_the_features_are_shares_of_255():
    pixels, source = pictures(255)
    found = inputs.of_numbers(source, 'eval')
    assert found.is_raw and found.signature.specs == {'image': tf.TensorSpec([None, 2, 2, 1], tf.uint8)}
    np.testing.assert_array_equal(all_of(found)['image'], pixels)
    pixels, source = pictures(1)
    found = inputs.of_numbers(source, 'eval')
    assert not found.is_raw and all_of(found)['image'].tolist() == pixels.tolist()


def test_a_saved_model_gets_the_serialized_examples_of_the_records():
    signature, found = inputs.of_saved_model(table(), 'eval')
    assert signature == 'examples' and [len(batch['examples']) for batch in found.batches('eval')] == [2, 1]


def test_a_saved_model_gets_what_its_default_signature_takes_if_the_records_are_not_serialized():
    rows = {'numeric': [[2.0, 1.5], [4.0, 0.0], [0.0, 2.0]]}
    functions = dict(read=lambda *_: tf.data.Dataset.from_tensor_slices(rows), parse=lambda mode, params, record: (record, {}))
    signature, found = inputs.of_saved_model(make(**functions), 'eval')
    assert signature == '' and all_of(found)['numeric'].tolist() == rows['numeric']

    pixels, source = pictures(255)
    signature, found = inputs.of_saved_model(source, 'eval')
    assert signature == '' and found.signature.specs == signatures_of(source)[''].specs
    np.testing.assert_array_equal(all_of(found)['image'], pixels)

    # Whose raw inputs have even the names and types of the features.
    raw = dict(raw_specs=lambda _: {'numeric': tf.TensorSpec([None, 2], tf.float32)}, from_raw=lambda _, raw: raw)
    for unknown in (pictures(1)[1], make(**functions, **raw)):
        assert inputs.of_saved_model(unknown, 'eval') == ('', None)


def test_texts_are_refused():
    words = make(
        read=lambda *_: tf.data.Dataset.from_tensor_slices(['a', 'b']), parse=lambda mode, params, text: ({'word': text}, {})
    )
    assert refused(inputs.of_numbers, words, 'eval').startswith('--format: the feature word is a text')


def test_batches_of_an_input_fn_are_the_inputs():
    def input_fn(split, params):
        return tf.data.Dataset.from_tensor_slices(({'x': [[1.0], [2.0], [3.0]]}, [0, 1, 0])).batch(2)

    found = inputs.of_numbers(make(input_fn=input_fn), 'eval')
    assert not found.is_raw and all_of(found)['x'].tolist() == [[1], [2], [3]]


def test_queues_of_an_input_fn_are_read_to_their_end():
    def queue(split, params):
        (x,) = tf.train.slice_input_producer([tf.constant([1.0, 2.0, 3.0])], num_epochs=1, shuffle=False)
        return {'x': tf.train.batch([x], 2, allow_smaller_final_batch=True)}

    batches = inputs._batches_of_input_fn(make(input_fn=queue), 'eval')
    assert [batch['x'].tolist() for batch in batches] == [[1, 2], [3]]

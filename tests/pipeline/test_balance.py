"""Balanced classes: their counts, and the order in which they come equally often."""

import collections
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.pipeline import labels as classes
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.common.pipeline.share import WHOLE, Share
from estimator_trainer.common.plugins.class_weights import no_classes_error
from estimator_trainer.common.records import records, tfrecord
from estimator_trainer.hparams.build import HParams
from tests.pipeline.pipelines import make_params, numbers, of_files
from tests.shared import refused

LABELS = np.array([1] * 3 + [0] * 40 + [2] * 17)  # Of the records 0 to 59, in files sorted by class.
STEPS = 30  # Of 4: two epochs.


def ids(module, labels=LABELS, share=WHOLE, steps=STEPS, start=0, directory='', is_kept=True, **changes):
    """Returns the record numbers of batches, as in training from a step on."""
    source = DataSource(module, directory, make_params(oversample=True, **changes))
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = make_input_fn(source, tf.estimator.ModeKeys.TRAIN, 'train', len(LABELS), is_kept, False, share, labels)()
        iterator = tf.data.make_initializable_iterator(dataset)
        features, _ = iterator.get_next()
        session.run(tf.assign(tf.train.get_or_create_global_step(), start))
        session.run(iterator.initializer)
        return [session.run(features['x']).tolist() for _ in range(steps)]


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    path = str(tmp_path_factory.mktemp('data'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfrecord, 'INDEXED_BYTES', 150)  # Blocks of a few records.
        records.write(path, {'train': [{'id': i} for i in range(len(LABELS))]}, num_shards=2)
    return path


@pytest.mark.parametrize(
    'is_of_files, changes',
    [(False, {}), (True, {}), (True, {'is_kept': False}), (True, {'shuffle_buffer': 30, 'is_kept': False})],
)
def test_classes_come_equally_often_and_all_records_of_the_rare_ones_in_each_epoch(directory, is_of_files, changes):
    module = of_files() if is_of_files else numbers(60)
    found = ids(module, directory=directory, **changes)
    for start in (0, 15):
        epoch = np.concatenate(found[start : start + 15])
        counts = collections.Counter(LABELS[epoch].tolist())
        times = collections.Counter(epoch.tolist())
        if 'shuffle_buffer' in changes:  # Classes come equally often among those of each half, of 30.
            for half in epoch[:30], epoch[30:]:
                assert {*collections.Counter(LABELS[half].tolist()).values()} in ({10}, {15})
            continue
        assert counts == {0: 20, 1: 20, 2: 20}
        assert {times[i] for i in range(3)} == {6, 7} and {times[i] for i in range(43, 60)} == {1, 2}
        assert all(times[i] <= 1 for i in range(3, 43))
    assert found[:15] != found[15:]  # Each epoch draws anew.


@pytest.mark.parametrize('changes', [{}, {'shuffle_buffer': 30}])
def test_the_order_is_that_of_seed_epoch_and_step_whether_kept_resumed_or_shared(directory, changes):
    whole = ids(of_files(), directory=directory, **changes)
    assert ids(of_files(), directory=directory, is_kept=False, **changes) == whole
    assert ids(of_files(), directory=directory, share=Share(1, 2), start=11, steps=9, **changes) == [
        batch[1::2] for batch in whole[11:20]
    ]
    assert ids(of_files(), directory=directory, seed=2, steps=1, **changes) != whole[:1]


def test_streams_cannot_be_oversampled():
    message = refused(ids, numbers(60), shuffle_buffer=30)
    assert message.startswith('oversample=true: the records of --dataset=numbers come as a stream')


def of_labels(values, dtype=tf.int32):
    """A source whose training examples have these labels."""
    module = numbers(len(values), parse=lambda mode, params, i: ({'x': i}, {'label': tf.gather(tf.constant(values, dtype), i)}))
    return lambda **changes: DataSource(module, '', make_params(num_classes=3, train_split='train', **changes))


def test_the_labels_are_read_in_order_and_counted():
    make = of_labels([0, 2, 2, 1, 0, 0])
    assert classes.read_labels(make(), 'x').tolist() == [0, 2, 2, 1, 0, 0]
    found = classes.with_class_counts(make(class_weights='balanced'))
    assert found.params.metadata == {'class_counts': [3, 1, 2]}
    plain = make(class_weights=(1.0,))
    assert classes.with_class_counts(plain) is plain


def test_labels_that_cannot_be_balanced_are_named():
    no_class = 'the split train has no example of the class 1: add some, or give a list of weights'
    for make, message in (
        (of_labels([0.5, 1.5], tf.float32), '--dataset=numbers has no classes: no label named label, int [batch]'),
        (of_labels([0, 2]), no_class),
    ):
        found = refused(classes.with_class_counts, make(class_weights='balanced'))
        assert found == f'class_weights=balanced: {message}'
    several = HParams(make_params(dataset='x'), {'targets': [{'key': 'a'}, {'key': 'b'}]})
    assert str(no_classes_error('oversample', several)) == (
        'oversample is for a single target of classes, but --dataset=x has several: omit it'
    )
    number = HParams(make_params(dataset='x', task='regression'), {})
    assert str(no_classes_error('oversample', number)) == (
        'oversample is for classes, but the target of --dataset=x is a number: omit it'
    )
    both = of_labels([0, 1, 2])(class_weights='balanced', oversample=True)
    assert refused(classes.with_class_counts, both).startswith('oversample=true excludes class_weights=balanced')
    with pytest.raises(RunError, match='^x: example 1 of the split train has the label 7, but the classes are 0 to 2$'):
        classes.read_labels(of_labels([0, 7])(), 'x')
    own = DataSource(types.SimpleNamespace(input_fn=None), '', make_params())
    assert refused(classes.read_labels, own, 'oversample=true').endswith('whose classes are not known: omit it')

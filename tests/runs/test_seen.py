"""The records that the steps of a run used, compared with those that its model was given."""

import json
import os
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.common.runs.drawn import records_of_steps
from tests.pipeline.pipelines import make_params, numbers, of_files

COUNT = 30
HPARAMS = {'batch_size': 4, 'shuffle_buffer': 7, 'optimizer': 'sgd'}


def recording(path):
    """A model that adds the ids of each batch to a file."""

    def model(features, labels, mode, params):
        def record(ids):
            with open(path, 'a') as file:
                file.write(f'{json.dumps(ids.tolist())}\n')
            return ids

        ids = features['x']
        if mode == tf.estimator.ModeKeys.TRAIN:
            ids = tf.ensure_shape(tf.py_func(record, [ids], tf.int64), ids.shape)
        weight = tf.get_variable('weight', [], initializer=tf.zeros_initializer())
        value = weight * tf.cast(ids, tf.float32)
        return {'y': value}, value

    return types.SimpleNamespace(model=model)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """Returns a run that has changed its batch size, at steps 5 and 9, its dataset, and the ids of its batches."""
    path = tmp_path_factory.mktemp('seen')
    examples = [{'id': i} for i in range(COUNT)]
    records.write(str(path / 'data'), {'train': examples, 'eval': examples[:4]}, num_shards=2)

    def parse_batch(mode, params, serialized):
        ids = tf.io.parse_example(serialized, {'id': tf.io.FixedLenFeature([], tf.int64)})['id']
        return {'x': ids}, {'label': tf.cast(ids % 3, tf.int32)}

    module = of_files(parse_batch=parse_batch)
    module.prepare = lambda data_dir, params: None
    module.metadata = lambda data_dir, params: {'class_names': ['zero', 'one']}  # One too few.
    options = {'schedule': 'train', 'data_dir': str(path / 'data'), 'save_checkpoints_steps': 5, 'steps_per_loop': 1}
    run = api.train(recording(path / 'ids'), module, str(path / 'output'), hparams=HPARAMS, train_steps=5, **options)
    run.train(9, override_hparams={'batch_size': 7}, steps_per_loop=1)
    run.train(12, override_hparams={'batch_size': 3})
    fed = [json.loads(line) for line in (path / 'ids').read_text().splitlines()]
    assert [len(batch) for batch in fed] == [4] * 5 + [7] * 4 + [3] * 3
    return run, DataSource(module, str(path / 'data'), make_params(**HPARAMS | {'batch_size': 3})), fed


def test_the_records_of_a_run_that_changes_its_batch_size_are_those_that_it_was_given(trained):
    run, source, fed = trained

    def found(first, last):
        drawn = [*records_of_steps(source, run.output_dir, first, last)]
        positions = {one.step: one.position for one in drawn}
        return [batch for one in drawn for batch in one.numbers.tolist()], positions

    assert found(0, 12) == (fed, {0: 0, 5: 20, 9: 48})
    assert found(7, 10) == (fed[7:10], {7: 34, 9: 48})
    assert found(3, 4) == (fed[3:4], {3: 12})


def test_what_follows_or_looks_back_at_a_run_counts_examples_as_its_training_does(trained):
    run, _, fed = trained
    with run._opened({'schedule': 'suspects', 'checkpoint': None}) as experiment:
        assert experiment.source.params.examples_at(12) == sum(map(len, fed)) == 57
    with run._opened({'schedule': 'continuous_eval', 'num_epochs': 2.0}) as experiment:
        assert experiment.train_steps == 13  # 9 + (60 - 48) / 3.


def counts(ids):
    return {
        'examples': len(ids),
        'classes': dict(zip(['zero', 'one', '2'], np.bincount(np.array(ids) % 3, minlength=3).tolist())),
    }


def test_the_examples_are_counted_by_epoch_and_class_up_to_a_step_or_between_steps(trained, caplog):
    caplog.set_level('INFO', 'tensorflow')
    run, _, fed = trained
    before = sorted(os.listdir(run.output_dir))
    flat = [id for batch in fed for id in batch]  # Steps 7 and 12 end at 34 and 57, an epoch at 30.
    used = len(np.unique(flat[:34]))
    epochs = [{'epoch': 1, **counts(flat[:30])}, {'epoch': 2, **counts(flat[30:34])}]
    totals = {'records': used, 'unseen': COUNT - used, 'epochs': epochs}
    assert run.seen(7) == {'global_step': 7, **counts(flat[:34]), **totals}
    assert 'Steps 1 to 7 used 34 examples, of 30 records; 0 were not used.' in caplog.text
    found, used = run.seen('8:12'), len(np.unique(flat[34:]))
    assert found == {
        'global_step': 12,
        'first_step': 8,
        **counts(flat[34:]),
        'records': used,
        'unseen': COUNT - used,
        'epochs': [{'epoch': 2, **counts(flat[34:])}],
    }
    assert run.seen()['examples'] == 57 and sorted(os.listdir(run.output_dir)) == before


def test_the_file_that_names_the_last_checkpoint_may_be_missing(trained, tmp_path):
    path = os.path.join(trained[0].output_dir, 'checkpoint')
    os.rename(path, tmp_path / 'checkpoint')
    try:
        assert trained[0].seen()['global_step'] == 12
    finally:
        os.rename(tmp_path / 'checkpoint', path)


def test_the_steps_that_used_a_record_are_listed(trained, caplog):
    caplog.set_level('INFO', 'tensorflow')
    run, _, fed = trained
    steps = [step for step, batch in enumerate(fed, 1) if 17 in batch]
    found = run.seen(record='train:17')
    place = {'split': 'train', 'example': 17, 'tfrecord': found['place']['tfrecord'], 'record': 8}
    expected = {'global_step': 12, 'record': 'train:17', 'place': place, 'steps': steps, 'epochs': [1, 2][: len(steps)]}
    assert found == expected
    assert f'Of the steps 1 to 12, train:17 was used in {", ".join(map(str, steps))}.' in caplog.text
    assert run.seen(step=steps[0], record='train-00001-of-00002.tfrecord:8')['steps'] == steps[:1]
    assert run.seen(record='eval:3')['steps'] == []
    assert 'eval:3 is a record of the split eval: no step used it.' in caplog.text


@pytest.mark.parametrize(
    'given, message',
    [
        ({'step': 13}, 'step=13: the latest checkpoint of .*output is of step 12'),
        ({'step': '5:4'}, 'step=5:4 is neither a step, from 1 on, such as 1234, nor the first and the last'),
        ({'step': 0}, 'step=0 is neither'),
        ({'record': 'train:30'}, 'record=train:30: the split train has 30 records: their numbers are 0 to 29'),
        ({'record': 'a.csv:3'}, 'has no such record in train, eval; the first one is train:0'),
    ],
)
def test_steps_and_records_that_do_not_exist_are_refused(trained, given, message):
    with pytest.raises(UsageError, match=message) as caught:
        trained[0].seen(**given)
    assert '\n' not in str(caught.value)


def test_other_data_than_that_of_the_run_is_refused(trained, tmp_path):
    run, source, _ = trained
    records.write(str(tmp_path), {'train': [{'id': i + 1} for i in range(COUNT)]}, num_shards=2)
    with pytest.raises(RunError, match="the training data, in .*, differs from the run's"):
        api.load(run.output_dir, recording(''), source.module, str(tmp_path)).seen(3)


@pytest.mark.parametrize(
    ('flags', 'since'),
    [({'asynchronous': True}, 0), ({'asynchronous': 1}, 1), ({'local_cluster': 'chief:1,worker:2,ps:1'}, 0)],
)
def test_the_records_of_steps_that_depend_on_time_or_on_an_input_fn_are_unknown(tmp_path, flags, since):
    (tmp_path / 'hparams.json').write_text('{}')
    with pytest.raises(UsageError, match='makes its own batches'):
        next(records_of_steps(DataSource(numbers(3, input_fn=lambda *_: None), '', make_params()), str(tmp_path), 0, 1))
    source = DataSource(numbers(9), '', make_params())
    (found,) = records_of_steps(source, str(tmp_path), 0, 2)
    assert sorted(np.ravel(found.numbers).tolist()) != [*range(9)] and found.numbers.shape == (2, 4)
    (tmp_path / 'flags.json').write_text('{"asynchronous": 2}')
    assert np.array_equal(next(records_of_steps(source, str(tmp_path), 0, 2)).numbers, found.numbers)
    (tmp_path / 'flags.json').write_text(json.dumps(flags))
    with pytest.raises(UsageError, match=f'with parameter servers.* after step {since}$'):
        next(records_of_steps(source, str(tmp_path), 0, 2))

"""The records of a run's steps, compared with those that its model was given."""

import json
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.common.runs.drawn import records_of_steps
from tests.pipeline.pipelines import make_params, numbers, of_files

COUNT = 30


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


def test_the_records_of_a_run_that_changes_its_batch_size_are_those_that_it_was_given(tmp_path):
    records.write(str(tmp_path / 'data'), {'train': [{'id': i} for i in range(COUNT)]}, num_shards=2)
    module, output = of_files(), str(tmp_path / 'output')
    module.prepare = lambda data_dir, params: None
    options = {'schedule': 'train', 'data_dir': str(tmp_path / 'data'), 'save_checkpoints_steps': 5, 'steps_per_loop': 1}
    hparams = {'batch_size': 4, 'shuffle_buffer': 7, 'optimizer': 'sgd'}
    model = recording(tmp_path / 'ids')
    run = api.train(model, module, output, hparams=hparams, train_steps=5, **options)
    run.train(9, override_hparams={'batch_size': 7}, steps_per_loop=1)
    run.train(12, override_hparams={'batch_size': 3})
    fed = [json.loads(line) for line in (tmp_path / 'ids').read_text().splitlines()]
    assert [len(batch) for batch in fed] == [4] * 5 + [7] * 4 + [3] * 3
    source = DataSource(module, str(tmp_path / 'data'), make_params(**{**hparams, 'batch_size': 3}))

    def found(first, last):
        drawn = [*records_of_steps(source, output, first, last)]
        positions = {one.step: one.position for one in drawn}
        return [batch for one in drawn for batch in one.numbers.tolist()], positions

    assert found(0, 12) == (fed, {0: 0, 5: 20, 9: 48})
    assert found(7, 10) == (fed[7:10], {7: 34, 9: 48})
    assert found(3, 4) == (fed[3:4], {3: 12})


@pytest.mark.parametrize('flags', [{'asynchronous': True}, {'local_cluster': 'chief:1,worker:2,ps:1'}])
def test_the_records_of_steps_that_depend_on_time_or_on_an_input_fn_are_unknown(tmp_path, flags):
    (tmp_path / 'hparams.json').write_text('{}')
    with pytest.raises(UsageError, match='makes its own batches'):
        next(records_of_steps(DataSource(numbers(3, input_fn=lambda *_: None), '', make_params()), str(tmp_path), 0, 1))
    source = DataSource(numbers(9), '', make_params())
    (found,) = records_of_steps(source, str(tmp_path), 0, 2)
    assert sorted(np.ravel(found.numbers).tolist()) != [*range(9)] and found.numbers.shape == (2, 4)
    (tmp_path / 'flags.json').write_text(json.dumps(flags))
    with pytest.raises(UsageError, match='with parameter servers'):
        next(records_of_steps(source, str(tmp_path), 0, 1))

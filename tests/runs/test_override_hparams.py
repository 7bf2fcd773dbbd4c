"""override_hparams: a training goes on with other values, without losing its place in the data."""

import collections
import json
import logging
import shutil
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.runs import api
from tests.linear import scalars
from tests.shared import assert_equal, read_weights

ROWS = 50  # Examples of an epoch.
DATA = types.SimpleNamespace(
    get_params=dict,
    prepare=lambda data_dir, params: None,
    read=lambda split, data_dir, params: tf.data.Dataset.range(ROWS),
    parse=lambda mode, params, i: ({'x': tf.ones([i % 4 + 1]), 'id': i}, {'y': tf.cast(i, tf.float32) / ROWS}),
)
HPARAMS = {'batch_size': 6, 'learning_rate': 0.01, 'shuffle_buffer': ROWS, 'optimizer': 'sgd'}


class Recorder:
    """Trains a linear model in directories below tmp_path; `seen` has the numbers of the examples, by directory."""

    def __init__(self, tmp_path):
        self.tmp_path, self.seen, self.name = tmp_path, collections.defaultdict(list), ''

    def model(self, features, labels, mode, params):
        y = tf.get_variable('w', [1]) * tf.cast(features['id'], tf.float32) / ROWS
        if labels is None:
            return {'y': y}, None
        with tf.control_dependencies([tf.py_func(lambda ids: self.seen[self.name].extend(ids), [features['id']], [])]):
            return {'y': y}, tf.square(y - labels['y'])

    def train(self, name, steps, override='', hparams=(), **options):
        """Trains up to a step, and returns hparams.json."""
        self.name, path = name, self.tmp_path / name
        model = types.SimpleNamespace(get_params=dict, model=self.model)
        options |= {'schedule': 'train', 'train_steps': steps, 'override_hparams': override}
        api.train(model, DATA, path, hparams={**HPARAMS, **dict(hparams)}, **options)
        return json.loads((path / 'hparams.json').read_text())


def test_with_another_batch_size_the_epoch_goes_on_where_it_was(tmp_path, caplog):
    recorder = Recorder(tmp_path)
    recorder.train('whole', 30)
    expected = recorder.seen['whole']
    assert sorted(expected[:ROWS]) == list(range(ROWS))
    recorder.train('found', 6)
    recorder.train('found', 7)
    recorder.train('found', 8, 'batch_size=10')
    for step in (7, 8):  # A change whose checkpoint is lost counts from the one before.
        (tmp_path / 'found' / f'model.ckpt-{step}.index').write_bytes(b'')
    del recorder.seen['found'][6 * 6 :]
    recorder.train('found', 12, 'batch_size=10')
    path = tmp_path / 'found' / 'hparams.json'
    before = path.read_bytes()
    with pytest.raises(api.UsageError, match='batch_size=7 is not divisible by 2 towers: use --override_hparams=batch_size=6'):
        recorder.train('found', 14, 'batch_size=7', num_towers=2)
    recorder.train('found', 12, 'batch_size=7')  # There is nothing to train.
    assert path.read_bytes() == before
    history = recorder.train('found', 14, 'batch_size=4')['override_history']
    assert [(entry['global_step'], entry['hparams']['batch_size']) for entry in history] == [(6, [6, 10]), (12, [10, 4])]
    with caplog.at_level(logging.INFO, 'tensorflow'):
        recorder.train('found', 15, hparams={'batch_size': 4})
    assert 'From step 6 on: batch_size is 10; it was 6.' in caplog.text and 'epoch 2.16' in caplog.text  # (36 + 60 + 12) / 50
    assert recorder.seen['found'] == expected[: 6 * 6 + 6 * 10 + 3 * 4]


def test_a_changed_rate_counts_from_its_step_on_and_resumes_exactly(tmp_path):
    recorder = Recorder(tmp_path)
    override = {'learning_rate': 0.001, 'weight_decay': 0.1}
    options = {'save_summary_steps': 1, 'save_checkpoints_steps': 3}
    recorder.train('expected', 4, **options)
    shutil.copytree(tmp_path / 'expected', tmp_path / 'found')
    rates = scalars(tmp_path / 'expected')['learning_rate']
    recorder.train('expected', 12, override, **options)
    rates |= scalars(tmp_path / 'expected')['learning_rate']  # Within a second, events go to a file of the same name.
    np.testing.assert_allclose([rates[step] for step in range(1, 13)], [0.01] * 4 + [0.001] * 8)
    recorder.train('found', 7, override)
    saved = recorder.train('found', 12, override)
    assert_equal(read_weights(tmp_path / 'found'), read_weights(tmp_path / 'expected'))
    changes = {'learning_rate': [0.01, 0.001], 'weight_decay': [0.0, 0.1]}
    assert saved['override_history'] == [{'global_step': 4, 'hparams': changes}] and saved['learning_rate'] == 0.001
    reuse = f'reuse the saved values, with --hparams_set={tmp_path}/found/hparams.json, or choose another --output_dir$'
    with pytest.raises(api.UsageError, match=f'learning_rate was 0.001, now it is 0.01: {reuse}'):
        recorder.train('found', 13, 'weight_decay=0.1')
    saved = recorder.train('found', 13, 'learning_rate=0.01,weight_decay=0.1')
    assert [entry['global_step'] for entry in saved['override_history']] == [4, 12]


def test_another_batch_size_does_not_go_with_groups_by_length(tmp_path):
    recorder = Recorder(tmp_path)
    by_length = {'hparams': {'group_by_length': True}}
    recorder.train('found', 1, **by_length)
    with pytest.raises(api.UsageError, match='after which this training cannot go on with group_by_length'):
        recorder.train('found', 2, 'batch_size=4', **by_length)
    recorder.train('found', 2, 'learning_rate=0.01', **by_length)

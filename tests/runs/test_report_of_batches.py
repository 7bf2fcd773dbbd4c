"""The report of a dataset with input_fn, and of a canned Estimator, is as that of any other."""

import types

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from tests.runs.test_report import CLASS, Page


def test_the_batches_of_an_input_fn_have_labels_slices_and_mistakes(tmp_path):
    def input_fn(split, params):
        age = np.arange(400, dtype=np.float32) % 100
        labels = np.where((age > 50) ^ (age > 74), b'yes', CLASS.encode())  # Too many bends for a linear model.
        batches = tf.data.Dataset.from_tensor_slices(({'age': age}, labels)).shuffle(400)
        return (batches.repeat() if split == 'train' else batches).batch(50)

    def estimator(config, params):
        column = tf.feature_column.numeric_column('age', normalizer_fn=lambda age: age / 100)
        return tf.estimator.LinearClassifier([column], config=config, label_vocabulary=[CLASS, 'yes'])

    model = types.SimpleNamespace(__name__='line', estimator=estimator)
    run = api.train(model, input_fn, str(tmp_path / 'run'), train_steps=30, save_checkpoints_steps=15)
    found = Page(run.report()).check()
    assert 'for all 400 examples' in ' '.join(found.text.split()) and 'neither measures which inputs matter' in found.text
    for title in ('Confusion matrix', 'By class', 'Slices', 'Worst mistakes'):
        assert title in found.titles()
    assert {row[0] for row in found.rows('slices')[1:]} == {f'age: {x} to {x + 24}' for x in (0, 25, 50, 75)} | {'any value'}
    header, *mistakes = found.rows('mistakes')
    for cells in (dict(zip(header, row)) for row in mistakes):
        assert cells['label'] == ('yes' if 50 < float(cells['age']) < 75 else CLASS) != cells['predicted']

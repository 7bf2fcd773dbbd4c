"""Quantities derived from a run's options, hyper-parameters and data size: steps, splits, batches, metrics."""

import random
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.options.values import MAX_STEPS
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.runs.experiment import make_experiment
from estimator_trainer.common.runs.plan import Plan
from estimator_trainer.common.training.session_config import make_run_config
from estimator_trainer.hparams import build
from tests.linear import MODEL

SIZES = {'train': 10, 'eval': 7, 'empty': 0, 'endless': None}


def read(split, data_dir, params):
    if split == 'lost':
        return tf.data.TFRecordDataset('/no/such')
    size = SIZES[split]
    return tf.data.Dataset.range(5).repeat() if size is None else tf.data.Dataset.range(size)


def parse(mode, params, i):
    return {'x': tf.stack([tf.cast(i, tf.float32), 1.0])}, {'y': tf.cast(i, tf.float32)}


def make(tmp_path, text='', schedule='train', batch_start=(0, 0), model=MODEL, **options):
    """Returns the Experiment of a linear model and ten examples, by default in batches of 4."""
    params = build.make_hparams('m', {'decay': 0.0, 'batch_size': 4}, 'd', {'shuffle_buffer': 10}, text=text)
    source = DataSource(types.SimpleNamespace(read=read, parse=parse), '', params.with_batch_start(batch_start))
    options = Options(schedule=schedule, **options)
    config = make_run_config(str(tmp_path), 1, options)
    return make_experiment(Plan(model, source, str(tmp_path), options, None), config)


def test_the_length_of_a_run_and_its_periods_follow_from_the_data(tmp_path):
    for text, options, steps, eval_every_steps in (
        ('num_epochs=1.5', {}, 4, 3),  # 15 / 4 and 10 / 4, rounded up.
        ('num_epochs=2', {'batch_start': (3, 12)}, 5, 3),  # 3 + (20 - 12) / 4.
        ('num_epochs=2,train_steps=7,batch_size=5', {}, 7, 2),
        ('num_epochs=2', {'schedule': 'continuous_eval', 'save_checkpoints_steps': 2}, 5, 2),
        ('num_epochs=2', {'save_checkpoints_steps': 2, 'eval_every_steps': 4}, 5, 4),
        ('num_epochs=2', {'schedule': 'dry_run'}, 1, 3),
        ('train_split=endless,train_steps=9', {}, 9, 1000),
        ('num_epochs=2', {'schedule': 'evaluate'}, 1, 1000),
        ('num_epochs=2,train_split=eval', {}, 4, 2),  # 14 / 4 and 7 / 4, rounded up.
        ('num_epochs=2,min_steps=5', {}, 5, 3),
        ('num_epochs=2,min_steps=20', {}, 20, 12),  # 3 steps an epoch, four times as many.
        ('num_epochs=2,min_steps=20', {'save_checkpoints_steps': 4}, 20, 4),
        ('num_epochs=2,min_steps=20', {'schedule': 'dry_run'}, 1, 3),
        ('train_steps=5,min_steps=20', {}, 5, 3),
    ):
        experiment = make(tmp_path, text, **options)
        assert (experiment.train_steps, experiment.eval_every_steps) == (steps, eval_every_steps)


def test_a_run_that_is_lengthened_to_min_steps_says_so_with_its_epochs(tmp_path, caplog):
    make(tmp_path, 'num_epochs=2,min_steps=20')
    assert '10 examples are short: this run has 8 of them, to reach min_steps=20, rather than 2: --num_epochs' in caplog.text
    caplog.clear()
    make(tmp_path, 'num_epochs=2,min_steps=5')
    assert 'min_steps' not in caplog.text


def test_invalid_runs_are_named(tmp_path):
    for text, options, message in (
        ('train_split=endless', {}, '--dataset=d is infinite, so epochs are undefined: set --train_steps'),
        ('num_epochs=1e30', {}, rf'num_epochs=1e\+30 makes more than {MAX_STEPS} steps: lower it, or set --train_steps'),
        ('num_epochs=0', {}, 'num_epochs=0.0 leaves nothing to train: raise it, or set --train_steps'),
        ('batch_size=2', {'num_towers': 3}, 'batch_size=2 is too small for 3 towers: use --hparams=batch_size=3$'),
        ('train_split=test', {}, '--dataset=d: unknown split test'),
        ('train_split=lost', {}, '--dataset=d: the split lost in  cannot be read: /no/such; No such file'),
        ('', {'schedule': 'train_and_evaluate', 'eval_splits': ['empty']}, '--dataset=d: the split empty in  is empty'),
        ('', {'schedule': 'evaluate', 'eval_splits': ['eval', 'test']}, '--dataset=d: unknown split test'),
        ('', {'schedule': 'evaluate', 'eval_splits': ['test'], 'eval_steps': 1}, '--dataset=d: unknown split test'),
        ('', {'schedule': 'evaluate', 'eval_splits': ['endless']}, 'd: the split endless is infinite: set --eval_steps'),
        ('', {'schedule': 'dry_run', 'best_metric': 'los:max'}, 'no metric los; the metrics are: examples, loss, loss'),
    ):
        with pytest.raises((UsageError, RunError), match=message):
            make(tmp_path, text, **options)
    with pytest.raises(UsageError) as error:
        make(tmp_path, 'batch_size=2', 'train_and_evaluate', num_towers=3, eval_splits=['test', 'eval', 'endless'])
    assert [*error.value.args] == [
        'batch_size=2 is too small for 3 towers: use --hparams=batch_size=3',
        '--dataset=d: unknown split test',
        '--dataset=d: the split endless is infinite: set --eval_steps',
    ]


def test_looking_for_a_metric_takes_no_random_numbers_of_the_initial_weights(tmp_path):
    def model(*args):
        random.random()  # As the initializers of Keras.
        return MODEL.model(*args)

    drawing = types.SimpleNamespace(**{**vars(MODEL), 'model': model})
    before = random.getstate()
    make(tmp_path, schedule='train_and_evaluate', model=drawing, eval_splits=['eval'], best_metric='examples:max')
    assert random.getstate() == before


@pytest.mark.parametrize(
    'split, batches, numbers', [('train', 0, range(10)), ('train', 2, range(8)), ('endless', MAX_STEPS, range(5))]
)
def test_training_sees_all_batches_or_the_first_ones(tmp_path, split, batches, numbers):
    experiment = make(tmp_path, f'train_steps=9,train_split={split},cache=false', overfit_batches=batches)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.create_global_step()
        batches = tf.data.make_initializable_iterator(experiment.train_input_fn())
        features, _ = batches.get_next()
        session.run(tf.global_variables_initializer())
        session.run(batches.initializer)
        seen = np.concatenate([session.run(features['x'])[:, 0] for _ in range(20)])
    assert set(seen) == set(numbers)


@pytest.mark.parametrize('schedule, steps, count', [('evaluate', 0, 7), ('evaluate', 2, 4), ('dry_run', 2, 2)])
def test_an_evaluation_sees_the_whole_split_or_the_first_batches(tmp_path, schedule, steps, count):
    experiment = make(tmp_path, 'eval_batch_size=2', schedule, eval_steps=steps)
    (evaluator,) = experiment.evaluators
    assert sum(len(batch['x']) for batch in evaluator.batches(lambda features, *_: features)) == count
    assert not make(tmp_path, schedule='train').evaluators

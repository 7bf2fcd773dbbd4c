"""Every model under models/, found by itself: it trains on one of the datasets, and has the size that it should."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data.input_pipeline import make_input_fn
from common.data.source import DataSource
from common.errors import UsageError
from common.plugins import loader
from common.training.parallel import make_parallel
from hparams import build
from models import alexnet

SEQ2SEQ = ('--model=seq2seq', '--dataset=addition')
# Worked out from the layers by hand.
NUM_PARAMETERS = {
    'alexnet': (3 * 3 * 1 * 32 + 32)
    + (3 * 3 * 32 * 64 + 64)
    + (3 * 3 * 64 * 128 + 128)
    + (3 * 3 * 128 * 512 + 512)
    + (512 * 10 + 10),
    'polynomial': 3,
    # The embedding, three GRU cells, the encoder's summary, attention's keys, the two projections, the bytes.
    'seq2seq': 256 * 32
    + 3 * ((32 + 128 + 1) * 3 * 128)
    + (256 + 1) * 128
    + 256 * 128
    + (128 + 256 + 1) * 128
    + (128 + 1) * 256,
}


SMALL_DATA = {'addition': ['--hparams=num_examples=200']}


def trains_on(run, model, dataset):
    try:
        code, result, _ = run(f'--model={model}', f'--dataset={dataset}', '--schedule=dry_run', *SMALL_DATA.get(dataset, []))
    except (KeyError, ValueError, AttributeError):  # Not made for each other.
        return False
    return code == 0 and result['eval']['loss'] > 0


@pytest.mark.parametrize('model', loader.available('model'))
def test_every_model_trains_on_a_dataset(run, model):
    datasets = sorted(loader.available('dataset'), key=lambda dataset: f'{model}_{dataset}' not in build.available_sets())
    assert any(trains_on(run, model, dataset) for dataset in datasets)


def count_parameters(output_dir):
    reader = tf.train.load_checkpoint(str(output_dir))
    shapes = [
        shape
        for name, shape in reader.get_variable_to_shape_map().items()
        if 'Adam' not in name and '_power' not in name and name != 'global_step'
    ]
    return sum(tf.TensorShape(shape).num_elements() for shape in shapes)


@pytest.mark.parametrize('model, dataset', [('alexnet', 'mnist'), ('polynomial', 'polynomial'), ('seq2seq', 'addition')])
def test_models_have_as_many_parameters_as_worked_out_by_hand(run, model, dataset, tmp_path):
    run(f'--model={model}', f'--dataset={dataset}', '--schedule=train', '--train_steps=1', *SMALL_DATA.get(dataset, []))
    assert count_parameters(tmp_path / 'output') == NUM_PARAMETERS[model]


def test_alexnet_with_batch_norm_has_as_many_parameters_as_worked_out_by_hand(run, tmp_path):
    run('--schedule=train', '--train_steps=1', '--hparams=batch_norm=true')
    # Each channel and unit has a mean, a variance, a scale and an offset in place of its bias.
    assert count_parameters(tmp_path / 'output') == NUM_PARAMETERS['alexnet'] + 3 * (32 + 64 + 128 + 512)


def alexnet_gradients(devices, data_dir, mode):
    """Returns {name: value} of the loss, its gradients and the predictions on the first 11 test digits."""
    model, dataset = loader.load('model', 'alexnet'), loader.load('dataset', 'mnist')
    params = build.make_hparams(
        'alexnet',
        model.get_params(),
        'mnist',
        dataset.get_params(),
        text='filters=[8,8],dense_units=32,drop_rate=0.0,max_shift=0,eval_batch_size=11',
    )
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 4})) as session:
        tf.set_random_seed(1)
        inputs = make_input_fn(DataSource(dataset, data_dir, params), tf.estimator.ModeKeys.EVAL, 'eval')()
        features, labels = tf.data.make_one_shot_iterator(inputs).get_next()
        predictions, loss = make_parallel(
            lambda features, labels: model.model(features, labels, mode, params), devices, features=features, labels=labels
        )
        variables = tf.trainable_variables()
        gradients = tf.gradients(tf.reduce_mean(loss), variables)
        session.run([tf.assign(v, 0.1 * tf.random.stateless_normal(v.shape, [i, 0])) for i, v in enumerate(variables)])
        return session.run(
            {
                'loss': loss,
                'probabilities': predictions['probabilities'],
                **{v.name: gradient for v, gradient in zip(variables, gradients)},
            }
        )


@pytest.mark.parametrize('mode', ['train', 'eval'])
@pytest.mark.parametrize('towers', [1, 2, 4])
def test_towers_give_alexnet_the_loss_and_gradients_of_none(data_dir, mode, towers):
    expected = alexnet_gradients([], data_dir, mode)
    found = alexnet_gradients([f'/cpu:{i}' for i in range(towers)], data_dir, mode)
    assert expected['loss'].shape == (11,) and len(expected) == 10
    assert np.abs(expected['dense/kernel:0']).max() > 1e-3
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    'flags, message',
    [
        (['--hparams=filters=[-1]'], 'filters=[-1] must be at least 1'),
        (['--hparams=filters=[8,0]'], 'filters=[8, 0] must be at least 1'),
        (
            ['--hparams=filters=[1,1,1,1,1]'],
            'filters=[1, 1, 1, 1, 1] must be at most 4 numbers, each of which halves images of 28 by 28 pixels',
        ),
        (['--hparams=filters=[9999999999]'], '--hparams: filters=[9999999999] must be at most 2147483647'),
        (['--hparams=dense_units=0'], 'dense_units=0 must be at least 1'),
        (['--hparams=dense_units=-5'], 'dense_units=-5 must be at least 1'),
        (['--hparams=max_shift=28'], 'max_shift=28 must be from 0 to 27'),
        (['--hparams=max_shift=2147483647'], 'max_shift=2147483647 must be from 0 to 27'),
        (['--hparams=max_shift=-1'], 'max_shift=-1 must be from 0 to 27'),
        (
            ['--model=polynomial', '--dataset=polynomial', '--hparams=num_samples=2147483647'],
            'num_samples=2147483647 must be from 10 to 10000000',
        ),
        ([*SEQ2SEQ, '--hparams=max_digits=10000'], 'max_digits=10000 must be from 1 to 1000'),
        ([*SEQ2SEQ, '--hparams=num_examples=2147483647'], 'num_examples=2147483647 must be from 20 to 1000000'),
        ([*SEQ2SEQ, '--hparams=num_examples=100,beam_width=100000'], 'beam_width=100000 must be from 1 to 256'),
        ([*SEQ2SEQ, '--hparams=num_examples=100,max_target_length=100000'], 'max_target_length=100000 must be from 1 to 1000'),
        ([*SEQ2SEQ, '--hparams=num_examples=100,rnn_units=0'], 'rnn_units=0 must be at least 1'),
    ],
)
def test_a_models_and_a_datasets_own_bounds_are_one_line(run, flags, message):
    code, _, err = run('--schedule=dry_run', *flags)
    assert code == 2 and err.splitlines()[-1] == f'trainer.py: {message}'


def test_alexnet_refuses_no_classes():
    params = build.make_hparams('alexnet', {**alexnet.get_params(), 'num_classes': 0}, 'd', {})
    with pytest.raises(UsageError, match='num_classes=0 must be at least 1'):
        alexnet.model({'image': tf.zeros([1, 28, 28, 1])}, None, 'infer', params)

"""Every model under models/: it trains on each dataset of this repository that fits, and has the size that it should."""

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
from tests.models.shared import ModeKeys, make_params

pytestmark = pytest.mark.slow

SEQ2SEQ = ('--model=seq2seq', '--dataset=addition')
# The datasets that need no download. Where there is none, tests/models/test_MODEL.py trains on made-up data.
FITTING = {
    'alexnet': ['mnist'],
    'mlp': ['mnist'],
    'polynomial': ['polynomial'],
    'resnet': ['mnist'],
    'seq2seq': ['addition'],
    'text_cnn': [],
}
SMALL = {'seq2seq': ['--hparams=num_examples=200'], 'resnet': ['--hparams=depth=8']}


@pytest.mark.parametrize('model, dataset', [(model, dataset) for model in FITTING for dataset in FITTING[model]])
def test_every_model_trains_on_each_dataset_that_fits(run, model, dataset):
    flags = (f'--model={model}', f'--dataset={dataset}', *SMALL.get(model, []))
    code, result, _ = run('--schedule=dry_run', *flags)
    assert code == 0 and result['global_step'] == 1 and result['eval']['loss'] > 0


def test_no_model_is_missing_here():
    of_users = {'keras'}  # See test_keras.py.
    assert set(FITTING) == set(NUM_PARAMETERS) == set(loader.available('model')) - of_users


# For each model: features, metadata, and the number of trained parameters, worked out from the layers by hand.
NUM_PARAMETERS = {
    # Three convolutions, two dense layers, each with biases.
    'alexnet': (
        {'image': ([28, 28, 1], tf.float32)},
        {},
        (9 * 1 * 32 + 32) + (9 * 32 * 64 + 64) + (9 * 64 * 128 + 128) + (3 * 3 * 128 * 512 + 512) + (512 * 10 + 10),
    ),
    # Three numbers and two embeddings of 8; two hidden layers; two classes.
    'mlp': (
        {'x': ([3], tf.float32), 'id': ([2], tf.int32)},
        {'vocabulary_sizes': {'id': [5, 7]}},
        (5 + 7) * 8 + (3 + 2 * 8 + 1) * 256 + (256 + 1) * 128 + (128 + 1) * 2,
    ),
    'polynomial': ({'x': ([], tf.float32)}, {}, 3),
    # The paper's ResNet-20 has 0.27 M: the first convolution; six in each stage, whose first one has the filters of the stage
    # before as inputs; scale and offset of each filter; the classifier.
    'resnet': (
        {'image': ([32, 32, 3], tf.float32)},
        {},
        9 * 3 * 16
        + 9 * (6 * 16 * 16)
        + 9 * (16 * 32 + 5 * 32 * 32)
        + 9 * (32 * 64 + 5 * 64 * 64)
        + 2 * (7 * 16 + 6 * 32 + 6 * 64)
        + (64 + 1) * 10,
    ),
    # The embedding, three GRU cells, the encoder's summary, attention's keys, the two projections, the bytes.
    'seq2seq': (
        {'source': ([], tf.string)},
        {},
        256 * 32 + 3 * ((32 + 128 + 1) * 3 * 128) + (256 + 1) * 128 + 256 * 128 + (128 + 256 + 1) * 128 + (128 + 1) * 256,
    ),
    # The embedding, 100 filters of each width, two classes.
    'text_cnn': (
        {'text': ([None], tf.int32)},
        {'vocabulary_size': 50},
        50 * 128 + (3 + 4 + 5) * 128 * 100 + 3 * 100 + (300 + 1) * 2,
    ),
}


@pytest.mark.parametrize('name', NUM_PARAMETERS)
def test_models_have_as_many_parameters_as_worked_out_by_hand(name):
    features, metadata, expected = NUM_PARAMETERS[name]
    model = loader.load('model', name)
    with tf.Graph().as_default():
        tensors = {key: tf.placeholder(dtype, [None, *shape]) for key, (shape, dtype) in features.items()}
        model.model(tensors, None, ModeKeys.PREDICT, make_params(model, metadata=metadata))
        assert sum(variable.shape.num_elements() for variable in tf.trainable_variables()) == expected


def test_a_resnet_of_depth_20_has_the_parameters_of_the_papers_table():
    assert round(NUM_PARAMETERS['resnet'][2] / 1e6, 2) == 0.27


def count_parameters(output_dir):
    reader = tf.train.load_checkpoint(str(output_dir))
    shapes = [
        shape
        for name, shape in reader.get_variable_to_shape_map().items()
        if 'Adam' not in name and '_power' not in name and name != 'global_step'
    ]
    return sum(tf.TensorShape(shape).num_elements() for shape in shapes)


def test_alexnet_with_batch_norm_has_as_many_parameters_as_worked_out_by_hand(run, tmp_path):
    run('--schedule=train', '--train_steps=1', '--hparams=batch_norm=true')
    # Each channel and unit has a mean, a variance, a scale and an offset in place of its bias.
    assert count_parameters(tmp_path / 'output') == NUM_PARAMETERS['alexnet'][2] + 3 * (32 + 64 + 128 + 512)


def alexnet_gradients(devices, data_dir, mode):
    """Returns {name: value} of the loss, its gradients and the predictions on the first 11 test digits."""
    model, dataset = loader.load('model', 'alexnet'), loader.load('dataset', 'mnist')
    params = build.make_hparams(
        'alexnet',
        model.get_params(),
        'mnist',
        dataset.get_params(),
        text='filters=[8,8],dense_units=32,drop_rate=0.0,augment_shift=0,eval_batch_size=11',
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
        (['--hparams=augment_shift=28'], 'augment_shift=28 must be less than 28: images have 28x28 pixels'),
        (['--hparams=augment_shift=2147483647'], 'augment_shift=2147483647 must be less than 28: images have 28x28 pixels'),
        (['--hparams=augment_shift=-1'], '--hparams: augment_shift=-1 must be at least 0'),
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

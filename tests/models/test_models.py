"""Every model under models/ has the right size, and rejects invalid inputs in one line."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.plugins import loader
from estimator_trainer.hparams import build
from estimator_trainer.models import alexnet
from tests.evaluated import evaluate
from tests.models.shared import ModeKeys, make_params
from tests.shared import refused

IMAGES = np.random.RandomState(0).uniform(size=[11, 9, 8, 1]).astype(np.float32)
# For each model: the number of trained parameters, worked out from the layers by hand.
NUM_PARAMETERS = {
    # Three convolutions, two dense layers, each with biases.
    'alexnet': 10 * 32 + 289 * 64 + 577 * 128 + (3 * 3 * 128 + 1) * 512 + 513 * 10,
    # A window of 9 rows of two columns takes two blocks of two convolutions, the first of which also widens its input; the last
    # row with six parts of the calendar, a hidden layer, and five steps.
    'causal_conv': (3 * 2 + 1) * 32 + (2 + 1) * 32 + 3 * (3 * 32 + 1) * 32 + (32 + 6 + 1) * 64 + (64 + 1) * 5,
    # The generator: a dense layer, two transposed convolutions, scales and offsets, a convolution; the discriminator.
    'gan': 64 * 7 * 7 * 64 + 16 * (64 * 32 + 32 * 16) + 2 * (64 + 32 + 16) + 9 * 16 + 1 + 17 * 32 + 513 * 64 + 49 * 64 + 1,
    # Weights of three numbers and of the ids of two columns, and a bias.
    'linear': 3 + 5 + 7 + 1,
    # Three numbers and two embeddings of 8; two hidden layers; two classes.
    'mlp': (5 + 7) * 8 + (3 + 2 * 8 + 1) * 256 + (256 + 1) * 128 + (128 + 1) * 2,
    'polynomial': 3,
    # The first convolution; six in each stage, whose first one has the filters of the stage before as inputs; scale and offset
    # of each filter; the classifier. The paper's table says 0.27 M.
    'resnet': 9 * (16 + 6 * 16**2 + 16 * 32 + 5 * 32**2 + 32 * 64 + 5 * 64**2) + 2 * (7 * 16 + 6 * 32 + 6 * 64) + 65 * 10,
    # The embedding, three GRU cells, the encoder's summary, attention's keys, the two projections, the bytes.
    'seq2seq': 256 * 32 + 3 * (32 + 128 + 1) * 3 * 128 + (256 + 1 + 256 + 128 + 256 + 1) * 128 + (128 + 1) * 256,
    # The embedding, 100 filters of each width, two classes.
    'text_cnn': 50 * 128 + (3 + 4 + 5) * 128 * 100 + 3 * 100 + (300 + 1) * 2,
    # The embeddings of words and bytes, filters over three bytes, two GRU cells, two tags.
    'text_tagger': 50 * 100 + 256 * 16 + (48 + 1) * 50 + 2 * (150 + 100 + 1) * 3 * 100 + (200 + 1) * 2,
    # Two convolutions at each size, without biases but with scales and offsets; up-convolutions; then the classes.
    'unet': 9 * (16 + 16**2 + 16 * 32 + 32**2 + 32 * 64 + 64**2 + 64 * 128 + 128**2)
    + 9 * (128 * 64 + 64**2 + 64 * 32 + 32**2 + 32 * 16 + 16**2)
    + 4 * 2 * (16 + 32 + 64)
    + 2 * 2 * 128
    + 4 * (128 * 64 + 64 * 32 + 32 * 16)
    + (64 + 32 + 16)
    + (16 + 1) * 2,
    # The linear model; embeddings of 8, two hidden layers, the logit.
    'wide_deep': 16 + (5 + 7) * 8 + (3 + 2 * 8 + 1) * 128 + (128 + 1) * 64 + 64 + 1,
}
FEATURES = {
    'alexnet': {'image': ([28, 28, 1], tf.float32)},
    'causal_conv': {name: (shape, tf.float32) for name, shape in (('past', [9, 2]), ('window_scale', [2]), ('calendar', [6]))},
    'gan': {'image': ([28, 28, 1], tf.float32)},
    'mlp': {'x': ([3], tf.float32), 'id': ([2], tf.int32)},
    'polynomial': {'x': ([], tf.float32)},
    'resnet': {'image': ([28, 28, 1], tf.float32)},
    'seq2seq': {'source': ([], tf.string)},
    'text_cnn': {'text': ([None], tf.int32)},
    'text_tagger': {'text': ([None], tf.int32), 'tokens': ([None], tf.string)},
    'unet': {'image': ([28, 28, 1], tf.float32)},
}
METADATA = {
    'causal_conv': {'task': 'forecast', 'horizon': 5},
    'mlp': {'vocabulary_sizes': {'id': [5, 7]}},
    'text_cnn': {'vocabulary_size': 50},
    'text_tagger': {'vocabulary_size': 50, 'tags': ['A', 'B'], 'mean_length': 10.0},
}
COLUMNS = [  # Of canned Estimators.
    {'name': 'x', 'kind': 'numeric', 'values': 3},
    {'name': 'i', 'kind': 'categorical', 'vocabulary': ['a', 'b', 'c', 'd']},
    {'name': 'j', 'kind': 'categorical', 'vocabulary': ['a', 'b', 'c', 'd', 'e', 'f']},
]
DROP_RATE = 'must be at least 0 and less than 1'


def tensors(features):
    return {name: tf.placeholder(dtype, [None, *shape]) for name, (shape, dtype) in features.items()}


def build_canned(model):
    params = build.make_hparams('m', model.get_params(), 'tfrecord', {})
    made = model.estimator(tf.estimator.RunConfig(), build.HParams(params, {'features': COLUMNS}))
    features = {'x': tf.zeros([2, 3]), 'i': tf.zeros([2], tf.int64), 'j': tf.zeros([2], tf.int64)}
    made.model_fn(features, None, ModeKeys.PREDICT, made.config)


@pytest.mark.parametrize('name', sorted({*loader.available('model')} - {'keras'}))  # Its networks are the user's.
def test_models_have_as_many_parameters_as_worked_out_by_hand(name):
    expected, model = NUM_PARAMETERS[name], loader.load('model', name)
    # With batch norm, each channel and unit has a mean, a variance, a scale and an offset in place of its bias.
    cases = [('', expected), *([('batch_norm=true', expected + 3 * (32 + 64 + 128 + 512))] if name == 'alexnet' else [])]
    for text, count in cases:
        with tf.Graph().as_default():
            if hasattr(model, 'estimator'):
                build_canned(model)
            else:
                model.model(tensors(FEATURES[name]), None, ModeKeys.PREDICT, make_params(model, text, METADATA.get(name)))
            variables = tf.global_variables() if text else tf.trainable_variables()
            assert sum(variable.shape.num_elements() for variable in variables) == count


def call_alexnet(images, labels, mode):
    params = make_params(alexnet, 'filters=[8,4],dense_units=6,drop_rate=0.9')
    return alexnet.model({'image': images}, labels, mode, params)[0]


def test_alexnet_predicts_the_same_in_any_batch_and_drops_units_in_training_only(session):
    predicted = evaluate(lambda images: call_alexnet(images, None, ModeKeys.PREDICT), IMAGES)
    assert set(predicted) == {'class', 'probabilities'}
    np.testing.assert_allclose(predicted['probabilities'].sum(1), np.ones(11), rtol=1e-5)
    for mode, is_dropped in ((ModeKeys.TRAIN, True), (ModeKeys.EVAL, False)):
        with tf.variable_scope('scope', reuse=tf.AUTO_REUSE):
            embedding = call_alexnet(tf.constant(IMAGES), {'label': tf.range(11) % 10}, mode)['embedding']
        session.run([tf.global_variables_initializer()])
        session.run([tf.assign(v, tf.fill(v.shape, 0.1)) for v in tf.trainable_variables()])  # So that no unit is 0.
        assert embedding.shape == (11, 6) and (session.run(embedding) == 0).any() == is_dropped


def refuse(name, text='', features=None, label=None, metadata=None):
    """Returns the message of a model that refuses features {name: (shape of one, type)}, and a label (shape, type)."""
    model = loader.load('model', name)

    def call():
        labels = label and {'label': tf.placeholder(label[1], label[0])}
        params = make_params(model, text, METADATA.get(name) if metadata is None else metadata)
        model.model(tensors(features or FEATURES[name]), labels, ModeKeys.EVAL, params)

    return refused(call)


def test_a_hyperparameter_out_of_its_bounds_is_one_line():
    for model, message, settings in (
        ('alexnet', 'must be at least 1', ['filters=[8, 0]', 'dense_units=0', 'num_classes=0']),
        ('alexnet', DROP_RATE, ['drop_rate=1.0', 'drop_rate=-0.1']),
        ('alexnet', 'is none of NHWC, NCHW', ['data_format=CHW']),
        ('causal_conv', 'must be at least 1', ['filters=0', 'hidden_units=[0]']),
        ('causal_conv', 'must be at least 2', ['kernel_size=1']),
        ('causal_conv', DROP_RATE, ['drop_rate=1.0']),
        ('gan', 'must be at least 1', ['noise_units=0']),
        ('gan', 'must be at least 2', ['filters=1']),
        ('mlp', 'must be at least 1', ['hidden_units=[0]', 'embedding_size=0', 'num_classes=0']),
        ('mlp', DROP_RATE, ['drop_rate=1.0', 'drop_rate=-0.1']),
        ('mlp', 'is not one of classification, regression', ['task=guessing']),
        ('resnet', 'must be 6n + 2, such as 8 or 14', ['depth=9', 'depth=2', 'depth=-4']),
        ('resnet', 'must be 6n + 2, such as 20 or 26', ['depth=21']),
        ('resnet', 'must be at least 1', ['width=0', 'num_classes=0']),
        ('seq2seq', 'must be at least 1', ['embedding_size=0', 'rnn_units=0']),
        ('seq2seq', 'must be from 1 to 256', ['beam_width=0', 'beam_width=257']),
        ('seq2seq', 'must be from 1 to 1000', ['max_target_length=0', 'max_target_length=1001']),
        ('text_cnn', 'must be one or more different numbers', ['filter_widths=[]', 'filter_widths=[3, 3]']),
        ('text_cnn', 'must be at least 1', ['filter_widths=[3, 0]', 'num_filters=0', 'embedding_size=0', 'num_classes=0']),
        ('text_cnn', DROP_RATE, ['drop_rate=1.0', 'drop_rate=-0.1']),
        ('unet', 'must be at least 1', ['filters=0', 'num_convolutions=0']),
        ('unet', 'must be at least 0', ['depth=-1']),
        ('unet', 'must be at least 2', ['num_classes=1']),
        ('unet', 'must be at most 4, for pictures of 28 by 28 pixels', ['depth=5']),
        ('text_tagger', DROP_RATE, ['drop_rate=1.0', 'word_drop_rate=-0.1']),
        ('text_tagger', 'must be at least 1', ['rnn_units=0', 'embedding_size=0']),
    ):
        for setting in settings:
            assert refuse(model, setting.replace(' ', '')) == f'{setting} {message}'


def test_a_feature_or_label_that_does_not_fit_the_model_is_one_line():
    found = refuse('alexnet', 'filters=[1,1,1,1]', {'image': ([9, 8, 1], tf.float32)})
    assert found == 'filters=[1, 1, 1, 1] must be at most 3 numbers, each of which halves images of 9 by 8 pixels'
    for model in ('alexnet', 'unet'):
        found = refuse(model, '', {'image': ([None, None, 3], tf.float32)})
        assert found == f'--model={model}: pictures must have one size, which the dataset must tell'
    categories = 'the feature c has 2 columns of categories, but --dataset=d: metadata() gives'
    for features, metadata, message in (
        ({'c': ([2], tf.string)}, {}, 'the feature c is a tensor of string (None, 2), but must be float32, or int32 or'),
        ({'c': ([2], tf.int64)}, {}, f'{categories} no vocabulary_sizes for it'),
        ({'c': ([2], tf.int64)}, {'vocabulary_sizes': 3}, f'{categories} no vocabulary_sizes for it'),
        ({'c': ([2], tf.int32)}, {'vocabulary_sizes': {'c': [3]}}, f'{categories} 1 vocabulary_sizes for it'),
        ({'x': ([None], tf.float32)}, {}, 'the feature x has the shape (None, None), but must have a fixed size'),
    ):
        assert refuse('mlp', '', features, metadata=metadata).startswith(f'--model=mlp: {message}')
    for task, shape, dtype, message in (
        ('classification', [4], tf.float32, 'int32 [batch], not a tensor of float32 (4,), or use task=regression'),
        ('classification', [4, 1], tf.int32, 'int32 [batch], not a tensor of int32 (4, 1)'),
        ('regression', [4, 1], tf.int32, 'float32 [batch], not a tensor of int32 (4, 1)'),
    ):
        found = refuse('mlp', f'task={task}', None, (shape, dtype))
        assert found == f'task={task} needs a label named label, {message}'
    message = refuse('mlp', 'task=regression', None, ([4], tf.int32), {**METADATA['mlp'], 'class_names': ['a', 'b']})
    assert message == 'task=regression: --dataset=d has classes, not numbers'
    assert refuse('causal_conv', metadata={}).startswith('--model=causal_conv forecasts series, but --dataset=d has none')
    found = refuse('causal_conv', '', {'past': ([9], tf.float32)})
    assert (
        found
        == '--model=causal_conv: the feature past must be float32 [batch, window, columns], not a tensor of float32 (None, 9)'
    )
    assert refuse('text_cnn', metadata={}) == '--model=text_cnn: --dataset=d: metadata() gives no vocabulary_size'
    for dtype in (tf.string, tf.int32):
        shown = f'{dtype.name} (None,)'
        message = f'--model=text_cnn: the feature text must be ids, int32 [batch, length], not a tensor of {shown}'
        assert refuse('text_cnn', '', {'text': ([], dtype)}) == message

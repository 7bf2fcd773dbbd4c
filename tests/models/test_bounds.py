"""What a model cannot be made of is refused in one line: hyper-parameters, features, labels and metadata."""

import importlib

import tensorflow.compat.v1 as tf

from tests.models.shared import ModeKeys, make_params
from tests.shared import refused

USUAL = {
    'alexnet': {'image': ([1, 9, 8, 1], tf.float32)},
    'mlp': {'x': ([4, 2], tf.float32)},
    'resnet': {'image': ([1, 9, 8, 1], tf.float32)},
    'seq2seq': {'source': ([1], tf.string)},
    'text_cnn': {'text': ([2, 5], tf.int32)},
}
DROP_RATE = 'must be at least 0 and less than 1'


def refuse(name, text='', features=None, label=None, metadata=None):
    """Returns the message of a model that refuses features {name: (shape, type)}, and a label."""
    model = importlib.import_module(f'models.{name}')

    def call():
        made = {key: tf.placeholder(dtype, shape) for key, (shape, dtype) in (features or USUAL[name]).items()}
        labels = label and {'label': tf.placeholder(label[1], label[0])}
        params = make_params(model, text, {'vocabulary_size': 9} if metadata is None else metadata)
        model.model(made, labels, ModeKeys.EVAL, params)

    return refused(call)


def test_a_hyperparameter_out_of_its_bounds_is_one_line():
    for model, message, settings in (
        ('alexnet', 'must be at least 1', ['filters=[8, 0]', 'dense_units=0', 'num_classes=0']),
        ('alexnet', 'must be at most 3 numbers, each of which halves images of 9 by 8 pixels', ['filters=[1, 1, 1, 1]']),
        ('alexnet', DROP_RATE, ['drop_rate=1.0', 'drop_rate=-0.1']),
        ('alexnet', 'is none of NHWC, NCHW', ['data_format=CHW']),
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
    ):
        for setting in settings:
            assert refuse(model, setting.replace(' ', '')) == f'{setting} {message}'


def test_a_feature_that_is_no_input_of_mlp_is_one_line():
    categories = 'the feature c has 2 columns of categories, but --dataset=d: metadata() gives'
    for features, metadata, message in (
        ({'c': ([4, 2], tf.string)}, {}, 'the feature c is a tensor of string (4, 2), but must be float32, or int32 or'),
        ({'c': ([4, 2], tf.int64)}, {}, f'{categories} no vocabulary_sizes for it'),
        ({'c': ([4, 2], tf.int64)}, {'vocabulary_sizes': 3}, f'{categories} no vocabulary_sizes for it'),
        ({'c': ([4, 2], tf.int32)}, {'vocabulary_sizes': {'c': [3]}}, f'{categories} 1 vocabulary_sizes for it'),
        ({'x': ([None, None], tf.float32)}, {}, 'the feature x has the shape (None, None), but must have a fixed size'),
    ):
        assert refuse('mlp', '', features, metadata=metadata).startswith(f'--model=mlp: {message}')


def test_a_label_that_does_not_fit_the_task_of_mlp_is_one_line():
    for task, shape, dtype, message in (
        ('classification', [4], tf.float32, 'int32 [batch], not a tensor of float32 (4,), or use task=regression'),
        ('classification', [4, 1], tf.int32, 'int32 [batch], not a tensor of int32 (4, 1)'),
        ('regression', [4, 1], tf.int32, 'float32 [batch], not a tensor of int32 (4, 1)'),
    ):
        found = refuse('mlp', f'task={task}', None, (shape, dtype), {})
        assert found == f'task={task} needs a label named label, {message}'
    message = refuse('mlp', 'task=regression', None, ([4], tf.int32), {'class_names': ['a', 'b']})
    assert message == 'task=regression: --dataset=d has classes, not numbers'


def test_a_text_that_is_no_ids_of_a_known_vocabulary_is_one_line():
    assert refuse('text_cnn', metadata={}) == '--model=text_cnn: --dataset=d: metadata() gives no vocabulary_size'
    for shape, dtype, shown in (([1], tf.string, 'string (1,)'), ([5], tf.int32, 'int32 (5,)')):
        message = f'--model=text_cnn: the feature text must be ids, int32 [batch, length], not a tensor of {shown}'
        assert refuse('text_cnn', '', {'text': (shape, dtype)}) == message

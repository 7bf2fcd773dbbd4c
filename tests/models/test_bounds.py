"""What a model cannot be made of is refused in one line: hyper-parameters, features, labels and metadata."""

import importlib

import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from tests.models.shared import ModeKeys, make_params

DROP_RATE = 'must be at least 0 and less than 1'
WIDTHS = 'must be one or more different numbers'
CATEGORIES = 'the feature c has 2 columns of categories, but --dataset=d: metadata() gives'
IDS = '--model=text_cnn: the feature text must be ids, int32 [batch, length], not a tensor of'


def refused(name, text='', features=None, label=None, metadata=None):
    """Returns the message of a model that refuses features {name: (shape, type)}, and a label."""
    model = importlib.import_module(f'models.{name}')
    usual = {
        'alexnet': {'image': ([1, 9, 8, 1], tf.float32)},
        'mlp': {'x': ([4, 2], tf.float32)},
        'resnet': {'image': ([1, 9, 8, 1], tf.float32)},
        'seq2seq': {'source': ([1], tf.string)},
        'text_cnn': {'text': ([2, 5], tf.int32)},
    }
    with tf.Graph().as_default(), pytest.raises(UsageError) as error:
        made = {key: tf.placeholder(dtype, shape) for key, (shape, dtype) in (features or usual[name]).items()}
        labels = label and {'label': tf.placeholder(label[1], label[0])}
        metadata = {'vocabulary_size': 9} if metadata is None else metadata
        model.model(made, labels, ModeKeys.EVAL, make_params(model, text, metadata))
    return str(error.value)


@pytest.mark.parametrize(
    'model, given, message',
    [
        ('alexnet', 'filters=[-1]', 'must be at least 1'),
        ('alexnet', 'filters=[8, 0]', 'must be at least 1'),
        ('alexnet', 'filters=[1, 1, 1, 1]', 'must be at most 3 numbers, each of which halves images of 9 by 8 pixels'),
        ('alexnet', 'dense_units=0', 'must be at least 1'),
        ('alexnet', 'num_classes=0', 'must be at least 1'),
        ('alexnet', 'drop_rate=1.0', DROP_RATE),
        ('alexnet', 'drop_rate=-0.1', DROP_RATE),
        ('alexnet', 'data_format=CHW', 'is none of NHWC, NCHW'),
        ('mlp', 'hidden_units=[0]', 'must be at least 1'),
        ('mlp', 'embedding_size=0', 'must be at least 1'),
        ('mlp', 'num_classes=0', 'must be at least 1'),
        ('mlp', 'drop_rate=1.0', DROP_RATE),
        ('mlp', 'drop_rate=-0.1', DROP_RATE),
        ('mlp', 'task=guessing', 'is not one of classification, regression'),
        ('resnet', 'depth=9', 'must be 6n + 2, such as 8 or 14'),
        ('resnet', 'depth=2', 'must be 6n + 2, such as 8 or 14'),
        ('resnet', 'depth=-4', 'must be 6n + 2, such as 8 or 14'),
        ('resnet', 'depth=21', 'must be 6n + 2, such as 20 or 26'),
        ('resnet', 'width=0', 'must be at least 1'),
        ('resnet', 'num_classes=0', 'must be at least 1'),
        ('seq2seq', 'embedding_size=0', 'must be at least 1'),
        ('seq2seq', 'rnn_units=0', 'must be at least 1'),
        ('seq2seq', 'beam_width=0', 'must be from 1 to 256'),
        ('seq2seq', 'beam_width=257', 'must be from 1 to 256'),
        ('seq2seq', 'max_target_length=0', 'must be from 1 to 1000'),
        ('seq2seq', 'max_target_length=1001', 'must be from 1 to 1000'),
        ('text_cnn', 'filter_widths=[]', WIDTHS),
        ('text_cnn', 'filter_widths=[3, 3]', WIDTHS),
        ('text_cnn', 'filter_widths=[3, 0]', 'must be at least 1'),
        ('text_cnn', 'num_filters=0', 'must be at least 1'),
        ('text_cnn', 'embedding_size=0', 'must be at least 1'),
        ('text_cnn', 'num_classes=0', 'must be at least 1'),
        ('text_cnn', 'drop_rate=1.0', DROP_RATE),
        ('text_cnn', 'drop_rate=-0.1', DROP_RATE),
    ],
)
def test_a_hyperparameter_out_of_its_bounds_is_one_line(model, given, message):
    assert refused(model, given.replace(' ', '')) == f'{given} {message}'


@pytest.mark.parametrize(
    'features, metadata, message',
    [
        (
            {'c': ([4, 2], tf.string)},
            {},
            'the feature c is a tensor of string (4, 2), but must be float32, or int32 or int64 for categories',
        ),
        ({'c': ([4, 2], tf.int64)}, {}, f'{CATEGORIES} no vocabulary_sizes for it'),
        ({'c': ([4, 2], tf.int64)}, {'vocabulary_sizes': 3}, f'{CATEGORIES} no vocabulary_sizes for it'),
        ({'c': ([4, 2], tf.int32)}, {'vocabulary_sizes': {'c': [3]}}, f'{CATEGORIES} 1 vocabulary_sizes for it'),
        ({'x': ([None, None], tf.float32)}, {}, 'the feature x has the shape (None, None), but must have a fixed size'),
    ],
)
def test_a_feature_that_is_no_input_of_mlp_is_one_line(features, metadata, message):
    assert refused('mlp', '', features, metadata=metadata) == f'--model=mlp: {message}'


@pytest.mark.parametrize(
    'task, label, metadata, message',
    [
        (
            'classification',
            ([4], tf.float32),
            {},
            ' needs a label named label, int32 [batch], not a tensor of float32 (4,), or use task=regression',
        ),
        ('classification', ([4, 1], tf.int32), {}, ' needs a label named label, int32 [batch], not a tensor of int32 (4, 1)'),
        ('regression', ([4, 1], tf.int32), {}, ' needs a label named label, float32 [batch], not a tensor of int32 (4, 1)'),
        ('regression', ([4], tf.int32), {'class_names': ['a', 'b']}, ': --dataset=d has classes, not numbers'),
    ],
)
def test_a_label_that_does_not_fit_the_task_of_mlp_is_one_line(task, label, metadata, message):
    assert refused('mlp', f'task={task}', None, label, metadata) == f'task={task}{message}'


def test_a_text_that_is_no_ids_of_a_known_vocabulary_is_one_line():
    assert refused('text_cnn', metadata={}) == '--model=text_cnn: --dataset=d: metadata() gives no vocabulary_size'
    assert refused('text_cnn', '', {'text': ([1], tf.string)}) == f'{IDS} string (1,)'
    assert refused('text_cnn', '', {'text': ([5], tf.int32)}) == f'{IDS} int32 (5,)'

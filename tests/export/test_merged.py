"""A SavedModel of several, whose outputs follow from the averages of theirs."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.export.merged import merge
from estimator_trainer.common.inference.ensemble import average
from estimator_trainer.common.inference.threshold import decide
from estimator_trainer.common.training.class_names import with_class_name
from estimator_trainer.hparams.build import HParams

X = np.array([0.1, 0.3, 0.6, 0.9], np.float32)


def of_two_targets(slope):
    """Classes of a target called name, and of one called of."""
    found = {}
    for key, of_first in (('name', tf.nn.sigmoid), ('of', tf.nn.relu)):
        first = of_first(slope)
        found |= {f'probabilities_{key}': tf.stack([first, 1 - first], 1), f'class_{key}': tf.cast(first < 0.5, tf.int64)}
    targets = [
        {'key': key, 'name': key, 'task': 'classification', 'class_names': [f'{key}0', f'{key}1']} for key in ('name', 'of')
    ]
    return with_class_name(found, HParams({}, {'task': 'several', 'targets': targets}))


def of_labels(slope):
    probabilities = tf.stack([slope, 1 - slope, slope * slope], 1)
    return {'probabilities': probabilities, 'predicted': tf.cast(probabilities >= 0.5, tf.int64)}


def of_a_threshold(slope):
    number = tf.cast(slope < 0.5, tf.int64)
    predictions = {
        'probabilities': tf.stack([slope, 1 - slope], 1),
        'class': number,
        'class_name': tf.gather(['no', 'yes'], number),
    }
    return decide(predictions, 0.8, ['no', 'yes'])


@pytest.mark.parametrize(
    'model, class_names',
    [
        (of_two_targets, {'name': ['name0', 'name1'], 'of': ['of0', 'of1']}),
        (of_labels, {}),
        (of_a_threshold, {'': ['no', 'yes']}),
    ],
)
def test_its_outputs_are_those_of_averages(tmp_path, model, class_names):
    paths = [str(tmp_path / name) for name in 'ab']
    for path, weight in zip(paths, (0.3, 1.0)):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [None], 'x')
            slope = x * tf.get_variable('weight', [], initializer=tf.constant_initializer(weight))
            session.run(tf.global_variables_initializer())
            tf.saved_model.simple_save(session, path, {'x': x}, model(slope))
    merge(paths, str(tmp_path / 'merged'), class_names)
    *members, found = [run(path) for path in [*paths, str(tmp_path / 'merged')]]
    texts = [name for name in found if 'class_name' in name and found[name].dtype == object]
    expected = average([{name: value for name, value in member.items() if name not in texts} for member in members])
    assert {*found} == {*expected, *texts}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)
    for name in texts:
        key = name.removeprefix('class_name').removeprefix('_')
        numbers = expected[f'class_{key}' if key else 'class']
        assert [text.decode() for text in found[name]] == [class_names[key][number] for number in numbers]


def run(path):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], path).signature_def['serving_default']
        outputs = {name: graph.get_tensor_by_name(info.name) for name, info in signature.outputs.items()}
        return session.run(outputs, {signature.inputs['x'].name: X})

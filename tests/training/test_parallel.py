"""Towers: the same numbers as without, on their devices, with shared variables."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training import parallel
from common.training.options import TrainingOptions

INPUTS = np.random.RandomState(0).normal(size=[12, 5]).astype(np.float32)
TARGETS = np.random.RandomState(1).normal(size=[12]).astype(np.float32)
CPUS = [f'/cpu:{i}' for i in range(4)]


def regression(x, y):
    """Two unnamed layers, a dict and a per-example loss, as a model module has them."""
    hidden = tf.layers.dense(x, 3, activation=tf.tanh, kernel_initializer=tf.ones_initializer())
    output = tf.layers.dense(hidden, 1, kernel_initializer=tf.ones_initializer())[:, 0]
    return {'output': output}, tf.square(output - y)


def loss_and_gradients(devices, batch, static):
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 4})) as session:
        x = tf.placeholder(tf.float32, [batch if static else None, 5])
        y = tf.placeholder(tf.float32, [batch if static else None])
        predictions, loss = parallel.make_parallel(regression, devices, x=x, y=y)
        variables = tf.trainable_variables()
        gradients = tf.gradients(tf.reduce_mean(loss), variables)
        session.run(tf.global_variables_initializer())
        feed = {x: INPUTS[:batch], y: TARGETS[:batch]}
        return [v.name for v in variables], session.run([predictions['output'], loss, gradients], feed)


@pytest.mark.parametrize('static', [True, False])
@pytest.mark.parametrize('batch', [12, 11, 3, 1])
@pytest.mark.parametrize('towers', [1, 2, 4])
def test_towers_give_the_loss_and_gradients_of_none(towers, batch, static):
    names, expected = loss_and_gradients([], batch, static)
    tower_names, actual = loss_and_gradients(CPUS[:towers], batch, static)
    assert tower_names == names and len(names) == 4
    assert actual[1].shape == (batch,)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), actual, expected)


@pytest.mark.parametrize('batch', [3, 1])
def test_convolutions_work_in_towers_without_examples(session, batch):
    def convolved(images):
        net = tf.layers.conv2d(images, 4, 3, kernel_initializer=tf.ones_initializer(), padding='same')
        return tf.layers.conv2d(net, 2, 3, kernel_initializer=tf.ones_initializer(), padding='same')[:, 2, 2]

    images = tf.placeholder(tf.float32, [None, 5, 5, 1])
    output = parallel.make_parallel(convolved, CPUS, images=images)
    session.run(tf.global_variables_initializer())
    found = session.run(output, {images: np.ones([batch, 5, 5, 1])})
    np.testing.assert_array_equal(found, np.full([batch, 2], 9 * 9 * 4))


def test_the_loss_of_towers_is_the_one_computed_by_hand():
    _, (output, loss, _) = loss_and_gradients(CPUS[:2], 12, True)
    expected = 3 * np.tanh(INPUTS.sum(1))
    np.testing.assert_allclose(output, expected, rtol=1e-5)
    np.testing.assert_allclose(loss, (expected - TARGETS) ** 2, rtol=1e-4)


def test_shares_of_towers_are_whole_and_in_order(session):
    batch = tf.placeholder(tf.int32, [None])
    seen = []
    doubled = parallel.make_parallel(lambda batch: seen.append(batch) or batch * 2, CPUS[:4], batch=batch)
    shares, result = session.run([seen, doubled], {batch: range(10)})
    assert [list(share) for share in shares] == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    assert list(result) == list(range(0, 20, 2))


def test_structures_and_none_pass_through_towers(session):
    result = parallel.make_parallel(
        lambda features, labels: ({'a': features['x']['deep']}, labels),
        CPUS[:2],
        features={'x': {'deep': tf.range(4)}},
        labels=None,
    )
    assert result[1] is None
    assert list(session.run(result[0]['a'])) == [0, 1, 2, 3]


def test_towers_refuse_batches_that_differ(session):
    with pytest.raises(ValueError):
        parallel.make_parallel(lambda x, y: x + y, CPUS[:2], x=tf.ones([4, 2]), y=tf.ones([3, 2]))
    x, y = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 2])
    total = parallel.make_parallel(lambda x, y: x + y, CPUS[:2], x=x, y=y)
    assert session.run(total, {x: np.ones([3, 2]), y: np.ones([3, 2])}).shape == (3, 2)
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(total, {x: np.ones([4, 2]), y: np.ones([3, 2])})


def test_ops_and_their_gradients_are_placed_on_their_towers_device():
    with tf.Graph().as_default() as graph:
        x, y = tf.constant(INPUTS), tf.constant(TARGETS)
        _, loss = parallel.make_parallel(regression, CPUS[:3], x=x, y=y)
        tf.train.AdamOptimizer().compute_gradients(tf.reduce_mean(loss), colocate_gradients_with_ops=True)
        for i in range(3):
            products = [op for op in graph.get_operations() if op.type == 'MatMul' and op.name.startswith(f'tower_{i}/')]
            assert len(products) == 2
            assert all(op.device.lower().endswith(f'cpu:{i}') for op in products)
            gradients = [
                op
                for op in graph.get_operations()
                if op.type == 'MatMul' and f'tower_{i}/' in op.name and op.name.startswith('gradients/')
            ]
            assert len(gradients) >= 3
            assert all(op.device.lower().endswith(f'cpu:{i}') for op in gradients)


def test_each_tower_really_runs_on_its_device():
    config = tf.ConfigProto(device_count={'CPU': 2})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        _, loss = parallel.make_parallel(regression, CPUS[:2], x=tf.constant(INPUTS), y=tf.constant(TARGETS))
        session.run(tf.global_variables_initializer())
        metadata = tf.RunMetadata()
        session.run(loss, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        for i in range(2):
            stats = [s for s in metadata.step_stats.dev_stats if s.device.lower().endswith(f'cpu:{i}')]
            ran = [node.node_name for s in stats for node in s.node_stats if node.node_name.endswith('/Tanh')]
            assert ran == [f'tower_{i}/dense/Tanh']


def test_batch_norm_updates_and_summaries_are_those_of_one_tower(session):
    def tower(x):
        tf.summary.histogram('x', x)
        return tf.layers.batch_normalization(x, training=True, momentum=0.5)

    parallel.make_parallel(tower, CPUS[:4], x=tf.constant(INPUTS))
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 1
    session.run(tf.global_variables_initializer())
    session.run(updates)
    mean = session.run(next(v for v in tf.global_variables() if 'moving_mean' in v.name))
    np.testing.assert_allclose(mean, 0.5 * INPUTS[:3].mean(0), rtol=1e-5)


def test_towers_leave_what_was_in_the_collections_before(session):
    def tower(x):
        tf.summary.histogram('x', x)
        return x

    tf.summary.scalar('before', 1.0)
    parallel.make_parallel(tower, CPUS[:2], x=tf.constant(INPUTS))
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 2


def test_regularization_losses_of_towers_count_once(session):
    def tower(x):
        y = tf.layers.dense(x, 2, kernel_regularizer=tf.keras.regularizers.l2(0.5))
        w = tf.get_variable('w', initializer=3.0)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.square(w))
        return y * w

    parallel.make_parallel(tower, CPUS[:3], x=tf.constant(INPUTS))
    assert len(tf.losses.get_regularization_losses()) == 2


def test_no_towers_unless_asked_for():
    assert parallel.tower_devices(TrainingOptions(num_gpus=0, num_towers=1)) == []


def test_towers_without_gpus_are_on_logical_cpu_devices():
    assert parallel.tower_devices(TrainingOptions(num_gpus=0, num_towers=3)) == CPUS[:3]


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: ['GPU:0', 'GPU:1'])


def test_towers_are_on_gpus_where_there_are_any(two_gpus):
    assert parallel.tower_devices(TrainingOptions(num_gpus=0, num_towers=2)) == ['/gpu:0', '/gpu:1']
    assert parallel.tower_devices(TrainingOptions(num_gpus=1, num_towers=1)) == ['/gpu:0']
    assert parallel.tower_devices(TrainingOptions(num_gpus=0, num_towers=1)) == []


@pytest.mark.parametrize(
    'num_gpus, num_towers, message',
    [
        (3, 1, '--num_gpus=3: this machine has 2 GPUs'),
        (0, 3, '--num_towers=3: this machine has 2 GPUs'),
        (2, 3, '--num_gpus=2 and --num_towers=3 disagree'),
    ],
)
def test_more_towers_than_gpus_are_refused(two_gpus, num_gpus, num_towers, message):
    with pytest.raises(UsageError, match=message):
        parallel.tower_devices(TrainingOptions(num_gpus, num_towers))

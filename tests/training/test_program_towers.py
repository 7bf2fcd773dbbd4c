"""The towers of a program's own training step, in a bare graph."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import changes_variable
from estimator_trainer.common.training.program_towers import build, check_divisible

RATE = 0.1
DEVICES = ['/cpu:0', '/cpu:1']
random = np.random.RandomState(0)
X, Y = random.randn(5, 3).astype(np.float32), random.randn(5).astype(np.float32)  # The first tower has an example more.


def predict(x):
    return tf.linalg.matvec(x, tf.get_variable('weights', [3], initializer=tf.zeros_initializer(), use_resource=True))


def sgd():
    return tf.train.GradientDescentOptimizer(RATE)


def by_minimize(loss):
    return sgd().minimize(loss, tf.train.get_global_step())


def by_gradients(loss):
    variables = tf.trainable_variables()
    return sgd().apply_gradients(zip(tf.gradients(loss, variables), variables), tf.train.get_global_step())


def by_hand(loss):
    (variable,) = tf.trainable_variables()
    (gradient,) = tf.gradients(loss, [variable])
    return tf.group(tf.assign_sub(variable, RATE * gradient), tf.assign_add(tf.train.get_global_step(), 1))


def by_keras(loss):
    optimizer = tf.keras.optimizers.legacy.SGD(RATE)
    optimizer.iterations = tf.train.get_global_step()
    return optimizer.get_updates(loss, tf.trainable_variables())[0]


def clipped(loss):
    gradients, variables = zip(*sgd().compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 0.01)
    return sgd().apply_gradients(zip(gradients, variables), tf.train.get_global_step())


def spec(loss, train_op):
    return tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.TRAIN, tf.zeros([1]), loss, train_op)


def program(minimize, predict=predict):
    def call(x, y):
        loss = tf.reduce_mean((predict(x) - y) ** 2)
        return spec(loss, minimize(loss))

    return call


@contextlib.contextmanager
def built(call, features=X, labels=Y, devices=DEVICES, is_known=True):
    """Yields the spec of a program's towers, and a session with initial variables."""
    with tf.Graph().as_default():
        tf.train.create_global_step()
        batch = tf.constant(features), tf.constant(labels)
        if not is_known:
            batch = tuple(tf.placeholder_with_default(each, [None, *each.shape[1:]]) for each in batch)
        found, gradients, _ = build('It', call, devices, batch, lambda gradients: gradients)
        gradients.check(found.train_op, batch, '--num_towers=2')
        with tf.Session(config=tf.ConfigProto(device_count={'CPU': 2}, allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            yield found, session


def train(call, *batch, is_known=True):
    """Returns the losses of three steps, and the weights after them."""
    with built(call, *batch, is_known=is_known) as (found, session):
        losses = [session.run([found.loss, found.train_op])[0] for _ in range(3)]
        assert session.run(tf.train.get_global_step()) == 3
        return losses, session.run(tf.trainable_variables()[0])


def descend(x=X, y=Y, norm=np.inf):
    """Returns the same of gradient descent on the whole batch."""
    weights, losses = np.zeros(3), []
    for _ in range(3):
        error = x @ weights - y
        losses.append(np.mean(error**2))
        gradient = 2 * x.T @ error / len(y)
        weights = weights - RATE * gradient * min(1, norm / np.linalg.norm(gradient))
    return losses, weights


def assert_learned(found, expected):
    for values, others in zip(found, expected):
        np.testing.assert_allclose(values, others, rtol=1e-5, atol=1e-8)


def in_a_condition(loss):
    gradients = sgd().compute_gradients(loss)
    norm = tf.linalg.global_norm([gradient for gradient, _ in gradients])
    step = sgd().apply_gradients
    return tf.cond(norm < 100, lambda: step(gradients, tf.train.get_global_step()), tf.no_op)


@pytest.mark.parametrize('is_known', [True, False])
@pytest.mark.parametrize('minimize', [by_minimize, by_gradients, by_hand, by_keras, in_a_condition])
def test_towers_learn_as_one_process_with_the_whole_batch(minimize, is_known):
    assert_learned(train(program(minimize), is_known=is_known), descend())


def test_a_branch_that_scatters_into_a_tensor_changes_no_variable():
    def scattered(x):
        y = predict(x)
        return tf.cond(tf.reduce_sum(x) < 1e9, lambda: y, lambda: y + predict_again(tf.scatter_nd([[0]], [1.0], [1])))

    def predict_again(x):
        return x * tf.trainable_variables()[0][0]

    assert_learned(train(program(by_minimize, scattered)), descend())


def test_gradients_of_a_tape_are_averaged_too():
    def call(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((predict(x) - y) ** 2)
        variables = tf.trainable_variables()
        pairs = zip(tape.gradient(loss, variables), variables)
        return spec(loss, sgd().apply_gradients(pairs, tf.train.get_global_step()))

    assert_learned(train(call), descend())


def test_the_mean_is_clipped_not_the_gradients_of_each_tower():
    assert_learned(train(program(clipped)), descend(norm=0.01))


def test_sparse_gradients_are_averaged():
    def look_up(ids):
        return tf.gather(tf.get_variable('table', [3], initializer=tf.zeros_initializer(), use_resource=True), ids)

    ids = np.array([0, 2, 2, 2, 0])
    assert_learned(train(program(by_minimize, look_up), ids, Y), descend(np.eye(3)[ids]))


def test_a_tower_without_examples_counts_nothing():
    assert_learned(train(program(by_minimize), X[:1], Y[:1], is_known=False), descend(X[:1], Y[:1]))


def by_layers(x):
    return tf.layers.dense(x, 1, kernel_regularizer=tf.keras.regularizers.l2(0.1))[:, 0]


def by_keras_layers(x):
    layer = tf.keras.layers.Dense(1, kernel_regularizer=tf.keras.regularizers.l2(0.1))
    y = layer(x)[:, 0]
    tf.losses.add_loss(tf.add_n(layer.losses))
    return y


def by_variables(x):
    def penalty(w):
        return 0.1 * tf.reduce_sum(w**2)

    return tf.matmul(x, tf.get_variable('w', [3, 1], regularizer=penalty))[:, 0] + tf.get_variable('b', [])


@pytest.mark.parametrize('predict', [by_layers, by_keras_layers, by_variables])
def test_each_tower_has_the_penalties_of_its_own_weights_once(predict):
    def call(x, y):
        known = len(tf.trainable_variables())
        tf.losses.mean_squared_error(y, predict(x))
        loss = tf.losses.get_total_loss()
        assert known == 0 and len(tf.trainable_variables()) == 2
        return spec(loss, by_minimize(loss))

    with built(call) as (found, session):
        (weights, bias), loss = session.run([tf.trainable_variables(), found.loss])
        expected = np.mean((X @ weights[:, 0] + bias - Y) ** 2) + 0.1 * np.sum(weights**2)
        assert loss == pytest.approx(expected, rel=1e-5)
        assert len(tf.trainable_variables()) == 2 and len(tf.global_variables()) == 3


def test_averages_change_by_the_share_of_the_first_tower_only_and_summaries_are_its_own():
    def normalize(x):
        y = tf.layers.batch_normalization(x, momentum=0.5, training=True)[:, 0]
        tf.summary.scalar('output', tf.reduce_mean(y))
        return y

    def with_updates(loss):
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            return tf.train.AdamOptimizer(RATE).minimize(loss, tf.train.get_global_step())

    with built(program(with_updates, normalize)) as (found, session):
        for _ in range(2):
            session.run(found.train_op)
        values = {variable.op.name: session.run(variable) for variable in tf.global_variables()}
        np.testing.assert_allclose(values['batch_normalization/moving_mean'], 0.75 * X[:3].mean(0), rtol=1e-5)
        assert 'batch_normalization/gamma/Adam' in values and not any('tower' in name for name in values)
        assert [summary.op.name for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)] == ['output']


def test_running_metrics_in_summaries_and_in_tensors_by_name_are_those_of_the_first_tower():
    def call(x, y):
        _, mean = tf.metrics.mean(y, name='mean')
        tf.summary.scalar('of_labels', tf.identity(mean, name='logged'))
        return program(by_minimize)(x, y)

    with built(call) as (found, session):
        session.run(tf.local_variables_initializer())
        (summary,) = tf.get_collection(tf.GraphKeys.SUMMARIES)
        for _ in range(2):
            value = tf.Summary.FromString(session.run([summary, found.train_op])[0]).value[0]
            assert value.tag == 'of_labels' and value.simple_value == pytest.approx(Y[:3].mean())
        assert session.run('logged:0') == pytest.approx(Y[:3].mean())
        (count,) = [variable for variable in tf.local_variables() if variable.op.name == 'mean/count']
        assert session.run(count) == 9


@pytest.mark.parametrize('has_branches', [True, False])  # Of functions, as in TensorFlow 2; else with dead ops.
def test_averages_that_a_branch_changes_follow_the_first_tower_only(has_branches):
    def normalize(x):
        return tf.layers.batch_normalization(x, momentum=0.5, training=tf.placeholder_with_default(True, []))[:, 0]

    def with_updates(loss):
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            return by_minimize(loss)

    try:
        if not has_branches:
            tf.disable_control_flow_v2()
        with built(program(with_updates, normalize)) as (found, session):
            for _ in range(2):
                session.run(found.train_op)
            mean = session.run('batch_normalization/moving_mean/Read/ReadVariableOp:0')
            np.testing.assert_allclose(mean, 0.75 * X[:3].mean(0), rtol=1e-5)
    finally:
        tf.enable_control_flow_v2()


def test_a_second_step_sees_the_weights_after_the_first_in_all_towers():
    def call(x, y):
        first = sgd().minimize(tf.reduce_mean((predict(x) - y) ** 2))
        with tf.control_dependencies([first]):
            loss = tf.reduce_mean((tf.linalg.matvec(x, tf.trainable_variables()[0]) - y) ** 2)
            return spec(loss, by_minimize(loss))

    with built(call) as (found, session):
        loss, _ = session.run([found.loss, found.train_op])
        weights = session.run(tf.trainable_variables()[0])
    losses, _ = descend()
    assert loss == pytest.approx(losses[1], rel=1e-5)
    gradient = 2 * X.T @ (X @ (RATE * 2 * X.T @ Y / 5) - Y) / 5
    np.testing.assert_allclose(weights, RATE * 2 * X.T @ Y / 5 - RATE * gradient, rtol=1e-5)


def test_an_optimizer_may_be_made_once():
    optimizer = tf.train.AdamOptimizer(RATE)

    with built(program(lambda loss: optimizer.minimize(loss, tf.train.get_global_step()))) as (found, session):
        session.run(found.train_op)
        names = sorted(variable.op.name for variable in tf.global_variables())
        assert names == ['beta1_power', 'beta2_power', 'global_step', 'weights', 'weights/Adam', 'weights/Adam_1']
        gradient = -2 * X.T @ Y / len(Y)
        np.testing.assert_allclose(session.run(optimizer.get_slot(tf.trainable_variables()[0], 'm')), 0.1 * gradient, rtol=1e-5)


def penalized(loss):
    (gradient,) = tf.gradients(loss, tf.trainable_variables())
    return by_minimize(loss + tf.reduce_sum(gradient**2))


def in_a_branch(loss):
    return tf.cond(loss > 0, lambda: tf.identity(tf.gradients(loss, tf.trainable_variables())[0]), lambda: tf.zeros([3]))


def without_gradients(loss):
    (variable,) = tf.trainable_variables()
    return tf.group(tf.assign_sub(variable, tf.ones([3]) * loss), tf.assign_add(tf.train.get_global_step(), 1))


def scaled(loss):
    gradients = sgd().compute_gradients(loss)
    return sgd().apply_gradients([(gradient * loss, each) for gradient, each in gradients], tf.train.get_global_step())


def skipped(loss):
    gradients = sgd().compute_gradients(loss)
    return tf.cond(loss > 0.1, lambda: sgd().apply_gradients(gradients, tf.train.get_global_step()), tf.no_op)


def in_a_function(loss):
    @tf2.function
    def gradient():
        (variable,) = tf.trainable_variables()
        with tf.GradientTape() as tape:
            squares = tf.reduce_sum(variable**2)
        return tape.gradient(squares, variable)

    return gradient()


def replicated(loss):
    optimizer = tf.train.SyncReplicasOptimizer(sgd(), 1)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    optimizer.ready_for_local_init_op.mark_used()  # Otherwise an error is logged when it is collected, in another test.
    return train_op


def normalized_in_a_branch(x):
    mean = tf.get_variable('mean', [3], initializer=tf.zeros_initializer(), trainable=False, use_resource=True)

    def update():
        with tf.control_dependencies([mean.assign(tf.reduce_mean(x, 0))]):
            return x - mean.read_value()

    return predict(tf.cond(tf.placeholder_with_default(True, []), update, lambda: x))


kept = []


def kept_layers(x):
    kept.extend([] if kept else [tf.keras.layers.Dense(1)])
    return kept[0](x)[:, 0]


def unused(x):
    weights = tf.get_variable('unused', [], initializer=tf.zeros_initializer(), use_resource=True)
    return predict(x) + (weights if 'tower_1' in tf.get_default_graph().get_name_scope() else 0.0)


def other_variables(x):
    return predict(x) + (tf.Variable(0.0) if 'tower_1' in tf.get_default_graph().get_name_scope() else 0.0)


@pytest.mark.parametrize(
    'call, message',
    [
        (program(penalized), 'computes gradients of gradients of its variables, which excludes towers and clusters'),
        (program(in_a_branch), 'computes gradients in a branch, loop or tf.function, which excludes'),
        (program(in_a_function), 'computes gradients in a branch, loop or tf.function, which excludes'),
        (program(replicated), 'It has a SyncReplicasOptimizer, which excludes --num_towers=2: use the optimizer that it wraps'),
        (program(without_gradients), 'It changes weights by other values than gradients of variables'),
        (program(scaled), 'It changes weights by other values than gradients'),
        (
            program(by_minimize, normalized_in_a_branch),
            'It computes its loss by a branch, loop or function that changes one of mean, which excludes towers: omit',
        ),
        (program(skipped), 'It changes weights by other values than gradients'),
        (
            program(by_minimize, kept_layers),
            'its layers, each time it is called: tower 1 raises ValueError: No variables to optimize.',
        ),
        (program(by_minimize, unused), 'It must compute the same gradients each time it is called'),
        (program(by_minimize, other_variables), 'each time it is called: Variable is new in tower 1'),
    ],
)
def test_what_towers_would_compute_wrongly_is_refused(call, message):
    with pytest.raises(UsageError) as error, built(call):
        pass
    assert message in str(error.value)


def test_batches_that_cannot_be_divided_are_refused():
    with tf.Graph().as_default():
        check_divisible('It', ({'x': tf.zeros([2, 3])}, None), '--num_towers=2')
        for tensor, kind in ((tf.sparse.from_dense([[1, 0]]), 'a SparseTensor'), (tf.zeros([]), 'a scalar')):
            with pytest.raises(UsageError, match=f'It: {kind} in a batch excludes --num_towers=2'):
                check_divisible('It', {'x': tensor}, '--num_towers=2')


@pytest.mark.parametrize('use_resource', [False, True])
def test_assignments_to_a_slice_are_known_as_changes(use_resource):
    with tf.Graph().as_default():
        variable = tf.get_variable('v', [3], use_resource=use_resource)
        assert changes_variable(variable[:2].assign([1.0, 2.0]).op.type)
        assert not changes_variable(variable[:2].op.type)

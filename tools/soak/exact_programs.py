"""Programs for --exact, in all forms of input and of random ops: killed at random moments, each ends as undisturbed.

    python -m tools.soak.exact_programs --times=5 [--tf1] [NAME...]

prints a line for each program; exit code 1 if the variables of any differ, in any bit.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time

import tf_estimator

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

STEPS, WIDTH = 200, 6
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def examples(count=90):
    x = np.random.RandomState(0).randn(count, WIDTH).astype(np.float32)
    return tf2.data.Dataset.from_tensor_slices((x, (x.sum(1) > 0).astype(np.int64)))


def simple_input():
    return examples().shuffle(50).repeat().batch(8).prefetch(2)


def model_fn(features, labels, mode, params):
    """A small network; params: `noise`, function of its hidden layer, and `train`, function of the loss."""
    x = features['x'] if isinstance(features, dict) else features
    hidden = tf.layers.dense(tf.reshape(x, [-1, WIDTH]), WIDTH, tf.nn.tanh)
    if mode == 'train':
        hidden = params.get('noise', lambda each: tf.layers.dropout(each, 0.5, training=True))(hidden)
    logits = tf.layers.dense(hidden, 2)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train = params.get('train', lambda loss: tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step()))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train(loss), training_hooks=params.get('hooks', list)())


def make(directory, **params):
    config = tf.estimator.RunConfig(directory, tf_random_seed=7, save_checkpoints_steps=9, keep_checkpoint_max=3)
    return tf.estimator.Estimator(model_fn, config=config, params=params)


def train(directory, input_fn=simple_input, **params):
    make(directory, **params).train(input_fn, max_steps=STEPS)


@program
def shuffled_dataset(directory):
    train(directory, lambda: simple_input().map(lambda x, y: ({'x': x}, y), num_parallel_calls=2))


@program
def one_shot_iterator(directory):
    def noisy(x, y):
        return x + tf.random.normal(tf.shape(x)), y

    train(directory, lambda: tf.data.make_one_shot_iterator(examples().map(noisy).repeat().batch(8)).get_next())


@program
def initializable_iterator(directory):
    def input_fn():
        factor = tf.placeholder_with_default(1.0, [])
        iterator = tf.data.make_initializable_iterator(simple_input().map(lambda x, y: (x * factor, y)))
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        x, y = iterator.get_next()
        return {'x': x}, y

    train(directory, input_fn)


class Initialize(tf.train.SessionRunHook):
    def __init__(self):
        self.op = None

    def after_create_session(self, session, coord):
        session.run(self.op)


@program
def iterator_of_a_structure(directory):
    hook = Initialize()

    def input_fn():
        dataset = simple_input()
        iterator = tf.data.Iterator.from_structure(tf.data.get_output_types(dataset), tf.data.get_output_shapes(dataset))
        hook.op = iterator.make_initializer(dataset)
        return iterator.get_next()

    train(directory, input_fn, hooks=lambda: [hook])


@program
def images(directory):
    def distort(x, y):
        image = tf.reshape(x[:6], [1, 2, 3])
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_brightness(tf.image.random_hue(tf.image.random_contrast(image, 0.5, 1.5), 0.1), 0.5)
        image = tf.image.random_saturation(image, 0.5, 1.5)
        box = tf.image.sample_distorted_bounding_box([9, 9, 3], tf.zeros([1, 0, 4]), use_image_if_no_bounding_boxes=True)
        image += tf.cast(box.begin[0], tf.float32) + tf.image.random_crop(tf.reshape(tf.range(9.0), [3, 3, 1]), [1, 1, 1])
        return tf.reshape(image, [6]), y

    def input_fn():
        options = tf.data.Options()
        options.experimental_deterministic = False
        data = examples().cache().map(distort, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
        return data.repeat().batch(8).prefetch(tf.data.AUTOTUNE).with_options(options)

    train(directory, input_fn)


@program
def keras_layers(directory):
    def noise(x):
        for layer in (tf.keras.layers.Dropout(0.3), tf.keras.layers.GaussianNoise(0.5), tf.keras.layers.GaussianDropout(0.2)):
            x = layer(x, training=True)
        return tf.nn.dropout(tf.nn.dropout(x, keep_prob=0.9), rate=0.1)

    train(directory, noise=noise)


@program
def recurrent_dropout(directory):
    def noise(x):
        cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicRNNCell(4), 0.9, 0.8, 0.7)
        return tf.nn.dynamic_rnn(cell, tf.reshape(x, [-1, 3, 2]), dtype=tf.float32)[0][:, -1]

    train(directory, noise=noise)


@program
def control_flow(directory):
    def body(i, x):
        x += tf.cond(tf.equal(i % 2, 0), lambda: tf.random.normal(tf.shape(x)), lambda: tf.random.uniform(tf.shape(x)))
        return i + 1, tf.map_fn(lambda row: row * tf.random.uniform([], 0.5, 1.5), x)

    train(directory, noise=lambda x: tf.while_loop(lambda i, _: i < 3, body, [0, x])[1])


@program
def functions(directory):
    @tf2.function
    def noisy(x):
        if tf.reduce_sum(x) > 0:
            x += tf.random.normal(tf.shape(x))
        return tf.nn.dropout(x, rate=0.2)

    train(directory, noise=lambda x: noisy(noisy(x)))


@program
def interleaved_files(directory):
    def read(i):
        data = examples(30).shuffle(9).map(lambda x, y: (x + tf.random.normal([WIDTH]), y))
        return data.map(lambda x, y: (x * tf.cast(i, tf.float32), y)).repeat(2)

    def input_fn():
        files = tf2.data.Dataset.range(4).shuffle(4)
        return files.interleave(read, 2, num_parallel_calls=2, deterministic=False).repeat().batch(8)

    train(directory, input_fn)


@program
def filters_and_scans(directory):
    def scanned(state, element):
        state = state * 0.9 + tf.random.normal([])
        return state, (element[0] + state, element[1])

    def input_fn():
        data = examples().filter(lambda x, y: tf.random.uniform([]) < 0.6)
        data = data.take_while(lambda x, y: tf.random.uniform([]) < 0.99)
        return data.scan(0.0, scanned).repeat().batch(8)

    train(directory, input_fn)


@program
def mixtures(directory):
    def input_fn():
        parts = [examples(), examples(50).map(lambda x, y: (x * 2, y))]
        data = tf2.data.Dataset.sample_from_datasets([each.shuffle(9).repeat() for each in parts], [0.3, 0.7])
        data = data.rejection_resample(lambda x, y: tf.cast(y, tf.int32), [0.8, 0.2], [0.5, 0.5]).map(lambda _, each: each)
        return data.group_by_window(lambda x, y: y, lambda _, window: window.shuffle(4).batch(4), 8)

    train(directory, input_fn)


@program
def random_ops(directory):
    def noise(x):
        shape = tf.shape(x)
        x += tf.random.gamma(shape, 2.0) + tf.random.gamma([], tf.exp(x)) + tf.random.poisson(tf.ones_like(x), [])
        x += tf.random.truncated_normal(shape) + tf.random.uniform(shape, -1.0, 3.0) + tf.random_shuffle(x)
        x += tf.cast(tf.random.uniform(shape, 0, 9, tf.int32), tf.float32)
        return x + tf.cast(tf.random.categorical(tf.zeros([1, 9]), 1), tf.float32) + tf.random.stateless_normal([6], [1, 2])

    train(directory, noise=noise)


@program
def generator(directory):
    def noise(x):
        return x + tf.random.Generator.from_seed(3).normal(tf.shape(x))

    train(directory, noise=noise)


@program
def accumulated_gradients(directory):
    """The global step counts every third run of the session."""

    def accumulate(loss):
        count = tf.get_variable('count', [], tf.int64, tf.zeros_initializer(), trainable=False)
        optimizer = tf.train.AdamOptimizer(0.01)
        applied = optimizer.minimize(loss)
        with tf.control_dependencies([applied]):
            count = tf.assign_add(count, 1)
        return tf.cond(
            tf.equal(count % 3, 0), lambda: tf.assign_add(tf.train.get_global_step(), 1), lambda: tf.constant(0, tf.int64)
        )

    train(directory, train=accumulate)


class OtherStep(tf.train.SessionRunHook):
    """Runs a second train_op of its own."""

    def __init__(self, op):
        self.op = op

    def before_run(self, run_context):
        run_context.session.run(self.op)


@program
def alternating_steps(directory):
    ops = []

    def alternate(loss):
        variable = tf.get_variable('other', [3], initializer=tf.zeros_initializer(), trainable=False)
        ops.append(tf.assign_add(variable, tf.random.normal([3])))
        return tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())

    train(directory, train=alternate, hooks=lambda: [OtherStep(ops[-1])])


@program
def initial_values(directory):
    def noise(x):
        weights = tf.Variable(tf.random.normal([WIDTH, WIDTH]), name='weights')
        noise = tf.get_variable('noise', [WIDTH], initializer=tf.random_normal_initializer())
        x = tf.layers.batch_normalization(tf.nn.dropout(x @ weights + noise, rate=0.3), training=True)
        return x + tf.Variable(tf.random.uniform([]), trainable=False)

    def minimize(loss):
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, tf.train.get_global_step())
        averages = tf.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([train_op]):
            return averages.apply(tf.trainable_variables())

    train(directory, noise=noise, train=minimize)


@program
def canned_classifier(directory):
    config = tf.estimator.RunConfig(directory, tf_random_seed=7, save_checkpoints_steps=9)
    columns = [tf.feature_column.numeric_column('x', [WIDTH])]
    estimator = tf.estimator.DNNClassifier([8], columns, dropout=0.5, config=config)
    estimator.train(lambda: simple_input().map(lambda x, y: ({'x': x}, y)), max_steps=STEPS)


@program
def train_and_evaluate(directory):
    evaluate = tf.estimator.EvalSpec(lambda: examples().batch(30), throttle_secs=0, start_delay_secs=0)
    tf.estimator.train_and_evaluate(make(directory), tf.estimator.TrainSpec(simple_input, STEPS // 5), evaluate)


@program
def trainings_in_a_loop(directory):
    """Each call of `train` begins its input anew."""
    for end in range(STEPS // 4, STEPS + 1, STEPS // 4):
        make(directory).train(simple_input, max_steps=end)


@program
def tpu_estimator(directory):
    run_config = tf.estimator.tpu.RunConfig(model_dir=directory, tf_random_seed=7, save_checkpoints_steps=9)

    def of_tpu(features, labels, mode, params):
        spec = model_fn(features, labels, mode, {})
        return tf.estimator.tpu.TPUEstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op)

    estimator = tf.estimator.tpu.TPUEstimator(of_tpu, config=run_config, train_batch_size=8, use_tpu=False)
    estimator.train(lambda params: examples().shuffle(50).repeat().batch(params['batch_size']), max_steps=STEPS)


@program
def python_and_tables(directory):
    def mapped(x, y):
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([0, 1], [1, 0], tf.int64, tf.int64), 0)
        return tf.py_func(lambda value: value * 2, [x], tf.float32), table.lookup(y)

    train(directory, lambda: examples().shuffle(9).map(mapped).repeat().batch(8))


@program
def records(directory):
    def input_fn():
        path = os.path.join(os.path.dirname(directory), 'records')
        with tf.io.TFRecordWriter(path + directory[-1]) as writer:
            for number in range(40):
                feature = tf.train.Feature(float_list=tf.train.FloatList(value=[number % 7] * WIDTH))
                writer.write(tf.train.Example(features=tf.train.Features(feature={'x': feature})).SerializeToString())
        data = tf.data.TFRecordDataset(path + directory[-1]).shuffle(9).repeat()
        parse = tf.data.experimental.map_and_batch(
            lambda each: tf.io.parse_single_example(each, {'x': tf.io.FixedLenFeature([WIDTH], tf.float32)})['x'], 8
        )
        return data.apply(parse).map(lambda x: (x + tf.random.normal(tf.shape(x)), tf.cast(x[:, 0] > 3, tf.int64)))

    train(directory, input_fn)


@program
def constant_input(directory):
    train(directory, lambda: (tf.ones([4, WIDTH]), tf.constant([0, 1, 0, 1])), noise=lambda x: x + tf.random.normal([4, 1]))


def run(name, directory, is_tf1):
    """Forks a process that runs a program; returns its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        tf_estimator.enable(exact=True)
        if is_tf1:
            tf.disable_v2_behavior()
        log = os.open(f'{directory}.log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        PROGRAMS[name](directory)
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())
        os._exit(code)


def ends(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def step_of(directory):
    """The step of the newest checkpoint."""
    names = os.listdir(directory) if os.path.exists(directory) else []
    return max([int(name[11:-6]) for name in names if name.startswith('model.ckpt-') and name.endswith('.index')], default=-1)


def variables(directory):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(directory))
    return {name: reader.get_tensor(name).tobytes() for name in reader.get_variable_to_shape_map()}


def soak(name, directory, times, is_tf1):
    """Returns what to say of a program, and whether all is well."""
    undisturbed, killed = f'{directory}/{name}-a', f'{directory}/{name}-b'
    if code := ends(run(name, undisturbed, is_tf1)):
        return f'exit code {code}: see {undisturbed}.log', False
    last, steps = step_of(undisturbed), []
    for step in sorted(random.sample(range(last), times)):
        child = run(name, killed, is_tf1)
        deadline = time.monotonic() + 60
        while step_of(killed) < step and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)  # It may have ended, but has not been waited for.
        ends(child)
        steps.append(step_of(killed))
    if code := ends(run(name, killed, is_tf1)):
        return f'exit code {code}: see {killed}.log', False
    found, expected = variables(killed), variables(undisturbed)
    differ = [each for each in {**found, **expected} if found.get(each) != expected.get(each)]
    return f'killed after steps {steps}: {len(differ)} of {len(expected)} variables differ', not differ


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', metavar='NAME')
    parser.add_argument('--times', type=int, default=5)
    parser.add_argument('--tf1', action='store_true', help='disable the behavior of TensorFlow 2')
    arguments = parser.parse_args()
    directory, is_well = tempfile.mkdtemp(), True
    for name in arguments.names or PROGRAMS:
        text, is_good = soak(name, directory, arguments.times, arguments.tf1)
        is_well &= is_good
        print(f'{name}: {text}', flush=True)
    sys.exit(not is_well)


if __name__ == '__main__':
    main()

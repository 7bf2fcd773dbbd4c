"""Helpers shared by the tests of common/ops."""

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.training.parallel import make_parallel

REFUSES_NCHW = tf.__version__.startswith('2.15.') and not tf.config.list_physical_devices('GPU')
CPUS = ['/cpu:0', '/cpu:1', '/cpu:2']


def evaluate(fn, *arrays):
    """Returns `fn` of arrays [batch, ...]; asserts equal results for a known batch size, and an unknown one in three towers.

    Variables get fixed random values, in order of name; see `variable_values`.
    """
    found, in_towers = _run(fn, arrays, True, []), _run(fn, arrays, False, CPUS)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, in_towers)
    return found


def variable_values(i, shape):
    """Returns the values of the i-th variable: positive numbers, valid as a variance."""
    return np.random.RandomState(i).uniform(0.5, 1.5, size=shape)


def graph_size(build, *arguments):
    """Returns the number of ops that `build` adds to a graph, including those in functions."""
    with tf.Graph().as_default() as graph:
        build(*arguments)
        definition = graph.as_graph_def()
    return len(definition.node) + sum(len(function.node_def) for function in definition.library.function)


def summary_values(session, summary, feed=None):
    """Returns the values of a serialized summary, a tensor."""
    return list(tf.Summary.FromString(session.run(summary, feed)).value)


def _run(fn, arrays, is_known, devices):
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 3})) as session:
        shapes = [[len(array) if is_known else None, *array.shape[1:]] for array in arrays]
        tensors = {f'tensor_{i}': tf.placeholder(arrays[i].dtype, shape) for i, shape in enumerate(shapes)}
        outputs = make_parallel(lambda **tensors: fn(*tensors.values()), devices, **tensors)
        session.run(tf.global_variables_initializer())
        for i, variable in enumerate(sorted(tf.global_variables(), key=lambda v: v.name)):
            variable.load(variable_values(i, variable.shape), session)
        return session.run(outputs, dict(zip(tensors.values(), arrays)))

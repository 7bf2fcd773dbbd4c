"""The rule for towers and threads: the size of products, what it chooses, and what the processor has."""

import contextlib
import math
import os

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.processor import has_bfloat16, use_onednn
from estimator_trainer.common.products import largest_product
from estimator_trainer.common.training.parallelism import Parallelism, choose


def _loop(x):
    return tf.while_loop(lambda i, _: i < 3, lambda i, net: (i + 1, tf.matmul(net, tf.ones([4, 4]))), [0, x])[1]


@pytest.mark.parametrize(
    'expected, build',
    [
        (0, lambda: tf.ones([8, 4]) + 1),
        (2 * 8 * 3 * 5, lambda: tf.matmul(tf.ones([8, 3]), tf.ones([3, 5]))),
        (2 * 8 * 3 * 5, lambda: tf.matmul(tf.ones([3, 8]), tf.ones([3, 5]), transpose_a=True)),
        (2 * 10 * 3 * 5, lambda: tf.matmul(tf.placeholder(tf.float32, [None, 3]), tf.ones([3, 5]))),
        (2 * 7 * 8 * 3 * 5, lambda: tf.matmul(tf.ones([7, 8, 3]), tf.ones([7, 3, 5]))),
        (2 * 7 * 8 * 3 * 5, lambda: tf.matmul(tf.ones([7, 3, 8]), tf.ones([7, 3, 5]), transpose_a=True)),
        (2 * 3 * 2 * 6 * 4 * 9 * 9 * 5, lambda: tf.nn.conv2d(tf.ones([4, 9, 9, 6]), tf.ones([3, 2, 6, 5]), 1, 'SAME')),
        (
            2 * 3 * 3 * 6 * 4 * 9 * 9,
            lambda: tf.nn.depthwise_conv2d(tf.ones([4, 9, 9, 6]), tf.ones([3, 3, 6, 1]), [1] * 4, 'SAME'),
        ),
        (2 * 7 * 8 * 3 * 5, lambda: tf.einsum('abc,cd->abd', tf.ones([7, 8, 3]), tf.ones([3, 5]))),
        (2 * 6 * 4 * 4, lambda: _loop(tf.ones([6, 4]))),
        (2 * 8 * 3 * 5, lambda: [tf.matmul(tf.ones([8, 3]), tf.ones([3, 5])), tf.matmul(tf.ones([2, 3]), tf.ones([3, 5]))]),
        (math.inf, lambda: tf.einsum('...c,cd->...d', tf.placeholder(tf.float32, None), tf.ones([3, 5]))),
    ],
)
def test_the_largest_product_counts_two_operations_for_each_term(expected, build):
    with tf.Graph().as_default() as graph:
        build()
    assert largest_product(graph, batch_size=10) == expected


def test_products_in_functions_of_imported_graphs_are_unknown():
    with _control_flow(True), tf.Graph().as_default() as graph:
        x = tf.matmul(tf.ones([2, 3]), tf.ones([3, 5]))
        tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, tf.ones([5, 7])), lambda: tf.zeros([2, 7]))
        assert largest_product(graph, 1) == 2 * 2 * 5 * 7
        definition = tf.train.export_meta_graph()
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(definition)
        assert largest_product(graph, 1) == 2 * 2 * 3 * 5


@pytest.mark.parametrize(
    'expected, size, change',
    [
        ((1, 1), 4, {}),  # A product of 128 by 4 by 4.
        ((1, 0), 4, {'cores': 1}),
        ((1, 0), 4, {'cores': 64}),
        ((1, 1), 441, {}),  # 49.8 MFLOP.
        ((2, 1), 442, {}),  # 50.01 MFLOP.
        ((2, 1), 1024, {}),
        ((1, 1), 512, {'may_divide': False}),
        ((1, 0), 1024, {'may_divide': False}),
        ((4, 1), 1024, {'cores': 4}),
        ((1, 1), 512, {'cores': 3}),  # 128 examples are no multiple of 3.
        ((1, 0), 1024, {'cores': 3}),
        ((1, 0), 2048, {'cores': 4, 'batch_size': 64}),  # 16 examples in each.
        ((1, 0), 1024, {'cores': 64}),
    ],
)
def test_small_products_run_in_a_thread_each_and_larger_ones_in_towers(expected, size, change):
    with tf.Graph().as_default() as graph:
        tf.matmul(tf.placeholder(tf.float32, [None, size]), tf.ones([size, size]))
    assert choose(graph, **{'batch_size': 128, 'cores': 2, 'may_divide': True, **change}) == Parallelism(*expected)


@pytest.mark.parametrize('expected, size', [((1, 1), 512), ((2, 1), 1024)])
@pytest.mark.parametrize('is_v2', [False, True])
def test_only_large_products_in_loops_run_in_towers(expected, size, is_v2):
    with tf.Graph().as_default() as graph, _control_flow(is_v2):
        ones = tf.ones([size, size])
        tf.while_loop(lambda i, _: i < 3, lambda i, net: (i + 1, tf.matmul(net, ones)), [0, tf.ones([128, size])])
    assert choose(graph, 128, 2, may_divide=True) == Parallelism(*expected)


@contextlib.contextmanager
def _control_flow(is_v2):
    """Makes loops of version 1 or 2 of TensorFlow."""
    before = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if is_v2 else tf.disable_control_flow_v2)()
    yield
    (tf.enable_control_flow_v2 if before else tf.disable_control_flow_v2)()


def test_batch_norm_is_not_divided_into_towers():
    with tf.Graph().as_default() as graph:
        tf.layers.batch_normalization(tf.matmul(tf.ones([128, 1024]), tf.ones([1024, 1024])), training=True)
    assert choose(graph, 128, 2, may_divide=True) == Parallelism()


def test_instructions_for_bfloat16_are_found_in_what_linux_says_of_the_processor(tmp_path):
    path = tmp_path / 'cpuinfo'
    for flags, expected in (('avx2 avx512_bf16 sse', True), ('amx_bf16', True), ('avx2 avx512f', False)):
        path.write_text(f'processor : 0\nflags\t\t: fpu {flags}\nbugs : amx_bf16x\n')
        assert has_bfloat16(str(path)) == expected
    assert not has_bfloat16(str(tmp_path / 'none'))


def test_tensorflow_computes_with_onednn_on_processors_with_avx2_unless_the_environment_says_otherwise(tmp_path, monkeypatch):
    for found, given, expected in (('avx2', None, '1'), ('avx2 avx512f', '0', '0'), ('avx', None, None)):
        (tmp_path / 'cpuinfo').write_text(f'flags : fpu {found}\n')
        monkeypatch.delenv('TF_ENABLE_ONEDNN_OPTS', raising=False)
        if given:
            monkeypatch.setenv('TF_ENABLE_ONEDNN_OPTS', given)
        use_onednn(str(tmp_path / 'cpuinfo'))
        assert os.environ.get('TF_ENABLE_ONEDNN_OPTS') == expected

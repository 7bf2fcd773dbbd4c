"""What sessions are told, seen in what they run."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training.options import TrainingOptions
from common.training.session_config import make_session_config

X = np.random.RandomState(0).normal(size=[5, 40]).astype(np.float32)
W = np.random.RandomState(1).normal(size=[40, 3]).astype(np.float32)


def product(config):
    """Returns what a session computes for the product of X and W after ReLU, and the types of its matrix product."""
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        x = tf.placeholder(tf.float32, [None, 40])
        y = tf.nn.relu(tf.matmul(x, tf.get_variable('w', initializer=W)))
        session.run(tf.global_variables_initializer())
        metadata = tf.RunMetadata()
        values = session.run(y, {x: X}, tf.RunOptions(output_partition_graphs=True), metadata)
        nodes = [node for graph in metadata.partition_graphs for node in graph.node]
        return values, {tf.as_dtype(node.attr['T'].type) for node in nodes if 'MatMul' in node.op}


def rounded(x):
    """Rounds to bfloat16's 8 bits of precision, to nearest even."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def test_the_estimators_own_session_config_is_used_where_nothing_is_asked():
    assert make_session_config([], TrainingOptions()) is None
    assert make_session_config(['/gpu:0'], TrainingOptions()) is None


def test_towers_on_cpus_have_devices_of_their_own():
    with (
        tf.Graph().as_default(),
        tf.Session(config=make_session_config([f'/cpu:{i}' for i in range(3)], TrainingOptions())) as session,
    ):
        assert len([device for device in session.list_devices() if device.device_type == 'CPU']) == 3


@pytest.mark.skipif('avx512f' not in open('/proc/cpuinfo').read(), reason='this CPU does not compute with bfloat16')
def test_bfloat16_rounds_what_is_multiplied():
    values, types = product(make_session_config([], TrainingOptions(precision='bfloat16')))
    assert types == {tf.bfloat16}
    expected = np.maximum(rounded(X) @ rounded(W), 0)
    np.testing.assert_allclose(values, expected, rtol=2**-8)
    assert (np.abs(values - np.maximum(X @ W, 0)) > 1e-3).any()


def test_float32_rounds_nothing_that_is_multiplied():
    values, types = product(make_session_config([], TrainingOptions(intra_op_threads=1)))
    assert types == {tf.float32}
    np.testing.assert_allclose(values, np.maximum(X @ W, 0), rtol=1e-5, atol=1e-5)


def test_threads_are_as_many_as_asked_for():
    config = make_session_config([], TrainingOptions(inter_op_threads=1, intra_op_threads=2))
    assert (config.inter_op_parallelism_threads, config.intra_op_parallelism_threads) == (1, 2)
    assert config.allow_soft_placement


def test_xla_is_for_gpus(monkeypatch):
    with pytest.raises(UsageError, match='--xla requires a GPU; none is visible'):
        make_session_config([], TrainingOptions(xla=True))
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: ['GPU:0'])
    assert (
        make_session_config([], TrainingOptions(xla=True)).graph_options.optimizer_options.global_jit_level
        == tf.OptimizerOptions.ON_1
    )


def test_bfloat16_is_for_cpus(monkeypatch):
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: ['GPU:0'])
    with pytest.raises(UsageError, match='--precision=bfloat16 requires a CPU, but GPUs are visible'):
        make_session_config([], TrainingOptions(precision='bfloat16'))


def test_float16_is_for_gpus(monkeypatch):
    with pytest.raises(UsageError, match='--precision=float16 requires a GPU; none is visible: use --precision=bf'):
        make_session_config([], TrainingOptions(precision='float16'))
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: ['GPU:0'])
    rewriting = make_session_config([], TrainingOptions(precision='float16')).graph_options.rewrite_options
    assert rewriting.auto_mixed_precision == rewriting.ON

"""Session configuration: devices, threads, precisions, and what a task of a cluster has of its own."""

import functools
import os
import sys
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.task import TrainerTask
from estimator_trainer.common.cluster.training_task import ALONE
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training.session_config import make_run_config, make_session_config
from tests import forked
from tests.cluster.tasks import addresses
from tests.shared import refused


def test_functions_for_gradients_of_filters_are_kept_unless_the_environment_says_otherwise(monkeypatch):
    for given, expected in ((None, 'false'), ('true', 'true')):
        monkeypatch.delenv('TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE', raising=False)
        if given:
            monkeypatch.setenv('TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE', given)
        make_session_config(Options())
        assert os.environ['TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE'] == expected


def test_too_few_gpus_are_said(tmp_path):
    message = refused(make_run_config, str(tmp_path), 1, Options(num_gpus=99))
    assert message.startswith('--num_gpus=99: this machine has ')


def test_threads_are_as_many_as_asked_for():
    assert make_session_config(Options(num_towers=3)) is None  # The Estimator's own, without options.
    config = make_session_config(Options(inter_op_threads=1, intra_op_threads=2))
    assert (config.inter_op_parallelism_threads, config.intra_op_parallelism_threads) == (1, 2)
    rewriting = config.graph_options.rewrite_options
    assert config.allow_soft_placement and rewriting.meta_optimizer_iterations == rewriting.ONE


OPTIONS = """
import os
import tf_estimator
import tensorflow.compat.v1 as tf
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training.session_config import make_session_config
counts = []
for intra, inter in ((2, 1), (7, 1), (7, 5)):
    config = make_session_config(Options(intra_op_threads=intra, inter_op_threads=inter))
    with tf.Session(graph=tf.Graph(), config=config):
        counts.append(len(os.listdir('/proc/self/task')))
print([count - counts[0] for count in counts])
"""


@pytest.mark.skipif(not os.path.isdir('/proc/self/task'), reason='the system does not show threads')
def test_each_session_has_the_threads_of_its_options_but_in_a_process_that_has_computed_before(monkeypatch):
    monkeypatch.delenv('TF_OVERRIDE_GLOBAL_THREADPOOL', raising=False)  # Other tests may have set it.
    found = forked.run([sys.executable, '-c', OPTIONS])
    assert found.stdout == '[0, 5, 9]\n' and 'WARNING' not in found.stderr
    computed = 'import tf_estimator, tensorflow.compat.v1 as tf\ntf.Session(graph=tf.Graph()).close()\n'
    found = forked.run([sys.executable, '-c', computed + OPTIONS])
    assert found.stdout == '[0, 0, 4]\n' and '--intra_op_threads=7 has no effect: TensorFlow has already' in found.stderr


SERVER = """
import os, sys
import tf_estimator
import tensorflow.compat.v1 as tf
from estimator_trainer.common.cluster import server, task
from estimator_trainer.common.cluster.tf_config import ClusterConfig
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training.session_config import make_session_config
cluster = ClusterConfig({'chief': [sys.argv[1]]}, 'chief', 0)
config = task.make_session_config(cluster, make_session_config(Options(inter_op_threads=int(sys.argv[2]))))
with tf.Session(server.start_server(cluster, config), graph=tf.Graph(), config=config) as session:
    session.run(tf.constant(1))
print(len(os.listdir('/proc/self/task')))
"""


@pytest.mark.skipif(not os.path.isdir('/proc/self/task'), reason='the system does not show threads')
def test_the_server_of_a_task_has_the_threads_between_ops():
    few, many = (
        int(forked.run([sys.executable, '-c', SERVER, *addresses(chief=1)['chief'], str(count)]).stdout) for count in (1, 101)
    )
    assert 90 <= many - few <= 110  # gRPC's threads come and go.


def test_xla_and_float16_are_for_gpus_and_bfloat16_for_cpus(monkeypatch):
    for wrong, right, option, message in (
        ([], ['GPU:0'], {'xla': True}, '--xla requires a GPU; none is visible'),
        (['GPU:0'], [], {'precision': 'bfloat16'}, '--precision=bfloat16 requires a CPU, but GPUs are visible'),
        ([], ['GPU:0'], {'precision': 'float16'}, '--precision=float16 requires a GPU; none is visible: use --precision=bf'),
    ):
        monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind, visible=wrong: visible)
        assert message in refused(make_session_config, Options(**option))
        monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind, visible=right: visible)
        graph_options = make_session_config(Options(**option)).graph_options
        rewriting, xla = graph_options.rewrite_options, graph_options.optimizer_options.global_jit_level
        found = (xla, rewriting.auto_mixed_precision, rewriting.auto_mixed_precision_onednn_bfloat16)
        assert found == tuple(int(value in option.values()) for value in (True, 'float16', 'bfloat16'))


@pytest.mark.parametrize('index, seed', [(None, 7), (0, 7), (1, 1000010), (2200, 2200 * 1000003 + 7 - 2**31)])
def test_each_task_of_a_cluster_has_a_session_and_a_seed_of_its_own(tmp_path, index, seed):
    session_config = tf.ConfigProto(isolate_session_state=True)
    task = types.SimpleNamespace(index=index, session_config=session_config, target='grpc://task')
    task.run_config = functools.partial(TrainerTask.run_config, task)
    task = ALONE if index is None else task
    options = Options(keep_checkpoint_max=3, intra_op_threads=2)
    config = make_run_config(str(tmp_path), 7, options, task)
    assert (config.model_dir, config.tf_random_seed, config.keep_checkpoint_max) == (str(tmp_path), seed, 3)
    assert config.session_config == (make_session_config(options) if task is ALONE else session_config)
    assert config.master == ('' if task is ALONE else 'grpc://task') and config.is_chief and config.device_fn is None
    assert (config.save_checkpoints_secs, config.save_checkpoints_steps, config.log_step_count_steps) == (None, None, None)

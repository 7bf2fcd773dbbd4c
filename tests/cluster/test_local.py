"""--local_cluster: one process per task on this machine, all restarted if one is lost.

Except in one test, the tasks run tests/cluster/fake_task.py.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from unittest import mock

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster import local, local_tasks
from estimator_trainer.common.cluster.probe import ANSWERS, LOST, host_and_port, probe
from estimator_trainer.common.cluster.server import start_server
from estimator_trainer.common.cluster.tf_config import ClusterConfig
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.stop import StopOnSignal
from tests import forked
from tests.cluster.conftest import FLAGS, STEPS
from tests.cluster.tasks import tf_config, wait_until
from tests.shared import POLYNOMIAL, ROOT, assert_equal, failed, raised, read_weights, refused

# Once it and another task are ready for SIGTERM: goes on until the other one, and not this one, has been stopped.
AFTER_THE_OTHER = 'wait_for("ready")\ntouch("both")\nleave({}, "stopped")'
SAVES = 'log_a_step()\nsignal.signal(signal.SIGTERM, lambda *unused: os._exit(1))\n' + AFTER_THE_OTHER.format(143)
RESISTS = 'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n' + AFTER_THE_OTHER.format(1)
FAKE = os.path.join(ROOT, 'tests', 'cluster', 'fake_task.py')


@pytest.fixture
def launch(tmp_path):
    """Runs a cluster of fake tasks: launch({task: its code}, restarts=1) -> result."""
    tf.logging.set_verbosity(tf.logging.INFO)

    def call(tasks, restarts=0, stop=None, **seconds):
        jobs = [task[:-1] for task in tasks]
        command, counts = [FAKE, str(tmp_path), json.dumps(tasks)], {job: jobs.count(job) for job in jobs}
        return local.run(command, counts, str(tmp_path), restarts, stop or StopOnSignal(), **seconds)

    return call


def logged(directory, task):
    return (directory / 'cluster' / f'{task}.log').read_text()


def test_the_result_is_the_chiefs_and_other_output_is_logged_and_each_has_a_gpu(launch, tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '5,3')
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: [f'{kind}:0', f'{kind}:1'])
    chief = 'log_a_step()\nprint("from a module")\nprint(json.dumps({"global_step": 3}))'
    assert launch({'chief0': chief, 'worker0': 'print(os.environ["CUDA_VISIBLE_DEVICES"])'}) == {'global_step': 3}
    assert capsys.readouterr().out == 'from a module\n'
    assert (logged(tmp_path, 'chief'), logged(tmp_path, 'worker-0')) == ('loss = 0.5, step = 7\n', '3\n')
    assert caplog.messages[0] == f'The logs of all tasks are in {tmp_path}/cluster.'
    assert caplog.messages[-1] == 'ended: chief, worker 0; loss = 0.5, step = 7'
    assert 'restarts' not in caplog.text


def test_what_the_chief_prints_as_it_ends_is_no_result(launch, capsys):
    assert launch({'chief0': 'print(json.dumps({"global_step": 3}))\nprint("bye")\nprint(7)'}) == {'global_step': 3}
    assert capsys.readouterr().out == 'bye\n7\n'
    assert failed(launch, {'chief0': 'print("[]")'}) == 'the chief ended without a result, with exit code 0'


def test_only_a_task_gets_its_port_even_before_it_starts():
    with local.held_addresses({'worker': 2}) as addresses, socket.socket() as other:
        host, port = host_and_port(addresses['worker'][0])
        with pytest.raises(OSError, match='Address already in use'):
            other.bind((host, int(port)))
        start_server(ClusterConfig(addresses, 'worker', 0), tf.ConfigProto())
        assert [probe(address) for address in addresses['worker']] == [ANSWERS, LOST]


def test_warnings_of_the_chief_are_logged_once_up_to_its_end(launch, caplog):
    warn = 'sys.stderr.write("2026-11-27 18:57:49 INFO Fine.\\n2026-11-27 18:57:49 WARNING The loss jumped.\\nto 5\\n")'
    assert launch({'chief0': f'{warn}\n{warn}\nprint("{{}}")', 'worker0': warn.replace('jumped', 'fell')}) == {}
    assert [record.message for record in caplog.records if record.levelname == 'WARNING'] == ['The loss jumped.']


def test_a_failed_task_is_named_and_all_restart_as_often_as_allowed_except_after_a_mistake(launch, tmp_path, caplog):
    with pytest.raises(UsageError, match='^worker 0 failed: --freeze=x: is wrong '):
        launch({'chief0': '', 'worker0': 'print("trainer.py: --freeze=x: is wrong")\nsys.exit(2)'}, restarts=3)
    assert 'restart' not in caplog.text
    lost = f'trainer.py: chief (a:1) is lost; its own log may say why: {local.RESTART}'
    worker = f'if not os.path.exists("again"):\n  touch("again")\n  sys.exit("{lost}")\nsys.exit(1)'
    error = failed(launch, {'worker0': '', 'worker1': worker}, restarts=1)
    log = f'(log: {tmp_path}/cluster/worker-1.log)'  # The first error does not affect the second.
    resumes = 'rerun the command to resume from the latest checkpoint'
    assert error == f'worker 1 failed: exit code 1 {log}; {resumes}'
    again = f'worker 1 failed: chief (a:1) is lost; its own log may say why {log}; restarting all tasks (restart 1 of 1).'
    assert again in caplog.messages and caplog.messages[-1] == 'ended: worker 0; failed: worker 1; restarts: 1 of 1'
    assert logged(tmp_path, 'worker-1') == f'{lost}\n'  # Of the first start: logs are appended to.


RECORD = 'with open("tasks.jsonl", "w") as file: file.write(json.dumps({"tasks": ["worker 0", "worker 1"]}) + "\\n")\n'


def test_in_elastic_training_a_lost_task_is_started_again_and_the_result_is_that_of_the_acting_chief(launch, caplog):
    chief = 'if not os.path.exists("again"):\n  wait_for("recorded")\n  touch("again")\n  os.kill(os.getpid(), 9)\n'
    chief += 'touch("returned")\nprint(json.dumps({}))'
    worker = f'{RECORD}log_a_step()\ntouch("recorded")\nwait_for("returned")\nprint(json.dumps({{"global_step": 3}}))'
    tasks = {'chief0': chief, 'worker0': worker, 'worker1': 'wait_for("returned")'}
    assert launch(tasks, restarts=1, min_tasks=2, terminate_seconds=0) == {'global_step': 3}
    assert re.search(r'chief failed: was killed by SIGKILL .*; starting it again \(restart 1 of 1\)\.', caplog.text)
    assert caplog.messages[-1] == 'ended: chief, worker 0, worker 1; loss = 0.5, step = 7'


def test_in_elastic_training_the_others_go_on_without_a_lost_task_but_not_too_few(launch, tmp_path, caplog):
    class Stop(StopOnSignal):
        @property
        def received(self):
            if 'the others go on' in caplog.text:
                (tmp_path / 'told').touch()
            return super().received

    tasks = {'chief0': 'wait_for("told")\nprint(json.dumps({"global_step": 3}))', 'worker0': 'wait_for("told")'}
    found = launch({**tasks, 'worker1': 'sys.exit(1)'}, stop=Stop(), min_tasks=2, terminate_seconds=0)
    assert found == {'global_step': 3}
    assert 'worker 1 failed: exit code 1 ' in caplog.text and '; the others go on without it.' in caplog.text
    assert caplog.messages[-1] == 'ended: chief, worker 0; lost: worker 1'
    with pytest.raises(RunError, match='^worker 0 failed: exit code 1 .*; rerun the command to resume '):
        launch({'chief0': 'serve(143)', 'worker0': 'leave(1)'}, min_tasks=2, terminate_seconds=0.1)
    with pytest.raises(UsageError, match='^worker 0 failed: exit code 2 '):
        launch({'chief0': 'serve(143)', 'worker0': 'leave(2)'}, restarts=3, min_tasks=1, terminate_seconds=0.1)


def test_tasks_that_outlive_a_lost_one_are_terminated_and_finally_killed(launch, caplog):
    with pytest.raises(RunError, match='^worker 0 failed: exit code 1 '):
        launch({'chief0': 'log_a_step()\nserve(143)', 'worker0': 'leave(1)'}, terminate_seconds=0.1)
    assert 'worker 0 failed; in 0.1 s, tasks that still run will be stopped.' in caplog.messages
    assert caplog.messages[-1] == 'stopped: chief; failed: worker 0; loss = 0.5, step = 7'
    with pytest.raises(RunError, match='^worker 0 failed: exit code 1 '):
        launch({'chief0': 'resist()', 'worker0': 'leave(1)'}, terminate_seconds=0, kill_seconds=0.1)


def test_a_signal_is_passed_on_and_a_stopped_evaluator_stops_nobody(launch, caplog):
    class Stop(StopOnSignal):
        polls = 0

        @property
        def received(self):
            self.polls += 'stopped: evaluator 0' in caplog.text
            if self.polls > 4:  # Longer than the wait for a lost task.
                self.hear(signal.SIGINT)
            return super().received

    twice = 'lambda *unused: os._exit(1)'  # Would be too many.
    chief = f'def end(*unused):\n  signal.signal(2, {twice})\n  time.sleep(0.5)\n  sys.exit(130)\nwait_for("there")\n'
    chief += 'signal.signal(2, end)\nserve(1)'
    worker = 'signal.signal(2, lambda *unused: sys.exit(1))\ntouch("there")\nwait_for("never")'  # Loses the chief.
    tasks = {'chief0': chief, 'worker0': worker, 'evaluator0': 'leave(143)'}
    assert raised(SystemExit, launch, tasks, stop=Stop(), terminate_seconds=0) == '130'
    assert 'SIGINT: stopping all tasks after saving a checkpoint; rerun the command to resume.' in caplog.messages


@pytest.mark.parametrize(
    'code, tasks',
    [
        (143, {'chief0': 'serve(143)', 'worker0': 'leave(143)'}),  # Before the first step, the chief is not notified.
        (129, {'chief0': 'log_a_step()\nserve(129)', 'worker0': 'leave(143)', 'ps0': ''}),  # Nor in steps with servers.
        (143, {'chief0': 'touch("ready")\nwait_for("never")', 'worker0': 'leave(143)'}),  # By SIGTERM itself.
        (143, {'chief0': 'serve(143)', 'worker0': 'leave(143, "both")', 'ps0': RESISTS}),  # The server has lost the chief.
        (143, {'chief0': SAVES, 'worker0': 'leave(143, "both")', 'evaluator0': 'serve(143)'}),  # The chief saves a checkpoint.
    ],
)
def test_a_stopped_task_stops_those_not_notified(launch, code, tasks):
    assert raised(SystemExit, launch, tasks, terminate_seconds=0.1) == str(code)


def test_the_tasks_stop_when_their_launcher_is_killed(train):
    code = f'import sys; sys.path.insert(0, {ROOT!r}); import subprocess; from tests import forked; '
    code += 'from estimator_trainer.common.commands import trainer; subprocess.Popen = forked.Popen; trainer.main(sys.argv)'

    def popen(command, **options):
        return forked.Popen([sys.executable, '-c', code, *command[2:]], **options)

    run = train(1, '--train_steps=1000', '--local_cluster=chief:1,evaluator:1', environ={'TINY_SECONDS': '0.1'}, popen=popen)
    run.wait_for_step('chief0', 1)
    run.kill()
    wait_until(lambda: 'SIGTERM: stopping after saving a checkpoint' in logged(run.output_dir, 'chief'))


def test_a_cluster_that_loses_a_task_restarts_and_ends_with_the_same_result(run, tiny_dir, tmp_path, monkeypatch):
    processes, expected, found = [], tmp_path / 'expected', tmp_path / 'found'
    flags = (*FLAGS, f'--data_dir={tiny_dir}', '--save_checkpoints_steps=5', '--eval_every_steps=50')

    class Popen(forked.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            processes.append(self)

    def kill():
        wait_until((found / 'model.ckpt-5.index').exists)
        processes[3].kill()

    monkeypatch.setattr(subprocess, 'Popen', Popen)
    code, result, err = run(*flags, '--local_cluster=worker:2', output_dir=expected)
    assert code == 0, err
    assert result == json.loads((expected / 'results.json').read_text()) and result['global_step'] == STEPS
    assert 'Saving dict for global step 50' in logged(expected, 'worker-0')
    assert 'loss = ' not in logged(expected, 'worker-1')

    monkeypatch.setenv('TINY_SECONDS', '1')
    threading.Thread(target=kill, daemon=True).start()
    code, result, err = run(*flags, '--local_cluster=worker:2', '--restarts=1', output_dir=found)
    assert code == 0 and result == json.loads((expected / 'results.json').read_text()), err
    assert [process.returncode for process in processes] == [0, 0, 1, -signal.SIGKILL, 0, 0]
    assert 'worker 1 failed: was killed by SIGKILL ' in err and 'restarting all tasks (restart 1 of 1).' in err
    assert_equal(read_weights(found), read_weights(expected))
    kept = [json.loads((path / 'flags.json').read_text())['local_cluster'] for path in (found, expected)]
    assert kept == ['worker:2', 'worker:2']


def test_tasks_are_counted_by_job_get_a_gpu_each_if_there_are_enough_and_invalid_clusters_are_rejected():
    assert local_tasks.parse('evaluator:1,worker:12,chief:1') == {'evaluator': 1, 'worker': 12, 'chief': 1}
    assert local_tasks.parse('worker:64') == {'worker': 64} and local_tasks.parse('worker:1,ps:1') == {'worker': 1, 'ps': 1}
    for text, message in {
        **dict.fromkeys(['worker', 'worker:0', 'worker:2,', 'worker:1,worker:2'], ' must list jobs'),
        'boss:2': ' must list jobs, each once, .*; the jobs are: chief, worker, ps, evaluator$',
        **dict.fromkeys(['ps:2,evaluator:1', 'ps:1'], ': none of its tasks trains: add workers'),
        'chief:2': ': a cluster has at most one chief',
        'worker:2,evaluator:2': ': a cluster has at most one evaluator',
        'worker:65': ': 65 processes are too many for one machine: at most 64',
        'worker:1': ': one task is not a cluster',
    }.items():
        assert re.match(f'--local_cluster={text}{message}', refused(local_tasks.parse, text))
    assert local.share_gpus(2, 3, '') == [{'CUDA_VISIBLE_DEVICES': '0'}, {'CUDA_VISIBLE_DEVICES': '1'}]
    assert local.share_gpus(2, 2, '5,3') == [{'CUDA_VISIBLE_DEVICES': '5'}, {'CUDA_VISIBLE_DEVICES': '3'}]
    assert local.share_gpus(2, 1, '') == local.share_gpus(2, 0, '-1') == [{}, {}]


def test_the_launcher_starts_over_after_a_dry_run_and_its_tasks_do_not(run, trained_run, monkeypatch):
    output, seen = trained_run('polynomial'), []
    saved = (output / 'hparams.json').read_text()
    flags = (*POLYNOMIAL, '--local_cluster=worker:2', '--overwrite', '--seed=3')
    monkeypatch.setattr(local, 'run', lambda command, *_: seen.append((command, sorted(os.listdir(output)))) or {})
    with monkeypatch.context() as patch:
        patch.setattr(local, 'rehearse', failed := mock.Mock(side_effect=UsageError('a mistake')))
        assert run(*flags)[0] == 2 and not seen and (output / 'hparams.json').exists()
    monkeypatch.setattr(local, 'rehearse', mock.Mock())
    assert run(*flags)[0] == 0
    ((command, names),) = seen
    assert (
        '--seed=3' in command
        and '--overwrite' not in command
        and all(name.endswith(('.lock', 'provenance.jsonl')) for name in names)
    )
    assert failed.call_args[0][:2] == local.rehearse.call_args[0][:2] == (command, {'worker': 2})
    assert run(*flags)[0] == 0
    local.rehearse.assert_called_once()  # There was nothing left to delete.
    (output / 'hparams.json').write_text(saved)
    code, _, err = run(*flags, '--hparams=momentum=0.5', '--override_hparams=learning_rate=0.5')
    assert code == 0, err
    assert [text for text in local.rehearse.call_args[0][0] if 'hparams=' in text] == [
        '--hparams=momentum=0.5',
        '--override_hparams=learning_rate=0.5',
    ]
    dry_run = ('--schedule=dry_run', '--override_hparams=learning_rate=0.5,batch_size=50')
    assert run(*POLYNOMIAL, *dry_run)[0] == 0


def test_a_run_goes_on_with_the_tasks_that_it_had_unless_told_otherwise(run, trained_run, monkeypatch):
    output, started = trained_run('polynomial'), mock.Mock(return_value={})
    path = output / 'flags.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), 'local_cluster': 'chief:1,worker:2'}))
    monkeypatch.setattr(local, 'run', started)
    for given, counts in (
        ((), {'chief': 1, 'worker': 2}),
        (POLYNOMIAL, {'chief': 1, 'worker': 2}),
        (['--local_cluster=worker:2'], {'worker': 2}),
        (['--local_cluster='], None),
        (['--schedule=dry_run'], None),
        (['--schedule=evaluate'], None),
        ([*POLYNOMIAL, '--overwrite', '--train_steps=1'], None),
    ):
        started.reset_mock()
        code, _, log = run(*given)
        assert code == 0 and (started.call_args and started.call_args[0][1]) == counts
        is_taken = counts and '--local_cluster=worker:2' not in given
        assert ('From the run: --local_cluster=chief:1,worker:2; --local_cluster= goes on in one' in log) == bool(is_taken)
    path.write_text('{"local_cluster": ["worker:2"]}')
    code, _, err = run()
    assert code == 2 and 'flags.json: local_cluster: ' in err


def test_the_dry_run_is_of_the_chief_alone_and_its_mistakes_are_told(tmp_path):
    code = """
assert json.loads(os.environ['TF_CONFIG'])['task'] == {'type': 'worker', 'index': 0} and '--schedule=dry_run' in sys.argv
(output,) = [argument.partition('=')[2] for argument in sys.argv if argument.startswith('--output_dir=')]
assert not os.path.exists(output)
"""
    for end, expected in (
        ('', None),
        ('sys.exit("trainer.py: no")', RunError),
        ('print("trainer.py: no", file=sys.stderr); leave(2, "/")', UsageError),
    ):
        tasks = json.dumps({'worker0': code + end, 'ps0': '', 'worker1': ''})
        with pytest.raises(expected, match='^no$') if expected else contextlib.nullcontext():
            local.rehearse([FAKE, str(tmp_path), tasks], {'ps': 1, 'worker': 2}, StopOnSignal())


def test_mistakes_are_found_before_anything_is_started(run, tmp_path, monkeypatch):
    code, _, err = run(*POLYNOMIAL, '--local_cluster=worker:2', '--hparams=batch_sise=3')
    assert code == 2 and err.startswith('trainer.py: --hparams: unknown hyper-parameter batch_sise')
    monkeypatch.setenv('TF_CONFIG', tf_config({'worker': ['a:1', 'b:1']}, 'worker'))
    code, _, err = run(*POLYNOMIAL, '--local_cluster=worker:2')
    assert code == 2 and 'TF_CONFIG or Slurm describes a cluster, but --local_cluster runs on one machine' in err
    assert list(tmp_path.iterdir()) == []

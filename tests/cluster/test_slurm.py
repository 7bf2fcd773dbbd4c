"""Job steps of a real Slurm: addresses, ports, lists of hosts, and training."""

import json
import sys

import pytest

from estimator_trainer.common.cluster.slurm_lists import expand_hosts
from tests.cluster.conftest import FLAGS
from tests.shared import ROOT, assert_equal, read_weights

PROBE = """
import json, os
from estimator_trainer.common.cluster import tf_config

found = tf_config.read(os.environ)
print(json.dumps([found.index, found.addresses['worker'], os.environ['SLURMD_NODENAME']]))
"""


@pytest.mark.parametrize(
    'flags',
    [
        ('--nodes=2',),
        ('--nodes=2', '-m', 'cyclic'),
        ('--nodes=2', '-m', 'plane=2'),
        ('-w', 'n2'),
        ('-w', './hosts', '-m', 'arbitrary'),
    ],
)
def test_each_task_of_a_step_has_an_address_of_its_own_on_its_host_however_tasks_are_distributed(slurm, tmp_path, flags):
    (tmp_path / 'hosts').write_text('n2\nn1\nn2\nn2\n')
    printed = slurm.run('srun', '--ntasks=4', *flags, sys.executable, '-c', PROBE, cwd=tmp_path)
    found = [json.loads(line) for line in printed.splitlines()]
    assert sorted(index for index, _, _ in found) == [0, 1, 2, 3]
    (addresses,) = {tuple(addresses) for _, addresses, _ in found}
    assert len({*addresses}) == 4
    assert all(addresses[index].startswith(f'{host}:') for index, _, host in found)


def test_lists_of_hosts_are_those_of_scontrol(slurm):
    for text in ('n[1-2]', 'rack[1-2]n[1-2]', 'n[01-10,12]', 'a,n[9-10],m-[08-10],b', 'gpu-02'):
        assert expand_hosts(text) == slurm.run('scontrol', 'show', 'hostnames', text).split()


def test_jobs_of_an_array_train_on_the_same_hosts_at_the_same_time(slurm, tiny_dir, tmp_path):
    flags = [*FLAGS, f'--data_dir={tiny_dir}', '--schedule=train']
    script = f"""#!/bin/sh
        touch {tmp_path}/$SLURM_ARRAY_TASK_ID
        until [ -e {tmp_path}/0 ] && [ -e {tmp_path}/1 ]; do sleep 0.1; done
        exec srun -m cyclic {sys.executable} trainer.py {' '.join(flags)} --output_dir={tmp_path}/output-$SLURM_ARRAY_TASK_ID
        """
    log = f'--output={tmp_path}/%a.log'
    ended = slurm.submit('--array=0-1', '--nodes=2', '--ntasks-per-node=1', log, input=script, cwd=ROOT)
    assert ended == [('COMPLETED', '0:0')] * 2, (tmp_path / '0.log').read_text()
    first, second = (read_weights(tmp_path / f'output-{i}') for i in range(2))
    assert_equal(first, second)

"""The files of deploy/ are valid, and fit the trainer, as do the benchmarks."""

import configparser
import glob
import importlib
import os
import subprocess

import pytest
import yaml

from estimator_trainer.common.commands import flags as run_flags
from tests.shared import ROOT

DEPLOY = os.path.join(ROOT, 'deploy')


def parse(replica):
    (container,) = replica['template']['spec']['containers']
    FLAGS = run_flags.define()
    FLAGS(['trainer.py', *container['args']])
    run_flags.check(FLAGS)
    return FLAGS


@pytest.mark.parametrize('name', ['tfjob.yaml', 'tfjob_evaluator.yaml'])
def test_the_replicas_of_a_tfjob_run_the_trainer_on_shared_storage_and_the_chief_or_an_evaluator_evaluates(name):
    with open(os.path.join(DEPLOY, name)) as file:
        manifests = {document['kind']: document for document in yaml.safe_load_all(file)}
    job = manifests['TFJob']['spec']
    replicas = job['tfReplicaSpecs']
    assert {'Chief', 'Worker'} <= replicas.keys() <= {'Chief', 'Worker', 'Evaluator'}
    assert replicas['Chief']['template'] == replicas['Worker']['template']
    assert [replicas[name]['replicas'] for name in replicas if name != 'Worker'] == [1] * (len(replicas) - 1)
    batch_size = int(parse(replicas['Chief']).hparams.partition('batch_size=')[2])
    assert batch_size % (1 + replicas['Worker']['replicas']) == 0
    for replica in replicas.values():
        assert replica['restartPolicy'] == 'OnFailure'  # It restarts after exit code 1, too.
        spec = replica['template']['spec']
        (container,) = spec['containers']
        assert container['name'] == 'tensorflow'  # The operator gives TF_CONFIG to no other.
        assert container['resources']['requests'] and container['resources']['limits']
        (mount,), (volume,) = container['volumeMounts'], spec['volumes']
        assert mount['name'] == volume['name'] and 'persistentVolumeClaim' in volume
        assert all(parse(replica)[name].value.startswith(mount['mountPath'] + '/') for name in ('output_dir', 'data_dir'))
    # Only the pods of a job may connect to each other.
    pods = {'matchLabels': {'training.kubeflow.org/job-name': manifests['TFJob']['metadata']['name']}}
    policy = manifests['NetworkPolicy']['spec']
    assert policy == {'podSelector': pods, 'policyTypes': ['Ingress'], 'ingress': [{'from': [{'podSelector': pods}]}]}
    schedules = {name: parse(replica).schedule for name, replica in replicas.items()}
    if 'Evaluator' not in schedules:
        assert schedules == dict.fromkeys(['Chief', 'Worker'], 'train_and_evaluate')
        return
    assert schedules == {'Chief': 'train', 'Worker': 'train', 'Evaluator': 'continuous_eval'}
    assert job['runPolicy']['cleanPodPolicy'] == 'None'  # Else the operator deletes it when the chief has ended.
    chief, evaluator = (parse(replicas[name]) for name in ('Chief', 'Evaluator'))
    assert all(chief[name].value == evaluator[name].value for name in ('model', 'dataset', 'hparams', 'output_dir', 'data_dir'))


@pytest.mark.parametrize('codes, last, count', [([1, 137, 0], 0, 3), ([143, 0], 143, 1), ([2, 0], 2, 1), ([*[1] * 5, 0], 1, 5)])
def test_the_slurm_script_starts_again_if_a_task_was_lost_and_passes_flags_on(codes, last, count, tmp_path):
    activate, srun = tmp_path / '.venv/bin/activate', tmp_path / 'bin/srun'
    for path in (activate, srun):
        path.parent.mkdir(parents=True)
    activate.write_text('')
    srun.write_text('#!/bin/bash\necho "$*" >> calls\nread -r code < codes\nsed -i 1d codes\nexit "$code"\n')
    srun.chmod(0o755)
    (tmp_path / 'codes').write_text(''.join(f'{code}\n' for code in codes))
    environ = {**os.environ, 'SLURM_SUBMIT_DIR': str(tmp_path), 'PATH': f'{srun.parent}:{os.environ["PATH"]}'}
    command = ['bash', f'{DEPLOY}/slurm.sh', '--model=mlp', '--hparams=hidden_units=[2, 3]']
    assert subprocess.run(command, env=environ, stderr=subprocess.PIPE).returncode == last
    calls = (tmp_path / 'calls').read_text().splitlines()
    assert len(calls) == count
    options, _, program = calls[0].partition(' python ')
    assert {'--kill-on-bad-exit=0', '--wait=0'} <= {*options.split()}  # It never lets srun kill tasks.
    assert program == 'trainer.py --model=mlp --hparams=hidden_units=[2, 3]'


def test_an_image_gets_what_setup_cfg_installs_and_nothing_else():
    with open(os.path.join(ROOT, '.dockerignore')) as file:
        lines = file.read().splitlines()
    assert lines[1] == '*'
    config = configparser.ConfigParser()
    config.read(os.path.join(ROOT, 'setup.cfg'))
    packages = {name.removeprefix('estimator_trainer.').split('.')[0] for name in config['options']['packages'].split()}
    files = {'setup.cfg', 'pyproject.toml', 'README.md', 'LICENSE', 'tf_estimator'}
    assert {line[1:] for line in lines if line.startswith('!')} == packages | files


@pytest.mark.parametrize('name', [os.path.basename(path)[:-3] for path in glob.glob(f'{ROOT}/benchmarks/*.py')])
def test_every_benchmark_finds_what_it_imports(name):
    importlib.import_module(f'benchmarks.{name}')

"""Trains the sample models of EasyRec with small data, unchanged; prints what happened to each.

    pip install future grpcio-tools oss2 pandas psutil PyYAML scikit-learn tensorflow-probability
    python -m tools.compat.easy_rec [--source=https://github.com/{owner}/{name}] [--work=DIR] [MODEL...]

They are those of samples/model_config/MODEL_on_taobao.config: each is trained for 20 steps, evaluated and exported. `cluster`
trains multi_tower by a chief, a worker, a parameter server and an evaluator. Exits with 1 if one fails.
"""

import json
import os
from pathlib import Path
import random
import re
import subprocess
import sys
import tempfile

from estimator_trainer.common.cluster.local import held_addresses
from tools.compat.programs import RAN, argument_parser, check_names, checkout, last_line

COMMIT = 'bd230cb'
CLUSTER = 'cluster'
MODELS = (
    'aitm autoint bst cdn dbmtl dcn deppfm_seq_attn din dlrm dropoutnet dssm esmm fibinet fm masknet mind mmoe multi_tower pdn '
    'ple ppnet simple_multi_task'
).split()
_OF_TENSORFLOW_1 = ('deppfm_seq_attn',)  # Its layer calls tf.layers.
_EDITS = json.dumps(
    {
        'train_config.num_steps': 20,
        'train_config.save_checkpoints_steps': 10,
        'data_config.batch_size': 128,
        'data_config.num_epochs': 0,  # Without end, or nothing is exported.
    }
)
_COLUMN = re.compile(r'input_name:\s*[\'"](\w+)[\'"]\s+input_type:\s*(\w+)')
_PATH = re.compile(r'(?:train|eval)_input_path:\s*[\'"]([^\'"]+)')
_TIME_LIMIT = 600  # Seconds.


def main() -> None:
    arguments = argument_parser(__doc__, 'programs', metavar='MODEL').parse_args()
    check_names(arguments.names, {*MODELS, CLUSTER})
    folder = checkout(arguments.work.resolve(), arguments.source, 'alibaba/EasyRec', COMMIT)
    protos = [str(path.relative_to(folder)) for path in sorted(folder.glob('easy_rec/python/protos/*.proto'))]
    subprocess.run([sys.executable, '-m', 'grpc_tools.protoc', '-I.', '--python_out=.', *protos], cwd=folder, check=True)
    outcomes = []
    for name in arguments.names or [*MODELS, CLUSTER]:
        config = folder / 'samples' / 'model_config' / f'{"multi_tower" if name == CLUSTER else name}_on_taobao.config'
        _write_data(folder, config.read_text())
        with tempfile.TemporaryDirectory() as out, held_addresses({'chief': 1, 'worker': 1, 'ps': 1}) as jobs:
            outcomes.append(_run(_cluster(jobs) if name == CLUSTER else {'train': {}}, folder, config, out))
        print(f'| {name} | {outcomes[-1]} |', flush=True)
    print(f'{outcomes.count(RAN)} of {len(outcomes)} ran')
    sys.exit(int(outcomes.count(RAN) < len(outcomes)))


def _write_data(folder, config):
    """Writes random tables for the paths in a configuration."""
    columns = _COLUMN.findall(config)
    for path in {folder / each for paths in _PATH.findall(config) for each in paths.split(',')}:
        path.parent.mkdir(parents=True, exist_ok=True)
        rng = random.Random(path.name)
        path.write_text(''.join(','.join(_value(rng, *column) for column in columns) + '\n' for _ in range(1000)))


def _value(rng, name, kind):
    if name in ('clk', 'buy'):
        return str(rng.randrange(2))
    if name.startswith('tag_') or name.endswith(('_seq', '_rnk')):  # Of the same length, as they are joined.
        return '|'.join(str(rng.randrange(50)) for _ in range(rng.randrange(1, 5)))
    return f'{rng.random():.3f}' if kind in ('FLOAT', 'DOUBLE') else str(rng.randrange(50))


def _start(folder, config, out, log, **environment):
    flags = ['--tf1'] if config.name.startswith(_OF_TENSORFLOW_1) else []
    command = [sys.executable, '-m', 'tf_estimator', *flags, '-m', 'easy_rec.python.train_eval']
    return subprocess.Popen(
        [*command, f'--pipeline_config_path={config}', f'--model_dir={out}/model', '--edit_config_json', _EDITS],
        cwd=folder,
        env={**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '2', **environment},
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def _cluster(jobs):
    """Returns the environments of the tasks at these addresses and of an evaluator, {job: variables}."""
    return {
        job: {'TF_CONFIG': json.dumps({'cluster': jobs, 'task': {'type': job, 'index': 0}})} for job in (*jobs, 'evaluator')
    }


def _run(environments, folder, config, out):
    """Runs processes, {name: environment}; returns 'ran' if all end with 0, or the last line of one that does not."""
    processes = {}
    for name, environment in environments.items():
        with Path(out, name).open('wb') as log:
            processes[name] = _start(folder, config, out, log, **environment)
    try:
        failed = [name for name, process in processes.items() if process.wait(_TIME_LIMIT)]
    except subprocess.TimeoutExpired:
        return f'did not end in {_TIME_LIMIT} s'
    finally:
        for process in processes.values():
            process.kill()
    for name in failed:
        return f'{name}: {last_line(Path(out, name).read_text(errors="replace"))}'
    return RAN if list(Path(out).glob('model/export/*/*/saved_model.pb')) else 'has no export'


if __name__ == '__main__':
    main()

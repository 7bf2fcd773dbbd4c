"""Checks the trainer on GPUs, against a CPU and beside PyTorch, within ten minutes: python -m tools.gpu_check [--devices=cpu]

Requires no data. Prints a table, and writes it to gpu_check.md, with versions and names of GPUs; please attach that file to an
issue: the project's own machines have no GPU. Without GPUs, the CPU shows that the checks themselves work.

- Weights after 20 steps of a smooth network, from the same start, are compared with those of a CPU: in NCHW, in float16 with
  loss scaling, compiled by XLA, and on two GPUs, in one process and in two.
- NCCL, which the trainer does not use, sums a vector over two GPUs.
- Speeds are of AlexNet on generated pictures in batches of 512, beside that of PyTorch on one device, if it is installed.

Exits with 1 if a check fails, or differs by more than its tolerance; tools/gpu_check/checks.py gives its reason.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
import platform
import shutil
import subprocess
import sys
import tempfile

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow as tf

from benchmarks.processes import instruction_sets
import estimator_trainer
from tools.gpu_check import pictures
from tools.gpu_check.checks import make_checks
from tools.gpu_check.execution import Execution
from tools.gpu_check.table import HEADER, Row, make_row, markdown

_WIDTHS = (30, 10, 7, 18, 15)
_QUERY = ('nvidia-smi', '--query-gpu=name,memory.total,driver_version', '--format=csv,noheader')


def _print(cells):
    print('  '.join([*(cell.ljust(width) for cell, width in zip(cells, _WIDTHS)), cells[-1]]), flush=True)


def listed_gpus() -> list[str]:
    """Returns a line for each GPU of NVIDIA's driver: name, memory, driver."""
    try:
        return subprocess.run(_QUERY, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []


def describe_machine(gpus: int) -> Mapping[str, str]:
    """Returns facts about the machine and the versions; `gpus` are used."""
    build = tf.sysconfig.get_build_info()
    return {
        'devices': f'{gpus} GPUs' if gpus else 'the CPU',
        'GPUs by the driver': '; '.join(listed_gpus()) or 'none',
        'processor': f'{platform.machine()}, {instruction_sets()}',
        'system': f'{platform.system()} {platform.release()}, Python {platform.python_version()}',
        'estimator-trainer': estimator_trainer.__version__,
        'TensorFlow': f'{tf.__version__}, CUDA {build.get("cuda_version", "none")}, cuDNN {build.get("cudnn_version", "none")}',
    }


def count_gpus(devices: str) -> int:
    """Returns how many GPUs to use, by --devices; says why if there are none.

    Raises:
      SystemExit: --devices=gpu without GPUs.
    """
    found = 0 if devices == 'cpu' else len(tf.config.list_physical_devices('GPU'))
    if found or devices == 'cpu':
        return found
    reason = 'TensorFlow sees no GPU'
    if listed_gpus():
        reason += ", but NVIDIA's driver lists some: install tensorflow[and-cuda], see docs/install.md"
    if devices == 'gpu':
        sys.exit(f'--devices=gpu: {reason}')
    print(f'{reason}: the checks run on the CPU.\n')
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--devices', choices=['auto', 'gpu', 'cpu'], default='auto')
    parser.add_argument('--output', type=Path, default=Path('gpu_check.md'), help='the file to write')
    options = parser.parse_args()
    gpus = count_gpus(options.devices)
    facts = describe_machine(gpus)
    for name, value in facts.items():
        print(f'{name}: {value}')
    print()
    rows: list[Row] = []
    try:
        options.output.write_text(markdown(facts, rows), encoding='utf-8')
    except OSError as error:
        parser.error(f'--output={options.output}: {error.strerror}')
    directory = tempfile.mkdtemp(prefix='gpu_check')
    pictures.write(directory)
    execution = Execution(Path(directory), gpus)
    _print(HEADER)
    for check in make_checks(gpus):
        rows.append(make_row(check, gpus, execution))
        _print(rows[-1].cells)
        options.output.write_text(markdown(facts, rows), encoding='utf-8')
    print(f'\nPlease attach {options.output} to an issue of the project: its own machines have no GPU.')
    if not all(row.is_right for row in rows):
        sys.exit(f'Some checks have failed. The logs of all runs are in {directory}')
    shutil.rmtree(directory)


if __name__ == '__main__':
    main()

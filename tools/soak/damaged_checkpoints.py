"""Damages the files of checkpoints, one at a time, and resumes.

    python -m tools.soak.damaged_checkpoints

tries every checkpoint file of an output_dir, times {deleted, emptied, cut, flipped}; exit code 1 if one does not resume.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tests.shared import DAMAGES, ROOT
from tools.soak.bounded import end_after

STEPS = (0, 4, 8, 10)
FLAGS = [
    '--model=polynomial',
    '--dataset=polynomial',
    '--schedule=train',
    '--save_checkpoints_steps=4',
    '--hparams=learning_rate_schedule=constant',
]


FILES = [
    'checkpoint',
    *(f'model.ckpt-{step}.{suffix}' for step in STEPS for suffix in ('index', 'data-00000-of-00001', 'meta')),
]


def train(directory, steps):
    """Trains in a separate process and returns its log."""
    process = subprocess.run(
        [sys.executable, os.path.join(ROOT, 'trainer.py'), *FLAGS, f'--output_dir={directory}', f'--train_steps={steps}'],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        raise AssertionError(process.stderr[-2000:])
    return process.stderr


def goes_on(whole, expected, name, damage):
    """Damages a file in a copy of an output_dir and resumes.

    Args:
      whole: pathlib.Path, an output_dir with checkpoints of STEPS.
      expected: bytes, the weights at step 12.
      name: str, one of FILES.
      damage: str, one of DAMAGES.

    Returns:
      Whether the run resumed from the latest intact checkpoint, named the corrupt one, and ended with the expected weights.
    """
    step = re.search(r'-(\d+)\.(index|data)', name)
    latest_intact = 8 if step and int(step[1]) == 10 else 10
    with tempfile.TemporaryDirectory() as parent:
        output = pathlib.Path(parent) / 'output'
        shutil.copytree(whole, output)
        DAMAGES[damage](output / name)
        log = train(output, 12)
        return (
            f'Restoring parameters from {output}/model.ckpt-{latest_intact}\n' in log
            and (latest_intact == 10 or f'{output}/model.ckpt-10: is corrupt or incomplete.' in log)
            and (output / 'model.ckpt-12.data-00000-of-00001').read_bytes() == expected
        )


def main():
    end_after(30)
    with tempfile.TemporaryDirectory() as parent:
        whole, undisturbed = pathlib.Path(parent) / 'whole', pathlib.Path(parent) / 'undisturbed'
        train(whole, 10)
        train(undisturbed, 12)
        expected = (undisturbed / 'model.ckpt-12.data-00000-of-00001').read_bytes()
        cases = [(name, damage) for name in FILES for damage in DAMAGES]
        failed = [case for case in cases if not goes_on(whole, expected, *case)]
    print(json.dumps({'files': len(cases), 'resumed': len(cases) - len(failed), 'failed': failed}))
    sys.exit(int(bool(failed)))


if __name__ == '__main__':
    main()

"""What checkpoints of a gigabyte cost a training that evaluates them.

    python -m benchmarks.large_checkpoints

A perceptron of 253 million weights trains on MNIST for 24 steps, and saves and evaluates a checkpoint every 8 steps. By
Python's profiler, the time that this takes beyond the forward passes is compared with that of an epoch, after which a training
saves and evaluates by default.
"""

import cProfile
import math
import os
import pstats
import tempfile

import tf_estimator  # noqa: F401 - before TensorFlow

from tensorflow.python.training import monitored_session

from estimator_trainer.common.commands import api
from estimator_trainer.common.inference import evaluator
from estimator_trainer.common.storage import best_checkpoint, restore
from estimator_trainer.common.training import saving

STEPS, EVERY = 24, 8
EPOCH = math.ceil(60000 / 128)
HPARAMS = {'hidden_units': [15500, 15500], 'num_classes': 10, 'optimizer': 'sgd', 'batch_size': 128}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        options = {'train_steps': STEPS, 'save_checkpoints_steps': EVERY, 'eval_steps': 1, 'data_dir': directory}
        profile = cProfile.Profile()
        profile.runcall(api.train, 'mlp', 'mnist', os.path.join(directory, 'output'), hparams=HPARAMS, **options)
    seconds = {(os.path.basename(file), name): found[3] for (file, _, name), found in pstats.Stats(profile).stats.items()}

    def total(module, function):
        return seconds[os.path.basename(module.__file__), function.__name__]

    in_steps = total(monitored_session, monitored_session._MonitoredSession.run)
    saved_and_evaluated = total(saving, saving.CheckpointSaver._save)
    evaluated = total(evaluator, evaluator.Evaluator.evaluate)
    restored = total(restore, restore.restore)
    kept = total(best_checkpoint, best_checkpoint.keep_if_best)
    count = STEPS // EVERY
    save = (saved_and_evaluated - evaluated - kept) / (count + 1)
    step = (in_steps - (saved_and_evaluated - save)) / STEPS  # One is saved before the first step.
    others = (restored + kept) / count
    print('| what | seen |\n| --- | --- |')
    print(f'| a step, s | {step:.2f} |')
    print(f'| saving a checkpoint, s | {save:.2f} |')
    print(f'| loading it for the evaluation, and keeping it if it is the best, s | {others:.2f} |')
    print(f'| an epoch of {EPOCH} steps with these, relative to one without | {1 + (save + others) / (EPOCH * step):.3f} |')


if __name__ == '__main__':
    main()

"""What the forkserver of tests/forked.py imports before it forks."""

import gc
import os

os.environ['OPENBLAS_NUM_THREADS'] = '1'  # NumPy would start threads, which a fork does not have.

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy.random  # noqa: F401 - NumPy imports it when it is first used.

from estimator_trainer.common import console  # noqa: F401
from estimator_trainer.common.commands import report, request, sweep_request  # noqa: F401

# Graphs have many objects, which the collector would go through again and again, and a fork would copy.
gc.freeze()
gc.set_threshold(100_000, 20, 20)

"""Imports of the forkserver of tests/forked.py before it forks."""

import gc
import os

os.environ['OPENBLAS_NUM_THREADS'] = '1'  # NumPy would start threads, which a fork does not have.

import estimator_trainer  # noqa: F401 - before TensorFlow, which it makes use oneDNN
import tf_estimator  # noqa: F401 - before TensorFlow

import numpy.random  # noqa: F401 - NumPy imports it when it is first used.

from estimator_trainer.common import console  # noqa: F401
from estimator_trainer.common.commands import report, request, sweep_request  # noqa: F401

# The collector would repeatedly traverse the many objects of graphs, and a fork would copy them.
gc.freeze()
gc.set_threshold(100_000, 20, 20)

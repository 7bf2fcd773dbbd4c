"""Starts programs in processes of their own, in which nothing of the tests' TensorFlow is set up, and reads what they say."""

import json
import os
import re
import subprocess
import sys

import tf_estimator  # noqa: F401 - before TensorFlow

import pytest
import tensorflow as tf

from tests.shared import ROOT

SCRIPTS = os.path.join(ROOT, 'tests', 'scripts')
MINOR = int(tf.__version__.split('.')[1])
RESTORED = MINOR > 15
not_on_2_15 = pytest.mark.skipif(not RESTORED, reason='TensorFlow 2.15 has tf.estimator itself: nothing is restored')

# What the libraries of TensorFlow 2.17 to 2.20 write when a session or a server starts: no log level reaches it.
UNREACHABLE = (
    r'WARNING: All log messages before absl::InitializeLog\(\)|I0000 .*(MLIR V1|Started server with target)'
    if 17 <= MINOR <= 20
    else '$.'
)

# StepCounterHook reads the global step in the same run that increments it, in no fixed order, and warns when it reads the same
# step twice in a row: under load, one run reads it late and the next one early.
STEP_RACE = r'WARNING:tensorflow:It seems that global step \(tf\.train\.get_global_step\) has not been increased\.'


def launch(*arguments, cwd=None, stdin=None, **environment):
    """Starts Python with this project on PYTHONPATH; SIGINT does what it does in a terminal."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ('TF_CONFIG', 'TF_CPP_MIN_LOG_LEVEL', 'TF_USE_LEGACY_KERAS')
    }
    start = 'import os, signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nos.execv(sys.executable, sys.argv[1:])\n'
    return subprocess.Popen(
        [sys.executable, '-c', start, sys.executable, *arguments],
        cwd=cwd,
        text=True,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**kept, 'PYTHONPATH': ROOT, **environment},
    )


def finish(process, text=None, timeout=120):
    """Gives a process a text as stdin; returns its exit code, stdout and stderr; kills it if it does not end in time."""
    try:
        out, err = process.communicate(text, timeout=timeout)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


def run_script(script, *arguments, cwd=None):
    """Runs a script through `python -m tf_estimator`; returns its exit code, stdout and stderr."""
    return finish(launch('-m', 'tf_estimator', str(script), *arguments, cwd=cwd))


def unlike_info(err):
    """Returns the lines of stderr without the Estimator's own that are no cause for concern."""
    err = re.sub("'_session_config': .*?, '_keep", "'_keep", err, flags=re.DOTALL)  # A protobuf, over several lines.
    return [line for line in err.splitlines() if not re.match(f'INFO:tensorflow:|{STEP_RACE}|{UNREACHABLE}', line)]


def set_tf_config(monkeypatch, cluster, job, index=0):
    """Makes this process a task of a cluster, as far as TF_CONFIG does."""
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': cluster, 'task': {'type': job, 'index': index}}))

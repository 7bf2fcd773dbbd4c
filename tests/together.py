"""Python processes that work at the same time, for the tests of files that several of them write."""

import os
import sys
import time

from tests import forked
from tests.shared import ROOT

_PRELUDE = """
import os, sys, time
import tf_estimator  # noqa: F401 - before TensorFlow

def wait_for_the_others():
    open(sys.argv[1], 'w').close()
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.001)

arguments = sys.argv[3:]
"""


def run_together(tmp_path, code, *arguments):
    """Runs Python code in a process for each of `arguments`, lists, at once.

    It finds its own under the name `arguments`, as str, and calls `wait_for_the_others()` when it has imported all it needs.
    """
    go = tmp_path / 'go'
    ready = [tmp_path / f'ready-{i}' for i in range(len(arguments))]
    env = {**os.environ, 'PYTHONPATH': ROOT}
    commands = [[sys.executable, '-c', _PRELUDE + code, path, go, *map(str, words)] for path, words in zip(ready, arguments)]
    processes = [forked.Popen(command, env=env) for command in commands]
    try:
        while not all(path.exists() for path in ready):
            assert not any(process.poll() for process in processes)
            time.sleep(0.01)
        go.touch()
        assert [process.wait(120) for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()

"""Fake of trainer.py in a local cluster: fake_task.py DIRECTORY JSON runs the task's code in JSON."""

import json
import os
import pathlib
import signal
import sys
import time


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)


def touch(name):
    pathlib.Path(name).touch()


def log_a_step():
    print('loss = 0.5, step = 7', file=sys.stderr)


def serve(code):
    """Signals readiness, and exits with a code on SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *unused: touch('stopped') or sys.exit(code))
    touch('ready')
    wait_for('never')


def resist():
    """Signals readiness, and ignores SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    touch('ready')
    wait_for('never')


def leave(code, when='ready'):
    """Exits with a code once another task is ready."""
    wait_for(when)
    sys.exit(code)


task = json.loads(os.environ['TF_CONFIG'])['task']
os.chdir(sys.argv[1])
exec(json.loads(sys.argv[2])[f'{task["type"]}{task["index"]}'])

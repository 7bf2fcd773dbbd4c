"""Searches hyper-parameters; each trial is a run, and several run in parallel: python sweep.py --help"""

import signal

if __name__ == '__main__':  # Until StopOnSignal takes over, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import sys

from trainer import start

if __name__ == '__main__':
    start(['sweep', *sys.argv[1:]])

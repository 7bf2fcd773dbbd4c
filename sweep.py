"""Searches hyper-parameters; each trial is a run, and several run in parallel: python sweep.py --help"""

import os
import runpy
import sys

if __name__ == '__main__':  # As `python -m estimator_trainer sweep`, with the package of this checkout.
    sys.argv.insert(1, 'sweep')
    runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'estimator_trainer', '__main__.py'), {}, '__main__')

"""Trains a model on a dataset, evaluates it, predicts with it and exports it: python trainer.py --help"""

import os
import runpy

if __name__ == '__main__':  # As `python -m estimator_trainer`, with the package of this checkout.
    runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'estimator_trainer', '__main__.py'), {}, '__main__')

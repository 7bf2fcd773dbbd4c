"""Entry points: the command lines of the trainer and of the sweep, and the Python API."""

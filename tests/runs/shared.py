"""What the tests of the trainer share: command lines, and what a run leaves to read."""

import csv
import re

from tests.conftest import SMALL

POLYNOMIAL = ('--model=polynomial', '--dataset=polynomial')
MODELS = {'alexnet': SMALL, 'polynomial': POLYNOMIAL}


def losses(log):
    return {int(step): float(loss) for loss, step in re.findall(r'loss = (\S+), step = (\d+)', log)}


def without_log(err):
    """Returns the lines of stderr that the log has not written."""
    return [line for line in err.splitlines() if not re.match(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (INFO|WARNING) ', line)]


def rows(path):
    with open(path) as file:
        return list(csv.DictReader(file))

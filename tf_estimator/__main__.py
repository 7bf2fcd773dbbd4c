"""`python -m tf_estimator SCRIPT ARGS...` runs an old script unchanged."""

import sys

from tf_estimator.runner import run_script

if __name__ == '__main__':
    run_script(sys.argv[1:])

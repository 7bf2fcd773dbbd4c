"""`python -m tf_estimator`: see the command's --help."""

import sys

from tf_estimator.command import main

if __name__ == '__main__':
    main(sys.argv[1:])

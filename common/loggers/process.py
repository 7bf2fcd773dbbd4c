"""The process of a logger: python -m estimator_trainer.common.loggers.process MODULE

It reads calls of the logger's methods from stdin, and answers on stdout, a line of JSON each: see `monitoring.tracker`.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
from typing import Any

from estimator_trainer.common.loggers.interface import Run

_LAST_SECONDS = 60  # For the end of a run whose process was killed.


def _serve(path, lines, answers):
    logger: Any = None
    has_begun = False
    for line in lines:
        method, arguments = json.loads(line)
        try:
            if method == 'start':
                logger = importlib.import_module(path).Logger()
                arguments = [Run(**arguments[0])]
            result = getattr(logger, method)(*arguments)
            answer = {'id': str(result)} if method == 'start' else {}
            has_begun |= method == 'start'
        except (Exception, SystemExit) as error:
            answer = {'error': f'{type(error).__name__}: {error}'}
        with contextlib.suppress(BrokenPipeError):  # Then no other line comes.
            answers.write(json.dumps(answer).encode() + b'\n')
        if method == 'end':
            return
    signal.alarm(_LAST_SECONDS)
    if has_begun:
        logger.end('failed', 'the process of the training was killed', {})


def main() -> None:
    """Answers until the end of the run, or of the training's process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(10)  # The training's threads go first.
    with os.fdopen(os.dup(1), 'wb', buffering=0) as answers:
        os.dup2(2, 1)  # What libraries print.
        _serve(sys.argv[1], sys.stdin, answers)


if __name__ == '__main__':
    main()

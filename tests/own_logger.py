"""A logger for tests: writes its calls to FILE, and does what an environment variable says in one of its methods."""

import json
import os
import sys
import time


class Logger:
    def start(self, run):
        self._path = os.path.join(run.output_dir, 'own_logger.jsonl')
        self._put('start', run.id, run.name, run.group)
        return run.id or f'run {len(calls(run.output_dir, "start"))}'

    def log(self, step, metrics):
        self._put('log', step, dict(metrics))

    def end(self, state, reason, artifacts):
        self._put('end', state, reason, dict(artifacts))

    def _put(self, method, *arguments):
        print(f'{method}: chatter of a library')
        with open(self._path, 'a') as file:
            file.write(json.dumps([method, *arguments]) + '\n')
        fail_in, _, how = os.environ.get('OWN_LOGGER', '').partition(' ')
        if method == fail_in:
            _fail(how)


def _fail(how):
    if how == 'raise':
        raise ValueError('the server said:\nno')
    if how == 'sys.exit':
        sys.exit('no key')
    if how == 'os._exit':
        os._exit(3)
    time.sleep(1000)


def calls(output_dir, method):
    """Returns the arguments of the calls of a method, in their order."""
    with open(os.path.join(output_dir, 'own_logger.jsonl')) as file:
        found = [json.loads(line) for line in file]
    return [arguments for name, *arguments in found if name == method]

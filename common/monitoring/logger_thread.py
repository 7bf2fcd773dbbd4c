"""The thread that calls a logger, and the logger's process."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
import json
import os
import subprocess
import sys
import threading
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common import files
from estimator_trainer.common.errors import in_one_line

_MAX_ROWS = 10_000  # That wait for a logger.
_PAUSE = 60  # Seconds between calls of `start` that fail.


class Row(NamedTuple):
    """A log line, or the splits of an evaluation.

    Attributes:
      kind: 'training' or 'evaluation'.
      step: the global step.
      metrics: {name: number}, with the split in the names.
    """

    kind: str
    step: int
    metrics: Mapping[str, float]


class LoggerError(Exception):
    """What a logger has raised, or the end of its process."""


class LoggerThread(threading.Thread):
    """Calls a logger in the order of the rows; a logger that fails is one warning.

    Args:
      logger: the name of the logger.
      module: its module, see `loggers.interface`.
      run: the attributes of an `interface.Run`, without its id.
      path: of the file with the id of the tracked run, and with the last steps that it has of each kind of rows.
      earlier: rows to log first, ordered by step.
      begins: whether the run begins now, not with its first row.
    """

    def __init__(self, logger: str, module: str, run: Mapping[str, Any], path: str, earlier: Sequence[Row], begins: bool):
        super().__init__(name=f'logger {logger}', daemon=True)
        self._logger, self._module, self._run, self._path = logger, module, run, path
        self._changed = threading.Condition()  # For the following.
        self._rows: deque[Row] = deque(earlier)
        self._most = len(earlier) + _MAX_ROWS
        self._has_begun = begins
        self._end: tuple[Any, ...] | None = None
        self._lost = 0
        self._is_over, self._is_closed, self._has_warned = False, False, False
        self._process: _Process | None = None

    def add(self, row: Row) -> None:
        """Adds a row, without waiting."""
        with self._changed:
            is_full = len(self._rows) >= self._most
            if self._is_over or is_full:
                self._lost += 1
            else:
                self._has_begun = True
                self._rows.append(row)
                self._changed.notify()
        if is_full:
            self._warn(f'is slower than the training: {self._most} rows wait for it, and others are not logged meanwhile')

    def end(self, state: str, reason: str, artifacts: Mapping[str, str]) -> None:
        """Lets the logger end after the rows that wait."""
        with self._changed:
            self._end = state, reason, artifacts
            self._changed.notify()

    def close(self, seconds: float) -> None:
        """Waits for the end, for some seconds, ends the logger's process, and says what is not logged."""
        self.join(seconds)
        if self.is_alive():
            self._warn('has not taken all in time')
        with self._changed:
            lost, self._has_warned, self._is_closed = self._lost + len(self._rows), True, True
            if self._process:
                self._process.end()
        if lost:
            tf.logging.info('--loggers=%s: %d rows of metrics.csv were not logged.', self._logger, lost)

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # Of any library, and of the disk.
            self._warn(f'{error}; the training goes on without it')
        with self._changed:
            self._is_over = True

    def _work(self):
        with self._changed:
            self._changed.wait_for(lambda: self._has_begun or self._end)
        if not self._has_begun:
            return
        saved = files.read_json(self._path) if tf.io.gfile.exists(self._path) else {}
        process = _Process(self._module)
        with self._changed:
            self._process = process
            if self._is_closed:
                process.end()
                return
        saved['id'] = self._begin(process, saved.get('id'))
        self._save(saved)
        tf.logging.info('--loggers=%s: the tracked run is %s.', self._logger, saved['id'])
        for row in self._next_rows():
            if row.step > saved.get(row.kind, -1):
                self._log(process, row)
                saved[row.kind] = row.step
                self._save(saved)
        assert self._end
        process.call('end', *self._end)
        process.wait()

    def _begin(self, process, run_id):
        """Returns the id of the tracked run; as long as the logger fails, as without a server, asks it again later."""
        while True:
            try:
                return process.call('start', {**self._run, 'id': run_id})['id']
            except LoggerError as error:
                cure = f'; if the tracked run is gone, delete {self._path} to begin another' if run_id else ''
                if not process.is_alive():
                    raise
                self._warn(f'{error}{cure}; the training goes on, and the logger is asked again each minute')
                with self._changed:
                    if self._changed.wait_for(lambda: self._end, _PAUSE):
                        raise

    def _next_rows(self) -> Iterator[Row]:
        """Yields rows until there is none and the run has ended."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._rows or self._end)
                if not self._rows:
                    return
                row = self._rows.popleft()
            yield row

    def _log(self, process, row):
        try:
            process.call('log', row.step, row.metrics)
        except LoggerError as error:
            with self._changed:
                self._lost += 1
            if not process.is_alive():
                raise
            self._warn(f'{error}; the training goes on, without the rows that the logger does not take')

    def _save(self, saved):
        tf.io.gfile.makedirs(os.path.dirname(self._path))
        files.write_json(self._path, saved)

    def _warn(self, text):
        """Warns, but once."""
        with self._changed:
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            tf.logging.warning('%s', in_one_line(f'--loggers={self._logger}: {text}.'))


class _Process(subprocess.Popen):
    """The process of a logger, see `loggers.process`."""

    def __init__(self, module):
        super().__init__(
            [sys.executable, '-m', 'estimator_trainer.common.loggers.process', module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                'PYTHONPATH': os.pathsep.join(path or os.getcwd() for path in sys.path),
                'PYTHONSAFEPATH': '1',  # No other paths.
            },
            start_new_session=True,
        )

    def call(self, method, *arguments):
        """Returns the answer of a method; raises LoggerError if it is an error."""
        assert self.stdin and self.stdout
        try:
            self.stdin.write(json.dumps([method, arguments], default=str).encode() + b'\n')
            self.stdin.flush()
            text = self.stdout.readline()
        except OSError:
            text = b''
        if not text:
            raise LoggerError(f'its process has ended, with exit code {self.wait()}')
        answer = json.loads(text)
        if 'error' in answer:
            raise LoggerError(f'{method}: {answer["error"]}')
        return answer

    def is_alive(self):
        return self.poll() is None

    def end(self):
        self.kill()
        self.wait()

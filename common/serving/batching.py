"""Concurrent requests as one batch."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
import itertools
import queue
import threading
import typing
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

Arrays = Mapping[str, np.ndarray]


class Job(typing.NamedTuple):
    """A request's batch and the future of its predictions."""

    batch: Arrays
    future: Future[Arrays]


def size_of(batch: Arrays) -> int:
    """Returns the number of examples; where there are alternative inputs, all but one are empty."""
    return max(map(len, batch.values()))


def take(jobs: Sequence[Job], max_size: int) -> tuple[list[Job], list[Job]]:
    """Returns the jobs that run next, as one batch, and the others, in their order.

    The first runs, with later ones whose arrays have the same shapes, up to max_size examples.
    """
    form, size = _form(jobs[0].batch), size_of(jobs[0].batch)
    taken, others = [jobs[0]], list[Job]()
    for job in jobs[1:]:
        fits = _form(job.batch) == form and size + size_of(job.batch) <= max_size
        (taken if fits else others).append(job)
        size += size_of(job.batch) if fits else 0
    return taken, others


def _form(batch):
    return [(name, array.dtype, array.shape[1:], len(array) > 0) for name, array in batch.items()]


def merge(batches: Sequence[Arrays]) -> Arrays:
    """Returns one batch of several of the same shapes."""
    if len(batches) == 1:
        return batches[0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


class NotPerExample(Exception):
    """Predictions of a batch have no value per example."""


def split(found: Arrays, sizes: Sequence[int]) -> list[Arrays]:
    """Returns the predictions of each batch of a merged one; raises NotPerExample if some have no value per example."""
    for name, array in found.items():
        if np.shape(array)[:1] != (sum(sizes),):
            raise NotPerExample(f'the prediction {name} has the shape {np.shape(array)}, no value per example')
    ends = [0, *itertools.accumulate(sizes)]
    return [{name: array[start:end] for name, array in found.items()} for start, end in itertools.pairwise(ends)]


class Batcher:
    """Predicts in a thread: whatever waits when a batch ends becomes the next one, without further waiting.

    Args:
      predict: function from a batch to its predictions, [batch, ...].
      max_size: examples up to which requests are merged; 0 merges none. A larger request is a batch of its own.
      on_batch: called with the number of examples of each batch.
    """

    def __init__(self, predict: Callable[[Arrays], Arrays], max_size: int, on_batch: Callable[[int], Any] = lambda size: None):
        self._predict, self._max_size, self._on_batch = predict, max_size, on_batch
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name='batches', daemon=True)
        self._thread.start()

    def submit(self, batch: Arrays) -> 'Future[Arrays]':
        """Returns the future of the predictions; a future that is cancelled while it waits is not computed."""
        job = Job(batch, Future())
        self._queue.put(job)
        return job.future

    def close(self) -> None:
        """Waits for what was submitted."""
        self._queue.put(None)
        self._thread.join()

    def _run(self):
        waiting: list[Job] = []
        is_open = True
        while is_open or waiting:
            while is_open and (not waiting or not self._queue.empty()):
                job = self._queue.get()
                is_open = job is not None
                waiting += [job] if job else []
            if waiting:
                taken, waiting = take(waiting, self._max_size)
                self._settle([job for job in taken if job.future.set_running_or_notify_cancel()])

    def _settle(self, jobs):
        """Sets the predictions of jobs, or their error: if a batch of several fails or cannot be split, each runs alone."""
        if not jobs:
            return
        sizes = [size_of(job.batch) for job in jobs]
        try:
            self._on_batch(sum(sizes))
            found = self._predict(merge([job.batch for job in jobs]))
            results = split(found, sizes) if len(jobs) > 1 else [found]
        except BaseException as error:
            if isinstance(error, NotPerExample):
                tf.logging.warning('%s: from now on, each request is predicted alone.', error)
                self._max_size = 0
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
            for job in jobs if len(jobs) > 1 else ():
                self._settle([job])
            return
        for job, result in zip(jobs, results):
            job.future.set_result(result)

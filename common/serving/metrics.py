"""Counters and durations of a server, in the text format of Prometheus."""

from collections.abc import Sequence
import itertools
import threading

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
EXAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, bounds: Sequence[float]):
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Counts a value."""
        self._counts[sum(bound < value for bound in self._bounds)] += 1
        self._sum += value

    def lines(self, name: str) -> list[str]:
        """Returns the samples of the metric with this name."""
        totals = [*itertools.accumulate(self._counts)]
        buckets = [f'{name}_bucket{{le="{bound}"}} {total}' for bound, total in zip([*self._bounds, '+Inf'], totals)]
        return [*buckets, f'{name}_sum {self._sum}', f'{name}_count {totals[-1]}']


class Metrics:
    """Counts requests, the time they took, and the sizes of batches; for any number of threads."""

    def __init__(self):
        self._codes: dict[int, int] = {}
        self._seconds, self._examples = Histogram(SECONDS), Histogram(EXAMPLES)
        self._lock = threading.Lock()

    def answered(self, code: int, seconds: float) -> None:
        """Counts a request for predictions, and the time from its first byte to the answer."""
        with self._lock:
            self._codes[code] = self._codes.get(code, 0) + 1
            self._seconds.add(seconds)

    def batch(self, size: int) -> None:
        """Counts a batch of this number of examples."""
        with self._lock:
            self._examples.add(size)

    def text(self, step: int, in_progress: int) -> str:
        """Returns all metrics, with the step of the model and the number of requests in progress."""
        with self._lock:
            requests = [f'serving_requests_total{{code="{code}"}} {count}' for code, count in sorted(self._codes.items())]
            metrics = [
                ('serving_requests_total', 'counter', 'Requests for predictions, by status code.', requests),
                (
                    'serving_request_seconds',
                    'histogram',
                    'Time to answer them.',
                    self._seconds.lines('serving_request_seconds'),
                ),
                ('serving_batch_examples', 'histogram', 'Examples per batch.', self._examples.lines('serving_batch_examples')),
            ]
        metrics += [
            (name, 'gauge', text, [f'{name} {value}'])
            for name, text, value in (
                ('serving_requests_in_progress', 'Complete requests without an answer.', in_progress),
                ('serving_model_step', 'The global step of the model, or the version of an export.', step),
            )
        ]
        lines = [
            line for name, kind, text, found in metrics for line in (f'# HELP {name} {text}', f'# TYPE {name} {kind}', *found)
        ]
        return '\n'.join(lines) + '\n'

"""Timing of predictions, of all images and of single ones."""

from collections.abc import Callable, Sequence
import itertools
import json
import statistics
import time
from typing import Any

import numpy as np

WARM_UP, SINGLE, PASSES = 200, 2000, 5


def measure(predict_batch: Callable[[np.ndarray], object], images: np.ndarray, batch_size: int) -> str:
    """Returns a JSON object: images_per_second of the median pass, and the latencies p50 and p99 of one image, in ms.

    Args:
      predict_batch: takes uint8 [batch, height, width, channels] and returns once the predictions are in NumPy's memory.
      images: uint8 [count, height, width, channels].
      batch_size: must divide count.
    """
    batches = np.split(images, len(images) // batch_size)
    passes = [_seconds(lambda: [predict_batch(batch) for batch in batches]) for _ in range(PASSES + 1)][1:]
    return result(len(images) / statistics.median(passes), predict_batch, images)


def result(images_per_second: float, predict_batch: Callable[[np.ndarray], object], images: np.ndarray) -> str:
    """Returns the result of `measure` for a known speed."""
    single = json.loads(latencies(predict_batch, [images[i : i + 1].copy() for i in range(100)]))
    return json.dumps({'images_per_second': images_per_second, **single})


def latencies(predict: Callable[[Any], object], examples: Sequence[Any]) -> str:
    """Returns a JSON object: the latencies p50 and p99 of one example, in ms."""
    single = itertools.cycle(examples)
    seconds = [_seconds(lambda: predict(next(single))) for _ in range(WARM_UP + SINGLE)][WARM_UP:]
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    return json.dumps({'p50': p50, 'p99': p99})


def write(path: str, probabilities: np.ndarray) -> str:
    """Writes predictions, one JSON object per line; returns an empty JSON object."""
    with open(path, 'w', encoding='utf-8') as file:
        for i, values in enumerate(probabilities.tolist()):
            file.write(json.dumps({'example_id': i, 'class': int(np.argmax(values)), 'probabilities': values}) + '\n')
    return '{}'


def _seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start

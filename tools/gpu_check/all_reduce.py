"""Sums a vector over devices by TensorFlow's all-reduce, by NCCL on GPUs: python -m tools.gpu_check.all_reduce FILE DEVICE ...

Writes the sum of each device to the file, an .npy, float32 [devices, size], and prints {"gigabytes_per_second": number}, of the
vector. It is a process of its own, as it occupies the GPUs.
"""

import json
import sys
import time

import numpy as np
import tensorflow as tf

SIZE = 25_000_000  # float32, 100 MB.
_TIMES = 10


def vectors(devices: int, size: int) -> np.ndarray:
    """Returns a vector of small integers for each device, whose sums are exact: float32 [devices, size]."""
    return (np.arange(devices * size, dtype=np.int64) % 1009).astype(np.float32).reshape(devices, size)


def sums(devices: list[str], size: int, ops: tf.distribute.CrossDeviceOps) -> tuple[np.ndarray, float]:
    """Returns the sum as each device has it, float32 [devices, size], and the seconds of a sum."""
    strategy = tf.distribute.MirroredStrategy(devices, ops)
    given = vectors(len(devices), size)

    def place(context):
        i = context.replica_id_in_sync_group
        with tf.device(devices[i]):  # Else each sum would copy it there.
            return tf.constant(given[i])

    values = strategy.experimental_distribute_values_from_function(place)

    @tf.function
    def total():
        return strategy.run(lambda value: tf.distribute.get_replica_context().all_reduce('SUM', value), [values])

    found = np.stack([part.numpy() for part in strategy.experimental_local_results(total())])
    start = time.perf_counter()
    for _ in range(_TIMES):
        parts = strategy.experimental_local_results(total())
    for part in parts:
        part[:1].numpy()  # Waits for it.
    return found, (time.perf_counter() - start) / _TIMES


def main(path, *devices):
    found, seconds = sums(list(devices), SIZE, tf.distribute.NcclAllReduce())
    np.save(path, found)
    print(json.dumps({'gigabytes_per_second': 4e-9 * SIZE / seconds}))


if __name__ == '__main__':
    main(*sys.argv[1:])

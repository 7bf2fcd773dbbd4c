"""Available memory and the size of tensors."""

import math
import os
import resource

import tensorflow.compat.v1 as tf

_STRING = 24  # Bytes of a tstring; long text is stored separately.


def available(root: str = '/') -> float:
    """Returns the bytes that the process may still allocate: the minimum over machine, cgroups and ulimits.

    Args:
      root: the directory that contains proc and sys.

    Returns:
      A number; math.inf if no limit is known.
    """
    return max(0, min(_left_by_machine(root), _left_by_limits(root), _left_by_cgroups(root)))


def _left_by_machine(root):
    return min(
        [int(line.split()[1]) * 1024 for line in _lines(root, 'proc/meminfo') if line.startswith('MemAvailable:')],
        default=math.inf,
    )


def _left_by_limits(root):
    pages = [int(number) for line in _lines(root, 'proc/self/statm') for number in line.split()]
    if not pages:
        return math.inf
    limits = ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5]))
    return min(
        (
            limit - used * resource.getpagesize()
            for (limit, _), used in ((resource.getrlimit(kind), used) for kind, used in limits)
            if limit != resource.RLIM_INFINITY
        ),
        default=math.inf,
    )


def _left_by_cgroups(root):
    """Returns the minimum over all cgroups from the process's own up to the root, of version 2 or 1."""
    left = [math.inf]
    for line in _lines(root, 'proc/self/cgroup'):
        _, controllers, path = line.split(':', 2)
        if controllers not in ('', 'memory'):
            continue
        while True:
            directory = os.path.join('sys/fs/cgroup', controllers, path.strip('/'))
            limits, used, cache = (
                ('memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file')
                if controllers
                else ('memory.max', 'memory.current', 'inactive_file')
            )
            (limit,) = _lines(root, directory, limits) or ['max']
            if limit.isdecimal():
                reclaimable = sum(  # Inactive page cache.
                    int(line.split()[1]) for line in _lines(root, directory, 'memory.stat') if line.split()[0] == cache
                )
                left.append(int(limit) - int(_lines(root, directory, used)[0]) + reclaimable)
            if not path.strip('/'):
                break
            path = os.path.dirname(path)
    return min(left)


def _lines(*path):
    try:
        with open(os.path.join(*path), encoding='ascii', errors='replace') as file:
            return file.read().splitlines()
    except OSError:
        return []


def size(shape: tf.TensorShape, dtype: tf.DType, batch_size: int = 0) -> int:
    """Returns the bytes of a tensor, for strings without their text; 0 if the shape is unknown.

    An unknown first dimension counts as the batch.
    """
    dimensions = shape.as_list() if shape.rank is not None else [None]
    if dimensions and dimensions[0] is None:
        dimensions[0] = batch_size
    if None in dimensions:
        return 0
    return math.prod(dimensions) * (_STRING if dtype == tf.string else dtype.size)


def to_text(count: float) -> str:
    """Formats a number of bytes, such as '1.5 GB'."""
    exponent = min(int(math.log10(max(count, 1))) // 3, 6)
    return f'{count / 1000**exponent:.3g} {("bytes", "KB", "MB", "GB", "TB", "PB", "EB")[exponent]}'

"""How much memory there is, and whether what is to be computed fits into it."""

import math
import os
import resource

import tensorflow.compat.v1 as tf

_STRING = 24  # Bytes of a tstring, whose text lies elsewhere if it is long.


def available(root='/'):
    """Returns how many bytes the process may still take: the least of what the machine, its cgroups and its ulimits leave.

    Args:
      root: str, below which proc and sys are mounted.

    Returns:
      Number, math.inf where nobody says.
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
    """Of all cgroups from the process's own up to the root, of version 2 or 1."""
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
                of_files = sum(
                    int(line.split()[1]) for line in _lines(root, directory, 'memory.stat') if line.split()[0] == cache
                )
                left.append(int(limit) - int(_lines(root, directory, used)[0]) + of_files)
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


def size(shape, dtype, batch_size=0):
    """Returns the bytes of a tensor of a tf.TensorShape, 0 where it is not known; of strings, without their text.

    A first dimension that is not known is taken for that of a batch.
    """
    dimensions = shape.as_list() if shape.rank is not None else [None]
    if dimensions and dimensions[0] is None:
        dimensions[0] = batch_size
    if None in dimensions:
        return 0
    return math.prod(dimensions) * (_STRING if dtype == tf.string else dtype.size)


def to_text(count):
    """Returns a number of bytes as people say it, such as '1.5 GB'."""
    exponent = min(int(math.log10(max(count, 1))) // 3, 6)
    return f'{count / 1000**exponent:.3g} {("bytes", "KB", "MB", "GB", "TB", "PB", "EB")[exponent]}'

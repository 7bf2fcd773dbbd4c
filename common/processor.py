"""The processor: its cores, and its instruction sets for matrices."""

import os
import re

_CPUINFO = '/proc/cpuinfo'


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def flags(path: str = _CPUINFO) -> set[str]:
    """Returns the processor's features by Linux's names, such as 'avx512f'; an empty set where they are unknown."""
    try:
        with open(path, encoding='utf-8') as file:
            found = re.search(r'^flags\s*:(.*)', file.read(), re.MULTILINE)
    except OSError:
        return set()
    return set(found[1].split()) if found else set()


def has_bfloat16(path: str = _CPUINFO) -> bool:
    """Whether the processor has instructions for bfloat16; False if that is unknown."""
    return not flags(path).isdisjoint({'avx512_bf16', 'amx_bf16'})

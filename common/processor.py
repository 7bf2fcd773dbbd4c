"""The processor: its cores, its name, and its instruction sets for matrices."""

import os
import platform
import re

_CPUINFO = '/proc/cpuinfo'


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def name() -> str:
    """Returns the processor's name, or that of its architecture."""
    return _find('model name', _CPUINFO) or platform.machine()


def flags(path: str = _CPUINFO) -> set[str]:
    """Returns the processor's features by Linux's names, such as 'avx512f'; an empty set where they are unknown."""
    return set(_find('flags', path).split())


def has_bfloat16(path: str = _CPUINFO) -> bool:
    """Whether the processor has instructions for bfloat16; False if that is unknown."""
    return not flags(path).isdisjoint({'avx512_bf16', 'amx_bf16'})


def has_amx(path: str = _CPUINFO) -> bool:
    """Whether the processor multiplies matrices of bfloat16 in tiles, by AMX; False if that is unknown."""
    return 'amx_bf16' in flags(path)


def use_onednn(path: str = _CPUINFO) -> None:
    """Lets TensorFlow compute with oneDNN on processors with AVX2, too; to be called before TensorFlow is imported.

    By itself, it does so only on newer ones. An environment variable that is set stays: TF_ENABLE_ONEDNN_OPTS=0 is without it.
    """
    if 'avx2' in flags(path):
        os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')


def _find(key, path):
    """Returns what Linux says of the first core; '' where that is unknown."""
    try:
        with open(path, encoding='utf-8') as file:
            found = re.search(rf'^{key}\s*:(.*)', file.read(), re.MULTILINE)
    except OSError:
        return ''
    return found[1].strip() if found else ''

"""The op of a network at which the values of an exported file begin to differ."""

from collections.abc import Iterable, Mapping

import numpy as np

from estimator_trainer.common.export.comparison import difference, magnitude
from estimator_trainer.common.export.network import Network, evaluate


def first_difference(
    network: Network,
    batch: Mapping[str, np.ndarray],
    traced: Iterable[tuple[list[str], np.ndarray]],
    tolerance: float,
) -> str:
    """Returns the name of the first op whose values differ by more than a tolerance, '' if that is not found.

    Args:
      batch: {name: array [batch, ...]}, inputs.
      traced: (names of tensors of the network that may be meant, value in the file) in the order of the file's ops.
      tolerance: a share of the largest magnitude of a tensor.
    """
    found = list(traced)
    names = list(dict.fromkeys(name for candidates, _ in found for name in candidates))
    wanted = dict(zip(names, evaluate(network, batch, names)))
    for candidates, value in found:
        shares = {name: share for name in candidates if (share := _share(wanted[name], value)) is not None}
        if shares and min(shares.values()) > tolerance:
            return min(shares, key=lambda name: shares[name]).rpartition(':')[0]
    return ''


def _share(wanted, value):
    """Returns the largest difference of two arrays as a share of the largest magnitude; None if their shapes differ.

    ONNX has channels before pixels.
    """
    if np.shape(value) != np.shape(wanted) and np.ndim(value) == 4:
        value = np.transpose(value, [0, 2, 3, 1])
    if np.shape(value) != np.shape(wanted) or wanted.dtype.kind not in 'fiu':
        return None
    return float(difference(wanted, value).max(initial=0)) / max(magnitude(wanted), 1e-30)

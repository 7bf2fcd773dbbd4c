"""Ranks of numbers, and whether some of them have others than chance would give. Does not import TensorFlow."""

import math

import numpy as np


def to_ranks(values: np.ndarray) -> np.ndarray:
    """Returns the ranks of values, float [n], from 1; equal ones share their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def rank_sum(ranks: np.ndarray, mask: np.ndarray) -> float:
    """Returns the two-sided p-value of the mean rank of a slice, by its normal approximation, with ties."""
    total, count = len(ranks), int(mask.sum())
    variance = np.var(ranks, ddof=1) / count * (1 - count / total)
    return math.erfc(abs(ranks[mask].mean() - ranks.mean()) / math.sqrt(2 * variance)) if variance > 0 else 1.0

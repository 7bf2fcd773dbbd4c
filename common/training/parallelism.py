"""Towers and threads on CPUs: a rule for what a run leaves open, by the products of its model."""

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common.products import LARGE, largest_product

# The rule is that of machines on which it was measured, see docs/performance.md.
_CORES = range(2, 5)
_EXAMPLES = 32  # At least, in a tower.
_LOOPS = 'Enter', 'StatelessWhile', 'While'


class Parallelism(NamedTuple):
    """num_towers is 1 without towers; intra_op_threads is 0 for as many as there are cores."""

    num_towers: int = 1
    intra_op_threads: int = 0


def choose(graph: tf.Graph, batch_size: int, cores: int, may_divide: bool) -> Parallelism:
    """Returns what trains a model fastest.

    Small products are done before other threads have begun: one thread each. Threads of larger ones wait for each other more
    than towers do: a tower per core, unless batch norm would then see fewer examples. Loops have many small operations, which
    each tower repeats.

    Args:
      graph: in which the model was built for training, without towers.
      cores: of the machine.
      may_divide: whether towers would learn the same.
    """
    if cores not in _CORES:
        return Parallelism()
    product = largest_product(graph, batch_size)
    has_loops = any(op.type in _LOOPS for op in graph.get_operations())
    is_divisible = may_divide and batch_size % cores == 0 and batch_size // cores >= _EXAMPLES
    if product >= (LARGE if has_loops else LARGE / 2) and is_divisible and not graph.get_collection(tf.GraphKeys.UPDATE_OPS):
        return Parallelism(cores, 1)
    return Parallelism(intra_op_threads=int(product < LARGE))

"""Towers and threads on CPUs: a rule for what a training leaves open, by the products of its model."""

from collections.abc import Iterator
import math
from typing import NamedTuple

import tensorflow.compat.v1 as tf

# The rule is that of machines on which it was measured, see docs/performance.md.
_CORES = range(2, 5)
_LARGE = 10**8  # Floating-point operations of a product that is worth sharing between threads.
_EXAMPLES = 32  # At least, in a tower.
_CONVOLUTIONS = ('Conv2D', 'Conv3D', 'DepthwiseConv2dNative')
_PRODUCTS = ('MatMul', 'BatchMatMul', 'BatchMatMulV2', 'BatchMatMulV3')


class Parallelism(NamedTuple):
    """num_towers is 1 without towers; intra_op_threads is 0 for as many as there are cores."""

    num_towers: int = 1
    intra_op_threads: int = 0


def choose(graph: tf.Graph, precision: str, batch_size: int, cores: int) -> Parallelism:
    """Returns what trains a model fastest.

    Small products are done before other threads have begun: one thread each. Large ones in bfloat16 are so fast that the
    threads of one wait for each other: a tower per core, unless batch norm would then see fewer examples.

    Args:
      graph: in which the model was built for training, without towers.
      precision: a value of --precision.
      cores: of the machine.
    """
    if cores not in _CORES:
        return Parallelism()
    if largest_product(graph, batch_size) < _LARGE:
        return Parallelism(intra_op_threads=1)
    is_divisible = batch_size % cores == 0 and batch_size // cores >= _EXAMPLES
    if precision == 'bfloat16' and is_divisible and not graph.get_collection(tf.GraphKeys.UPDATE_OPS):
        return Parallelism(cores, 1)
    return Parallelism()


def largest_product(graph: tf.Graph, batch_size: int) -> float:
    """Returns the floating-point operations of the largest matrix product or convolution of a graph and its functions.

    An unknown first dimension counts as the batch, others as 1; an Einsum with an ellipsis counts as infinite.
    """
    return max((_operations(op, batch_size) for op in _all_ops(graph)), default=0)


def _all_ops(graph: tf.Graph) -> Iterator[tf.Operation]:
    """Yields the ops of a graph and of the functions that they call, such as bodies of loops."""
    pending, seen = [graph], set()
    while pending:
        for op in pending.pop().get_operations():
            yield op
            for value in op.node_def.attr.values():
                for function in (value.func, *value.list.func):
                    if function.name and function.name not in seen and (called := graph._get_function(function.name)):
                        seen.add(function.name)
                        pending.append(called.graph)


def _operations(op, batch_size):
    """Returns the number of floating-point operations of an op that multiplies, 0 for others."""

    def dimensions(tensor):
        first, *others = tensor.shape.as_list() if tensor.shape.rank else [None]
        return [first or batch_size, *(size or 1 for size in others)]

    if op.type in _CONVOLUTIONS:
        *kernel, _ = dimensions(op.inputs[1])
        kernel = kernel[:-1] if op.type == 'DepthwiseConv2dNative' else kernel
        return 2 * math.prod([*kernel, *dimensions(op.outputs[0])])
    if op.type in _PRODUCTS:
        is_transposed = op.get_attr('transpose_a' if op.type == 'MatMul' else 'adj_x')
        inner = ([1, *dimensions(op.inputs[0])])[-2 if is_transposed else -1]
        return 2 * inner * math.prod(dimensions(op.outputs[0]))
    if op.type == 'Einsum':
        equation = op.get_attr('equation').decode()
        if '.' in equation:
            return math.inf
        labels = zip(equation.split('->')[0].replace(',', ''), [size for value in op.inputs for size in dimensions(value)])
        return 2 * math.prod(dict(labels).values())
    return 0

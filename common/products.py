"""Matrix products and convolutions: the work of a graph's ops."""

from collections.abc import Iterator
import math

from tf_estimator.graphs import body_of

import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import called_functions

LARGE = 10**8  # Floating-point operations of a product that is worth sharing between threads.
_CONVOLUTIONS = ('Conv2D', 'Conv3D', 'DepthwiseConv2dNative')
_PRODUCTS = ('MatMul', 'BatchMatMul', 'BatchMatMulV2', 'BatchMatMulV3')


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
            for name in called_functions(op.node_def):
                if name not in seen and (body := body_of(graph, name)):
                    seen.add(name)
                    pending.append(body)


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

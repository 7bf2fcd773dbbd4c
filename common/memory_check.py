"""A check that a graph fits into memory."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import ancestors
from estimator_trainer.common.memory import available, size, to_text


def check_fits(fetches: Sequence[tf.Operation | tf.Tensor], batch_size: int, name: str = 'batch_size') -> None:
    """Checks that a graph can run on a CPU: its variables together, and each computed tensor, must fit into memory.

    Args:
      fetches: of the session calls.
      batch_size: number of examples per tower.
      name: of the hyper-parameter that sets it.

    Raises:
      UsageError: the variables or a tensor do not fit.
    """
    if tf.config.list_physical_devices('GPU'):
        return
    free = available()
    variables = {variable.op.name: size(variable.shape, variable.dtype.base_dtype) for variable in tf.global_variables()}
    if sum(variables.values()) > free:
        largest = max(variables, key=lambda name: variables[name])
        raise UsageError(
            f'the variables of the model and of its optimizer take {to_text(sum(variables.values()))}, of which '
            f'{largest} takes {to_text(variables[largest])}, and {to_text(free)} of memory is available: make the model '
            'smaller'
        )
    tensors = [tensor for op in ancestors(fetches) for tensor in op.outputs]
    sizes = [size(tensor.shape, tensor.dtype.base_dtype, batch_size) for tensor in tensors]
    if max(sizes, default=0) > free:
        tensor = tensors[sizes.index(max(sizes))]
        raise UsageError(
            f'with a batch of {batch_size}, {tensor.op.name} makes a tensor of {to_text(max(sizes))}, and '
            f'{to_text(free)} of memory is available: use a smaller {name}, or make the model smaller'
        )

"""TensorFlow graphs: searches, their need of memory, and functions exempt from AutoGraph."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.memory import available, size, to_text

# For functions without `if` or `for` over tensors: each conversion takes 40 ms, in all nearly half a second before a run
# starts.
plain = tf.autograph.experimental.do_not_convert


def search(
    start: Iterable[tf.Operation], neighbors: Callable[[tf.Operation], Iterable[tf.Operation]]
) -> Collection[tf.Operation]:
    """Returns the ops of `start` and all others reached by `neighbors`, in order of discovery."""
    found: dict[tf.Operation, None] = {}
    pending = list(start)
    while pending:
        op = pending.pop()
        if op not in found:
            found[op] = None
            pending += neighbors(op)
    return found.keys()


def reachable(tensors: Iterable[tf.Tensor]) -> Collection[tf.Operation]:
    """Returns the ops that produce `tensors`, and all ops that consume them, directly or indirectly.

    Ops inside functions are not included.
    """
    return search(
        (tensor.op for tensor in tensors), lambda op: (consumer for tensor in op.outputs for consumer in tensor.consumers())
    )


def ancestors(fetches: Iterable[tf.Operation | tf.Tensor]) -> Collection[tf.Operation]:
    """Returns all ops that must run to compute fetches, including theirs, but excluding ops inside functions."""
    ops = (getattr(fetch, 'op', fetch) for fetch in fetches)
    return search(ops, lambda op: [*op.control_inputs, *(tensor.op for tensor in op.inputs)])


def random_ops(definition: tf.GraphDef) -> Iterator[tuple[str, str, bool]]:
    """Finds the random ops whose kernels hold the state of the generator.

    Args:
      definition: a graph; the functions that its nodes call are searched, too.

    Yields:
      (name, type, whether it has a seed) of each op. Without a seed, its numbers differ in every run anyway.
    """
    functions = {function.signature.name: function.node_def for function in definition.library.function}
    pending = list(definition.node)
    while pending:
        node = pending.pop()
        if 'seed2' in node.attr and not (node.op.startswith('CudnnRNN') and not node.attr['dropout'].f):
            yield node.name, node.op, bool(node.attr['seed'].i or node.attr['seed2'].i)
        for name in _called_functions(node):
            pending += functions.pop(name, [])


def subgraph(ops: Iterable[tf.Operation]) -> tf.GraphDef:
    """Returns the definition of some ops of a graph, with all of its functions."""
    nodes = list(ops)
    library = nodes[0].graph.as_graph_def().library if nodes else None
    return tf.GraphDef(node=[op.node_def for op in nodes], library=library)


def _called_functions(node):
    """Yields the names of the functions that a node calls."""
    yield node.op
    for value in node.attr.values():
        yield from (function.name for function in (value.func, *value.list.func))


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

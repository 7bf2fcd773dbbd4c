"""TensorFlow graphs: searches, the global step, and functions exempt from AutoGraph."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
import functools

from tf_estimator.graphs import functions_of

import tensorflow.compat.v1 as tf

_LARGE = 10_000  # Bytes.
# For functions without `if` or `for` over tensors: each conversion takes 40 ms, in all nearly half a second before a run
# starts.
plain = tf.autograph.experimental.do_not_convert
# How the types of ops begin that change the variable that is their first input: those of resource variables, and of all.
RESOURCE_CHANGES = ('Assign', 'ResourceApply', 'ResourceScatter', 'ResourceSparseApply', 'ResourceStridedSliceAssign')
_CHANGES = (*RESOURCE_CHANGES, 'Apply', 'Scatter', 'SparseApply', 'StridedSliceAssign')
_NO_CHANGES = ('ScatterNd', 'ScatterNdNonAliasingAdd')  # They make a tensor.


def global_step(session: tf.Session) -> int:
    """Returns the global step of a session."""
    return int(session.run(tf.train.get_global_step(session.graph)))


def changes_variable(op_type: str) -> bool:
    """Whether ops of a type change the variable that is their first input."""
    return op_type.startswith(_CHANGES) and op_type not in _NO_CHANGES


def changed_variables(
    op: tf.Operation, bodies: Callable[[], Mapping[str, Collection[tf.NodeDef]]], calls: Collection[str]
) -> tuple[str, ...]:
    """Returns the names of the variables that an op changes, or may change by way of a function.

    Args:
      bodies: the `function_bodies` of its graph.
      calls: the types of ops whose functions are searched.
    """
    if changes_variable(op.type):
        return tuple(tensor.op.name for tensor in op.inputs[:1])
    handles = tuple(tensor.op.name for tensor in op.inputs if tensor.dtype == tf.resource)
    return handles if handles and op.type in calls and _calls_change(op, bodies) else ()


def function_bodies(graph: tf.Graph) -> Callable[[], Mapping[str, Collection[tf.NodeDef]]]:
    """Returns a function that finds the nodes of the functions of a graph, by name, once: of a large graph, that takes long."""
    return functools.cache(lambda: {each.signature.name: each.node_def for each in graph.as_graph_def().library.function})


def _calls_change(op, bodies):
    """Whether an op, such as a branch, calls a function that changes a variable."""
    pending, seen = [op.node_def], set[str]()
    while pending:
        called = {*called_functions(pending.pop())} & bodies().keys() - seen
        seen |= called
        nodes = [node for name in called for node in bodies()[name]]
        if any(changes_variable(node.op) for node in nodes):
            return True
        pending += nodes
    return False


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
        for name in called_functions(node):
            pending += functions.pop(name, [])


def subgraph(ops: Iterable[tf.Operation]) -> tf.GraphDef:
    """Returns the definition of some ops of a graph, with all of its functions."""
    nodes = list(ops)
    library = nodes[0].graph.as_graph_def().library if nodes else None
    return tf.GraphDef(node=[op.node_def for op in nodes], library=library)


def empty_constants(definition: tf.GraphDef, scope: str) -> None:
    """Replaces large constants below a name scope, such as data in arrays, by zeros or empty texts, which take no space."""
    for node in definition.node:
        if node.op == 'Const' and node.name.startswith(scope):
            value = node.attr['value'].tensor
            if value.ByteSize() > _LARGE:
                for field in ('tensor_content', 'string_val'):
                    value.ClearField(field)


def called_functions(node: tf.NodeDef) -> Iterator[str]:
    """Yields the names of the functions that a node may call, among others."""
    yield node.op
    yield from functions_of(node)

"""Looking at a TensorFlow graph."""


def reachable(tensors):
    """Returns the ops that tensors flow into, directly or through others, and those that make the tensors.

    It does not look into functions.

    Args:
      tensors: list of tf.Tensor of a graph.

    Returns:
      Set of tf.Operation.
    """
    found = set()
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [consumer for tensor in op.outputs for consumer in tensor.consumers()]
    return found


def ancestors(ops):
    """Returns ops and all that must run before them, a set of tf.Operation; those within functions are not among them."""
    found = set()
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return found


def random_op(definition):
    """Returns the name and type of a random op that draws by a state of its own, which only its kernel knows.

    Args:
      definition: tf.GraphDef; the functions that its nodes call are searched, too.

    Returns:
      (str, str), or None where there is none.
    """
    functions = {function.signature.name: function.node_def for function in definition.library.function}
    waiting = list(definition.node)
    while waiting:
        node = waiting.pop()
        if _draws(node):
            return node.name, node.op
        for name in _called(node):
            waiting += functions.pop(name, [])
    return None


def _draws(node):
    if 'seed2' not in node.attr or not (node.attr['seed'].i or node.attr['seed2'].i):
        return False  # Without a seed, each kernel draws other numbers.
    return not (node.op.startswith('CudnnRNN') and not node.attr['dropout'].f)


def _called(node):
    """Yields the names of the functions that a node calls."""
    yield node.op
    for value in node.attr.values():
        yield from (function.name for function in (value.func, *value.list.func))

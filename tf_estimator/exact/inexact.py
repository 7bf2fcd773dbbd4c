"""Finds parts of a program that do not resume exactly."""

from collections.abc import Iterable

from tf_estimator.graphs import functions_of, reached

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import early_stopping

_PYTHON = {'PyFunc', 'EagerPyFunc'}
_GENERATOR = 'GeneratorDataset'
_RANDOM = {
    'FixedUnigramCandidateSampler',
    'LearnedUnigramCandidateSampler',
    'LogUniformCandidateSampler',
    'Multinomial',
    'ParameterizedTruncatedNormal',
    'RandomCrop',
    'RandomGamma',
    'RandomPoisson',
    'RandomPoissonV2',
    'RandomShuffle',
    'RandomStandardNormal',
    'RandomUniform',
    'RandomUniformInt',
    'SampleDistortedBoundingBox',
    'SampleDistortedBoundingBoxV2',
    'ThreadUnsafeUnigramCandidateSampler',
    'TruncatedNormal',
    'UniformCandidateSampler',
}
# Ops that draw numbers unless an attribute of this name has this value.
_UNLESS = {
    'CudnnRNN': ('dropout', 0.0),
    'CudnnRNNV2': ('dropout', 0.0),
    'CudnnRNNV3': ('dropout', 0.0),
    'FractionalAvgPool': ('deterministic', True),
    'FractionalMaxPool': ('deterministic', True),
}
# What holds tensors from step to step, beside variables and tables.
_STORES = {
    *('Barrier', 'FIFOQueueV2', 'PaddingFIFOQueueV2', 'PriorityQueueV2', 'RandomShuffleQueueV2'),
    *('MapStage', 'OrderedMapStage', 'Stage'),
    *('ConditionalAccumulator', 'ResourceConditionalAccumulator', 'SparseConditionalAccumulator'),
}
_PACKAGES = {'tensorflow', 'tensorflow_estimator', 'tf_estimator'}
_GENERATORS = {'RngReadAndSkip', 'RngSkip', 'StatefulUniform', 'StatefulStandardNormalV2', 'StatefulTruncatedNormal'}


def reasons(graph: tf.Graph) -> list[str]:
    """Returns what a resumed training in a graph does otherwise than an undisturbed one; texts for a list."""
    definition = graph.as_graph_def()
    library = _library(definition)
    data = _types_of_input(graph, library)
    # Ops of datasets include those that datasets.py tries.
    nodes = (node for node in definition.node if not node.name.startswith('exact/'))
    own = _types((node for node in nodes if 'Dataset' not in node.op), library)
    found = []
    if _GENERATOR in data:
        found.append('Dataset.from_generator, whose state cannot be saved: the input begins anew')
    if stores := own & _STORES:
        found.append(f'queues, staging areas and accumulators, which begin anew ({", ".join(sorted(stores))})')
    if (data | own) & _PYTHON and _GENERATOR not in data:
        found.append('py_function and numpy_function, if their functions have a state')
    if generators := data & _GENERATORS:
        found.append(f'tf.random.Generator in a function of a dataset ({", ".join(sorted(generators))})')
    if random := (data | own) & (_RANDOM | _UNLESS.keys()):
        found.append(f'the random ops {", ".join(sorted(random))}')
    return found


def reasons_of_hooks(hooks: Iterable[tf.train.SessionRunHook]) -> list[str]:
    """Returns what hooks of a training do otherwise, as `reasons` does. Those of a program run after a checkpoint is saved."""
    types = {type(hook) for hook in hooks}
    own = sorted(kind.__name__ for kind in types if kind.__module__.partition('.')[0] not in _PACKAGES)
    found = [f'the hooks {", ".join(own)}, if they have a state or change variables'] if own else []
    if any(issubclass(kind, early_stopping._StopOnPredicateHook) for kind in types):
        found.append('early stopping, which asks at other steps, as its timer begins anew')
    return found


def can_save_input(graph: tf.Graph) -> bool:
    """Whether the state of the iterators of a graph can be saved."""
    return _GENERATOR not in _types_of_input(graph, _library(graph.as_graph_def()))


def _types_of_input(graph, library):
    made = [op for op in graph.get_operations() if op.type == 'MakeIterator']
    return _types((op.node_def for op in reached(made)), library)


def _library(definition):
    return {function.signature.name: function for function in definition.library.function}


def _used_nodes(function):
    """Returns the nodes on which the results of a FunctionDef depend: not the trials of datasets.py."""
    nodes = {node.name: node for node in function.node_def}
    waiting, used = [*function.ret.values(), *function.control_ret.values()], {}
    while waiting:
        name = waiting.pop().lstrip('^').partition(':')[0]
        if name in nodes and name not in used:
            used[name] = nodes[name]
            waiting += nodes[name].input
    return used.values()


def _draws_nothing(node):
    name, value = _UNLESS.get(node.op, ('', None))
    return bool(name) and getattr(node.attr[name], 'b' if value is True else 'f') == value


def _types(nodes, library):
    """Returns the types of nodes, and of those in the functions that they call."""
    waiting = [*nodes]
    types: set[str] = set()
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if not _draws_nothing(node):
            types.add(node.op)
        for name in {node.op, *functions_of(node)} - seen:
            seen.add(name)
            waiting += _used_nodes(library[name]) if name in library else ()
    return types

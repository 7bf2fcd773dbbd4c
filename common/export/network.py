"""The network of a checkpoint as a graph of constants, from which other formats are converted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, first_line
from estimator_trainer.common.inference.serving import check_without_python
from estimator_trainer.common.inference.signatures import PREDICT, Signature
from estimator_trainer.common.storage.restore import make_saver, make_session, restore

_MAX_BYTES = 2**31 - 1  # Of a protocol buffer.


class Port(NamedTuple):
    """An input or output: the name of its tensor in the graph, and its spec [batch, ...]."""

    tensor: str
    spec: tf.TensorSpec


class Network(NamedTuple):
    """The graph from inputs to outputs, {name: Port}; it has no variables."""

    definition: tf.GraphDef
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]


def freeze(estimator: tf.estimator.Estimator, signature: Signature, checkpoint_path: str) -> Network:
    """Returns the Network that predicts from the inputs of a signature, those that are used; leaves out texts it predicts.

    Raises:
      UsageError: the model calls Python functions, predicts only texts, uses no input, is too large, or needs its variables.
      RunError: as for `restore`.
    """
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        with tf.name_scope('inputs'):
            inputs = {
                name: tf.placeholder(spec.dtype, [None, *spec.shape.as_list()[1:]]) for name, spec in signature.specs.items()
            }
            features = signature.to_features(inputs)
        spec = estimator.model_fn(features, None, PREDICT, estimator.config)
        with tf.name_scope('outputs'):
            outputs = {name: tf.identity(value) for name, value in spec.predictions.items() if value.dtype != tf.string}
        if not outputs:
            raise UsageError(
                '--format: the model predicts only texts, which ONNX and TFLite files do not return: choose saved_model'
            )
        saver, definition = make_saver(spec), graph.as_graph_def()
        check_without_python(definition)
        with make_session(estimator.config) as session:
            restore(saver, session, checkpoint_path)
            frozen = _without_variables(session, definition, [output.op.name for output in outputs.values()])
    for node in frozen.node:
        node.device = ''
    kept = {node.name for node in frozen.node}
    used = {name: tensor for name, tensor in inputs.items() if tensor.op.name in kept}
    if not used:
        raise UsageError('--format: the predictions depend on no input, as ONNX and TFLite files need: choose saved_model')
    return Network(frozen, _ports(used), _ports(outputs))


def _without_variables(session, definition, names):
    try:
        frozen = tf.graph_util.convert_variables_to_constants(session, definition, names)
        if sum(node.ByteSize() for node in frozen.node) > _MAX_BYTES:
            raise too_large()
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(frozen, name='')
    except (ValueError, tf.errors.OpError) as error:
        raise UsageError(
            f'--format: the variables of the model cannot become constants, as in ONNX and TFLite files '
            f'({first_line(error)}): choose saved_model'
        ) from None
    _replace_selects(frozen, graph)
    return frozen


def too_large() -> UsageError:
    """Returns the error for a network that no file can hold."""
    return UsageError('--format: the weights of the model exceed 2 GB, the limit of ONNX and TFLite files: choose saved_model')


def _replace_selects(definition, graph):
    """Replaces Select by SelectV2, where they are the same, for converters that know only the latter well."""
    for node in definition.node:
        if node.op == 'Select':
            condition, value, _ = graph.get_operation_by_name(node.name).inputs
            if condition.shape.rank is not None and condition.shape.rank == value.shape.rank:
                node.op = 'SelectV2'


def _ports(tensors):
    return {name: Port(tensor.name, tf.TensorSpec(tensor.shape, tensor.dtype)) for name, tensor in tensors.items()}


def evaluate(network: Network, batch: Mapping[str, np.ndarray], tensors: Sequence[str]) -> list[np.ndarray]:
    """Returns the values of tensors of the graph, by their names, for a batch of inputs, {name: array [batch, ...]}."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(network.definition, name='')
        return session.run(list(tensors), {port.tensor: batch[name] for name, port in network.inputs.items()})


def tensors(network: Network) -> dict[str, list[str]]:
    """Returns {name: names of the tensors that are computed directly from it} of the graph, but for constants and inputs."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(network.definition, name='')
        return {
            tensor.name: [output.name for consumer in tensor.consumers() for output in consumer.outputs]
            for op in graph.get_operations()
            for tensor in op.outputs
            if op.type not in ('Const', 'Placeholder')
        }


def inputs_text(network: Network) -> str:
    """Returns lines of a dict of zeros, a batch of one example of the inputs; dimensions of any size have one element."""
    lines = []
    for name, port in network.inputs.items():
        shape = [1, *(size or 1 for size in port.spec.shape.as_list()[1:])]
        lines.append(f'    {name!r}: np.zeros({shape}, np.{"bool_" if port.spec.dtype == tf.bool else port.spec.dtype.name}),')
    return '\n'.join(lines)

"""Networks as ONNX files: conversion by tf2onnx, quantization and execution by ONNX Runtime."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import graphlib
import os
import tempfile

from google.protobuf.message import EncodeError
import numpy as np

from estimator_trainer.common.errors import UsageError, first_line, listed
from estimator_trainer.common.export.network import Network, inputs_text, tensors, too_large
from estimator_trainer.common.export.quiet import silenced

PACKAGES = ('tf2onnx', 'onnxruntime')
_OPSET = 17  # ONNX Runtime 1.12 and later.
_QUANTIZED = ['Conv', 'MatMul', 'Gemm']  # The work of a network; the rest keeps float32.
_HALVED = [*_QUANTIZED, 'Gather']  # Also tables of embeddings.
_FLOAT, _FLOAT16 = 1, 10  # Of onnx.TensorProto.
_MAX_LISTED = 5


def convert(network: Network, quantize: str | None, batches: Iterable[Mapping[str, np.ndarray]]) -> bytes:
    """Returns the content of an ONNX file whose inputs and outputs have the names of the network's.

    Args:
      quantize: 'int8' for matrix products and convolutions; 'float16' for these and tables of embeddings. The rest is float32.
      batches: {name: array [batch, ...]} of inputs by which the range of each tensor is measured, for int8.

    Raises:
      UsageError: ONNX lacks an op, an input has the name of a prediction, or the file would be too large.
    """
    try:
        with silenced():
            model = _convert(network)
            _check_ops(model)
            _check_names(network)
            _name_batches(model)
            if quantize == 'float16':
                model = _to_float16(model)
            return _to_int8(model, network, batches) if quantize == 'int8' else model.SerializeToString()
    except EncodeError:
        raise too_large() from None


def _convert(network):
    import tf2onnx  # Only here: no other format needs it.

    ports = {**network.outputs, **network.inputs}  # For `_check_names`, which follows, one of each name.
    try:
        return tf2onnx.convert.from_graph_def(
            network.definition,
            input_names=[port.tensor for port in network.inputs.values()],
            output_names=[port.tensor for port in network.outputs.values()],
            opset=_OPSET,
            custom_op_handlers={'SelectV2': (_to_where, [])},
            tensors_to_rename={port.tensor: name for name, port in ports.items()},
        )[0]
    except EncodeError:
        raise
    except Exception as error:  # tf2onnx raises many.
        raise UsageError(
            f'--format=onnx: tf2onnx cannot convert the model ({first_line(error)}): build it from other ops, or choose '
            '--format=saved_model'
        ) from None


def _to_where(graph, node, name, arguments):
    """Converts SelectV2; tf2onnx itself may make a sum of products, which is NaN if either value is."""
    node.type = 'Where'


def _check_ops(model):
    import onnx

    unknown = {node.op_type: node.name for node in model.graph.node if not onnx.defs.has(node.op_type, node.domain)}
    if unknown:
        names = listed([f'{kind} ({name})' for kind, name in unknown.items()], _MAX_LISTED)
        raise UsageError(
            f'--format=onnx: ONNX lacks the TensorFlow ops {names}: build the model from others, or choose --format=saved_model'
        )


def _check_names(network):
    if names := [name for name in network.inputs if name in network.outputs]:
        raise UsageError(
            f'--format=onnx: an input and a prediction are both named {listed(names, _MAX_LISTED)}, which an ONNX file does '
            'not allow: rename either, or choose --format=saved_model'
        )


def _name_batches(model):
    for value in (*model.graph.input, *model.graph.output):
        for i, dimension in enumerate(value.type.tensor_type.shape.dim):
            if not dimension.dim_value:
                dimension.dim_param = f'{value.name}_{i}' if i else 'batch'


def _to_float16(model):
    from onnxruntime.transformers import float16

    blocked = sorted({node.op_type for node in model.graph.node} - {*_HALVED})
    names = {name for node in model.graph.node for name in node.output}
    has_halves = any(_is_cast(node, _FLOAT16) for node in model.graph.node)
    found = float16.convert_float_to_float16(model, keep_io_types=True, op_block_list=blocked)
    if not has_halves:
        _remove_round_trips(found.graph, names)
    _sort(found.graph)
    return found


def _is_cast(node, kind):
    """Whether a node casts its input to a type."""
    return node.op_type == 'Cast' and node.attribute[0].i == kind


def _remove_round_trips(graph, names):
    """Gives ops in float32 what others have made as it is: the converter casts each of their values to float16 and back.

    So numbers above 65504 became infinite.

    Args:
      names: of the tensors before the conversion.
    """
    outputs = {output.name for output in graph.output}
    inner = {name for node in graph.node for name in _used_within(node)}
    halves = {node.output[0]: node.input[0] for node in graph.node if _is_cast(node, _FLOAT16)}
    casts = [node for node in graph.node if _is_cast(node, _FLOAT) and node.input[0] in halves]
    whole = {node.output[0]: halves[node.input[0]] for node in casts}
    for node in graph.node:
        if node.output[0] in whole and node.output[0] in outputs:
            node.op_type, node.input[0] = 'Identity', whole[node.output[0]]
            del node.attribute[:]
        else:
            node.input[:] = [whole.get(name, name) for name in node.input]
    for made in (whole, halves):  # The former use the latter.
        used = {*outputs, *inner, *(name for node in graph.node for name in node.input)}
        _replace_nodes(graph, [node for node in graph.node if node.output[0] not in made or node.output[0] in used])
    lost = {*names} - {name for node in graph.node for name in node.output}
    former = {source: name for name, source in halves.items() if name in lost and source not in outputs | inner}
    for node in graph.node:  # By their names, ops are compared with those of the network.
        node.input[:] = [former.get(name, name) for name in node.input]
        node.output[:] = [former.get(name, name) for name in node.output]
    del graph.value_info[:]  # Their types have changed.


def _used_within(node):
    """Yields the names of the inputs of nodes in the graphs within a node, as those of loops are."""
    for attribute in node.attribute:
        for inner in (inner for body in (attribute.g, *attribute.graphs) for inner in body.node):
            yield from inner.input
            yield from _used_within(inner)


def _sort(graph):
    """Puts each node after those whose outputs it takes, as ONNX requires; the converter adds its casts at the end."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    needed = {
        i: {makers[name] for name in (*node.input, *_used_within(node)) if name in makers} for i, node in enumerate(graph.node)
    }
    _replace_nodes(graph, [graph.node[number] for number in graphlib.TopologicalSorter(needed).static_order()])


def _replace_nodes(graph, nodes):
    del graph.node[:]
    graph.node.extend(nodes)


def _to_int8(model, network, batches):
    import onnx
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self._batches = ({name: batch[name] for name in network.inputs} for batch in batches)

        def get_next(self):
            return next(self._batches, None)

    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(directory, name) for name in ('float.onnx', 'int8.onnx')]
        onnx.save(model, paths[0])
        quantization.quantize_static(
            *paths,
            Reader(),
            op_types_to_quantize=_QUANTIZED,
            per_channel=True,
            weight_type=quantization.QuantType.QInt8,
            activation_type=quantization.QuantType.QUInt8,
        )
        return onnx.load(paths[1]).SerializeToString()


def opened(content: bytes) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
    """Returns the function from a batch of inputs, {name: array [batch, ...]}, to the outputs of a file."""
    import onnxruntime

    with silenced():
        session = onnxruntime.InferenceSession(content, providers=['CPUExecutionProvider'])
    inputs, outputs = ([value.name for value in values] for values in (session.get_inputs(), session.get_outputs()))
    return lambda batch: dict(zip(outputs, session.run(outputs, {name: batch[name] for name in inputs})))


def traced(content: bytes, network: Network, batch: Mapping[str, np.ndarray]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yields ([name of a tensor of the network], its value in the file) in the order of the file's ops."""
    import onnx

    model, known = onnx.load_from_string(content), tensors(network)
    made = [name for node in model.graph.node for name in node.output if name in known]
    shown = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in shown)
    values = opened(model.SerializeToString())(batch)
    for name in made:
        yield [name], values[name]


def example(network: Network, name: str) -> str:
    """Returns lines of Python that run a file in the current directory."""
    return f"""import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession('{name}')
inputs = {{
{inputs_text(network)}
}}
names = [output.name for output in session.get_outputs()]
print(dict(zip(names, session.run(names, inputs))))"""

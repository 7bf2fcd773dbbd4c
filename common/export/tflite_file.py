"""Networks as TFLite files: conversion by TensorFlow, execution by ai-edge-litert."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import os
import re
import tempfile

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, first_line, listed
from estimator_trainer.common.export.network import Network, inputs_text, tensors
from estimator_trainer.common.export.quiet import silenced
from estimator_trainer.common.export.saved_model import refused

PACKAGES = ('ai_edge_litert',)
_SIGNATURE = 'serving_default'
_MAX_LISTED = 5  # Names in a message.


def convert(network: Network, quantize: str | None, batches: Iterable[Mapping[str, np.ndarray]]) -> bytes:
    """Returns the content of a TFLite file whose signature serving_default has the names of the network's inputs and outputs.

    Args:
      quantize: 'int8' for weights and ops, as far as TFLite has them; 'float16' for weights. Inputs and outputs stay.
      batches: {name: array [batch, ...]} of inputs by which the range of each tensor is measured, for int8.

    Raises:
      UsageError: TFLite lacks an op, or TensorFlow's converter fails for the name of an input.
    """
    with tempfile.TemporaryDirectory() as directory, silenced():
        path = os.path.join(directory, 'model')
        _save(network, path)
        try:
            converter = tf2.lite.TFLiteConverter.from_saved_model(path)
        except ValueError:
            if names := refused(network.inputs):
                raise UsageError(
                    "--format=tflite: TensorFlow's converter makes Python names of inputs, which fails for "
                    f'{listed(names, _MAX_LISTED)}: rename these, or choose --format=onnx'
                ) from None
            raise
        if quantize:
            converter.optimizations = [tf2.lite.Optimize.DEFAULT]
        if quantize == 'float16':
            converter.target_spec.supported_types = [tf.float16]
        if quantize == 'int8':
            converter.representative_dataset = lambda: _single(batches, network.inputs)
        try:
            return converter.convert()
        except Exception as error:  # The converter raises many.
            raise _refusal(error) from None


def _save(network, path):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(network.definition, name='')
        inputs, outputs = (
            {name: graph.get_tensor_by_name(port.tensor) for name, port in ports.items()}
            for ports in (network.inputs, network.outputs)
        )
        tf.saved_model.simple_save(session, path, inputs, outputs)


def _single(batches, names):
    """Yields the inputs of these names of each example of batches."""
    for batch in batches:
        for i in range(len(next(iter(batch.values())))):
            yield {name: batch[name][i : i + 1] for name in names}


def _refusal(error):
    lists = re.findall(r'^(?:TF Select|Flex|Custom) ops: (.+)', str(error), re.MULTILINE)
    if not lists:
        reason = f"TensorFlow's converter cannot convert the model ({first_line(error)})"
    else:
        places = dict(re.findall(r'loc\(fused\["(\w+):", "([^"]+)"\]\)', str(error)))
        ops = ', '.join(
            f'{name} ({places[name]})' if name in places else name for text in lists for name in re.split(r',\s*', text.strip())
        )
        reason = f'TFLite lacks the TensorFlow ops {ops}'
    return UsageError(f'--format=tflite: {reason}: build the model from others, or choose --format=saved_model')


def _interpreter(content, **options):
    from ai_edge_litert.interpreter import Interpreter  # Only here: no other format needs it.

    with silenced():
        interpreter = Interpreter(model_content=content, **options)
        interpreter.allocate_tensors()  # Says which delegate it has.
        return interpreter


def opened(content: bytes) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
    """Returns the function from a batch of inputs, {name: array [batch, ...]}, to the outputs of a file."""
    run = _interpreter(content).get_signature_runner(_SIGNATURE)
    names = [*run.get_input_details()]
    return lambda batch: dict(run(**{name: batch[name] for name in names}))


def traced(content: bytes, network: Network, batch: Mapping[str, np.ndarray]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yields (names of tensors of the network that may be meant, value in the file) in the order of the file's ops.

    TFLite names a tensor by some of the ops that it has fused: a bias and an activation, which follow, may be missing.
    """
    known = tensors(network)
    from ai_edge_litert.interpreter import OpResolverType

    # A delegate would keep the tensors between its ops to itself.
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = _interpreter(content, experimental_preserve_all_tensors=True, experimental_op_resolver_type=kernels)
    interpreter.get_signature_runner(_SIGNATURE)(**{name: batch[name] for name in network.inputs})
    for detail in interpreter.get_tensor_details():
        parts = [f'{re.sub(":[0-9]+$", "", part)}:0' for part in detail['name'].split(';')]
        names = [name for part in parts for name in (part, re.sub(r'\d+:0$', ':0', part)) if name in known]
        for _ in range(2):
            names += [other for name in names for other in known.get(name, ())]
        scale, zero = detail['quantization']
        if names:
            value = interpreter.get_tensor(detail['index'])
            yield [*dict.fromkeys(names)], (value.astype(np.float32) - zero) * scale if scale else value


def example(network: Network, name: str) -> str:
    """Returns lines of Python that run a file in the current directory."""
    return f"""import numpy as np
from ai_edge_litert.interpreter import Interpreter

run = Interpreter('{name}').get_signature_runner('{_SIGNATURE}')
inputs = {{
{inputs_text(network)}
}}
print(run(**inputs))"""

"""Predicts with an exported model in ONNX Runtime: python onnx_answers.py DATA.npz BATCH_SIZE SAVED_MODEL"""

import sys

from answer_times import measure
import numpy as np
import onnxruntime
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
import tf2onnx.convert


def to_onnx(path: str) -> bytes:
    """Returns the default signature of a SavedModel as an ONNX model with one input."""
    signature = tf.saved_model.load(path).signatures['serving_default']
    signature = convert_variables_to_constants_v2(signature, lower_control_flow=False)
    graph = signature.graph.as_graph_def()
    for node in graph.node:
        # The graph joins images of serialized examples, here none, to those given as arrays.
        if node.op == 'ConcatV2' and node.name.startswith('inputs/'):
            node.op = 'Identity'
            del node.input[1:], node.attr['N'], node.attr['Tidx']
        elif node.op == 'PlaceholderWithDefault':
            node.op = 'Placeholder'
            del node.input[:]
    model, _ = tf2onnx.convert.from_graph_def(
        graph, input_names=[signature.inputs[0].name], output_names=[output.name for output in signature.outputs]
    )
    return model.SerializeToString()


def main(path: str, batch_size: int, saved_model: str) -> None:
    with np.load(path) as data:
        images = data['images']
    session = onnxruntime.InferenceSession(to_onnx(saved_model))
    name = session.get_inputs()[0].name
    print(measure(lambda batch: session.run(None, {name: batch}), images, batch_size))


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

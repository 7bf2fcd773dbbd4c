"""A summary of a model's inputs and parameters, for the log."""

from collections.abc import Mapping, Sequence
import math

import tensorflow.compat.v1 as tf


def describe(
    features: Mapping[str, tf.Tensor], labels: Mapping[str, tf.Tensor] | None, variables: Sequence[tf.Variable]
) -> list[str]:
    """Returns lines of text: dtype and shape of each input, shape and parameter count of each variable, and the total."""
    lines = [
        f'Input {name}: {tensor.dtype.base_dtype.name} {tensor.shape}'
        for name, tensor in sorted({**features, **(labels or {})}.items())
    ]
    rows = [(variable.op.name, str(variable.shape), math.prod(variable.shape.as_list())) for variable in variables]
    rows.append(('total', '', sum(count for _, _, count in rows)))
    width = max(len(name) for name, _, _ in rows)
    shape_width = max(len(shape) for _, shape, _ in rows)
    return lines + [f'{name:{width}}  {shape:{shape_width}}  {count:12,}' for name, shape, count in rows]

"""A model in numbers, for the log."""

import math


def describe(features, labels, variables):
    """Returns lines of text: the input's dtypes and shapes, and each variable's shape and count, with their sum.

    Args:
      features, labels: dicts of tensors; labels may be None.
      variables: list of tf.Variable.
    """
    lines = [
        f'Input {name}: {tensor.dtype.base_dtype.name} {tensor.shape}'
        for name, tensor in sorted({**features, **(labels or {})}.items())
    ]
    rows = [(variable.op.name, str(variable.shape), math.prod(variable.shape.as_list())) for variable in variables]
    rows.append(('total', '', sum(count for _, _, count in rows)))
    width = max(len(name) for name, _, _ in rows)
    shape_width = max(len(shape) for _, shape, _ in rows)
    return lines + [f'{name:{width}}  {shape:{shape_width}}  {count:12,}' for name, shape, count in rows]

"""tf.estimator.inputs: columns of strings as pandas has them since 3.0 become objects, which the queues of TensorFlow take."""

import collections
from typing import Any

from tf_estimator.mending import around

from tensorflow_estimator.python.estimator.inputs.queues import feeding_functions


@around(feeding_functions, '_enqueue_data')
def _enqueue_data(former, data, *args, **kwargs):
    return former(with_objects(data), *args, **kwargs)


def with_objects(data: Any) -> Any:
    """Returns a DataFrame or an OrderedDict of arrays without columns of pandas's StringDtype; other data as it is."""
    if isinstance(data, collections.OrderedDict):
        return collections.OrderedDict((name, _as_objects(column)) for name, column in data.items())
    if hasattr(data, 'set_axis') and hasattr(data, 'dtypes'):
        strings = {name: object for name, dtype in data.dtypes.items() if _are_strings(dtype)}
        return data.astype(strings).set_axis(_as_objects(data.index))
    return data


def _as_objects(column):
    return column.astype(object) if _are_strings(column.dtype) else column


def _are_strings(dtype):
    return type(dtype).__name__ == 'StringDtype'  # pandas may not be installed.

"""Calls of a graph in a session that take little time besides that of its ops."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import config_pb2

Call = Callable[..., dict[str, np.ndarray]]


def make_call(
    session: tf.Session, fetches: Mapping[str, tf.Tensor], feeds: Sequence[tf.Tensor], in_caller: bool = False
) -> Call:
    """Returns a function from an array for each tensor of `feeds` to {name: array} of `fetches`.

    It calls the session directly, and checks no shapes. To find tensors by name takes session.run 0.2 ms, and with feeds
    session.make_callable, too.

    Args:
      fetches: different tensors, none of `feeds`.
      in_caller: whether the thread that calls runs the ops, one after the other.
    """
    options = config_pb2.CallableOptions(
        feed=[tensor.name for tensor in feeds], fetch=[tensor.name for tensor in fetches.values()]
    )
    options.run_options.inter_op_thread_pool = -1 if in_caller else 0
    call, names = session._make_callable_from_options(options), [*fetches]
    return lambda *arrays: dict(zip(names, call(*arrays)))

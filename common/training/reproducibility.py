"""Random numbers: seeds, and a warning of ops that make a resumed run differ from an uninterrupted one."""

from collections.abc import Iterable, Iterator
import contextlib
import random
import sys
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import ancestors, random_ops, subgraph

_FUSED = (
    *('MatMul', 'BatchMatMul', 'Conv', 'Depthwise', 'Bias', 'FusedBatchNorm', 'Sigmoid', 'Tanh', 'Softplus'),
    *('Add', 'Mul', 'Sub', 'RealDiv', 'Pow'),  # Constants of two in a row become one.
)
_NEVER_FUSED = (
    'SparseSoftmaxCrossEntropyWithLogits',
    'SoftmaxCrossEntropyWithLogits',
    'Reshape',
    'Identity',
)  # With one before.


def warn_of_random_ops(train_op: tf.Operation) -> None:
    """Logs a warning for each kind of random op, in the model or the input pipeline, whose state checkpoints lack."""
    iterators = [op for op in train_op.graph.get_operations() if op.type == 'MakeIterator']
    for place, fetches, seed in (
        ('input pipeline', iterators, 'estimator_trainer.example_seed'),
        ('model', [train_op], 'estimator_trainer.common.ops.random.step_seed'),
    ):
        found = {kind: name for name, kind, _ in random_ops(subgraph(ancestors(fetches)))}
        for kind, name in sorted(found.items()):
            tf.logging.warning(
                f'{name} ({kind}) in the {place} draws other numbers after a restart: use tf.random.stateless_* with a seed of '
                f'{seed}.'
            )


def shared_ops(train_op: tf.Operation, shown: Iterable[tf.Operation | tf.Tensor]) -> list[tf.Operation]:
    """Returns the ops of a step that must stay apart from others, since what is shown at some steps uses their outputs, too.

    TensorFlow fuses an op with the only one that uses its output, such as a product with the sum that follows, which rounds
    otherwise. At steps that show it, it has more users. As dependencies of each step, such ops are never fused with the next.

    Args:
      shown: summaries and metrics.
    """
    step = ancestors([train_op])
    used = [tensor for op in ancestors(shown) if op not in step for tensor in op.inputs]
    return [*{tensor.op: None for tensor in used if tensor.op in step and _may_fuse(tensor, step)}]


def _may_fuse(tensor, step):
    if not tensor.op.type.startswith(_FUSED) or tensor.op._get_control_flow_context() is not None:
        return False
    users = [user for user in tensor.consumers() if user in step]
    return len(users) == 1 and users[0].type not in _NEVER_FUSED


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the block, seeds Python, NumPy and the initializers of Keras.

    These use Python's generator, or their own after tf.keras.utils.set_random_seed.
    """
    state, numpy_state = random.getstate(), np.random.get_state()
    modules: list[Any] = [sys.modules.get(name) for name in ('tf_keras.src.backend', 'keras.src.backend')]
    of_keras: list[Any] = [vars(module._SEED_GENERATOR) for module in modules if hasattr(module, '_SEED_GENERATOR')]
    generators = [names.pop('generator', None) for names in of_keras]
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
        for names, generator in zip(of_keras, generators):
            if generator:
                names['generator'] = generator

"""A warning of random ops that make a resumed run differ from an uninterrupted one."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import ancestors, random_ops, subgraph


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

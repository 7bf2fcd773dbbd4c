"""Tensors of a program's own input_fn that begin at the batch of the global step, as a dataset that skips earlier ones does.

They come from iterators, each of which skips the elements of earlier steps. That holds if a step takes one element of each, and
keeps nothing else of the steps before.
"""

from collections.abc import Iterator, Sequence
import contextlib
from typing import Any

from tf_estimator.exact import keys
from tf_estimator.graphs import TABLE_OPS

import tensorflow.compat.v1 as tf
from tensorflow.python.data.ops import dataset_ops

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import ancestors

STARTS = 'starts_of_input'  # A collection: what starts the iterators, once the global step is known.
_STATELESS = ('IteratorV2', 'IteratorGetNext', *TABLE_OPS, 'Assert', 'Print', 'PrintV2')


@contextlib.contextmanager
def skipping(step: tf.Tensor) -> Iterator[list[Any]]:
    """Within the block, iterators of datasets begin at a step, int64 scalar; yields a list that gets them."""
    dataset = dataset_ops.DatasetV1
    make, make_one_shot = dataset._make_initializable_iterator, dataset._make_one_shot_iterator
    made: list[Any] = []

    def begin(self, shared_name=None):
        made.append(make(self.skip(step), shared_name))
        return made[-1]

    dataset._make_initializable_iterator = dataset._make_one_shot_iterator = begin
    try:
        yield made
    finally:
        dataset._make_initializable_iterator, dataset._make_one_shot_iterator = make, make_one_shot


def prepare(batch: Any, iterators: Sequence[Any]) -> None:
    """Leaves the start of the iterators to STARTS: the program's may precede the restoring of the global step.

    Args:
      batch: a structure of tensors and constants, such as NumPy arrays, those of the input_fn.
      iterators: those of `skipping`.

    Raises:
      UsageError: the batch may depend on something else than the step.
    """
    key = keys.fed_key(tf.get_default_graph())  # Of random ops: a function of the step.
    tensors = [tensor for tensor in tf.nest.flatten(batch, expand_composites=True) if tf.is_tensor(tensor)]
    of_key = ancestors([] if key is None else [key])
    ops = [op for op in ancestors(tensors) if op not in of_key]
    taken = [op.inputs[0] for op in ops if op.type == 'IteratorGetNext']
    known = {id(iterator._iterator_resource) for iterator in iterators}
    kept = sorted({op.type for op in ops if op.op_def.is_stateful and op.type not in _STATELESS})
    if not all(id(resource) in known for resource in taken):
        kept.append('tf.data.Iterator')
    if any(sum(op.type == 'IteratorGetNext' for op in resource.consumers()) > 1 for resource in taken):
        kept.append('several get_next()')
    starts = [iterator.initializer for iterator in iterators]
    if any(op.type == 'Placeholder' and op not in of_key for op in ancestors(starts)):
        kept.append('tf.placeholder')
    if kept:
        raise UsageError(
            f'input_fn() returns tensors that depend on {", ".join(kept)}: a task cannot skip those of earlier steps, so a '
            'synchronous cluster needs a tf.data.Dataset'
        )
    tables = tf.get_collection_ref(tf.GraphKeys.TABLE_INITIALIZERS)
    tables[:] = [op for op in tables if op not in starts]
    for start in starts:
        tf.add_to_collection(STARTS, start)

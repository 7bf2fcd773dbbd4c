"""The classes of the training examples, read before training that balances them."""

import dataclasses

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, first_line, listed
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import label_batches
from estimator_trainer.common.plugins.class_weights import BALANCED, CLASS_COUNTS, in_order, no_classes_error
from estimator_trainer.common.records.elements import INFINITE, cardinality, iterate, opened
from estimator_trainer.common.targets import IGNORED, is_segmentation
from estimator_trainer.hparams.build import HParams

_SHOWN_CLASSES = 20


def with_class_counts(source: DataSource) -> DataSource:
    """Returns the dataset with the class counts in its metadata, if class_weights=balanced needs them; says the weights.

    Raises:
      UsageError: both balance the classes; or as for `read_labels`.
    """
    params = source.params
    if params.class_weights != BALANCED:
        return source
    if params.oversample:
        raise UsageError(f'oversample=true excludes class_weights={BALANCED}: each alone balances the classes')
    if CLASS_COUNTS not in params.metadata:
        name, num_classes = f'class_weights={BALANCED}', params.get('num_classes', 0)
        if is_segmentation(params.metadata):  # Too many labels for memory.
            counts = sum(
                (np.bincount(labels[labels != IGNORED], minlength=num_classes) for labels in _label_batches(source, name, 3)),
                np.zeros(num_classes, np.int64),
            ).tolist()
        else:
            counts = np.bincount(read_labels(source, name), minlength=num_classes).tolist()
        params = HParams(params, {**params.metadata, CLASS_COUNTS: counts}, params.batch_start)
    counts = params.metadata[CLASS_COUNTS]
    names = params.metadata.get('class_names') or range(len(counts))
    shown = [f'{name} {weight:.4g}, of {count}' for name, weight, count in zip(names, in_order(params), counts)]
    unit = 'pixels' if is_segmentation(params.metadata) else 'examples'
    tf.logging.info('class_weights=%s: weights of the classes, and their %s: %s', BALANCED, unit, listed(shown, _SHOWN_CLASSES))
    return dataclasses.replace(source, params=params)


def read_labels(source: DataSource, name: str) -> np.ndarray:
    """Returns the class of each example of the training split, int64 [examples], in its order, in a pass over its labels.

    Args:
      name: what needs them, for messages.

    Raises:
      UsageError: the dataset has no classes, makes its own batches or is infinite.
      RunError: it cannot be read.
    """
    found = [*_label_batches(source, name, 1)]
    labels = np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)
    _check(labels, name, source.params)
    return labels


def _label_batches(source, name, rank):
    """Yields the label of the batches of the training split, which has this rank, with errors as those of `read_labels`."""
    params, split = source.params, source.params.train_split
    if source.has_input_fn():
        raise UsageError(f'{name}: --dataset={params.dataset} makes its own batches, whose classes are not known: omit it')
    tf.logging.info('%s: reading the labels of the split %s.', name, split)
    with opened(lambda: label_batches(source, source.read(split))) as (session, batches):
        if cardinality(session, batches) == INFINITE:
            raise UsageError(f'{name}: the split {split} is infinite: omit it')
        spec = (batches.element_spec[1] or {}).get('label')
        if not isinstance(spec, tf.TensorSpec) or not spec.dtype.is_integer or spec.shape.rank != rank:
            raise no_classes_error(name, params)
        with session.graph.as_default():
            batches = batches.map(lambda position, labels: labels['label'])
        try:
            yield from iterate(session, batches)
        except tf.errors.OpError as error:
            raise RunError(f'{name}: the labels of the split {split} cannot be read: {first_line(error)}') from error


def _check(labels, name, params):
    """Raises RunError if a label is no class of the model."""
    num_classes = params.get('num_classes') or np.inf
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if wrong.size:
        raise RunError(
            f'{name}: example {wrong[0]} of the split {params.train_split} has the label {labels[wrong[0]]}, but the classes '
            f'are 0 to {num_classes - 1}'
        )

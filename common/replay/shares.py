"""A step of a cluster's training, looked at: each task's share of the batch by its own graph, and all of them as one step."""

from collections.abc import Sequence
import functools
import operator
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.parts import part_size
from estimator_trainer.common.replay.culprits import Culprits
from estimator_trainer.common.replay.inspection import Inspected, Inspection, Layer
from estimator_trainer.common.replay.measures import Measure, measure
from estimator_trainer.common.replay.recorded import Recorded
from estimator_trainer.common.replay.recorder import weights_of

_ARRAYS = ('features', 'labels', 'predictions')


class ShareInspection(Inspection):
    """The training graph of a task, whose weights are those that the tasks have recorded."""

    def __init__(self, session: tf.Session, features: Any, labels: Any, spec: Any, fed: Any):
        super().__init__(session, features, labels, spec, fed)
        self._savers = [tf.train.Saver(weights_of(spec.loss, True))]
        if own := weights_of(spec.loss, False):
            self._savers.append(tf.train.Saver(own))

    def look(self, recorded: Recorded, step: int, task: int) -> tuple[Inspected, dict[str, np.ndarray], int]:
        """Returns the share that a task has of a step, the gradients of its own loss by variable, and the recorded rows."""
        batch = recorded.take_batch(step, task)
        self._recorded, self._after = recorded, step
        self._restore(step - 1, task)
        gradients = self._session.run(self._gradients, dict(zip(self._fed, batch, strict=True)))
        with self._session.graph.as_default():  # It adds ops to find what is not finite.
            return self.step(batch), gradients, len(batch[0])

    def _restore(self, step, task=0):
        """Restores the weights at a global step, those that all tasks have in common and then the task's own."""
        for saver, other in zip(self._savers, [0, task] if task else [0]):
            saver.restore(self._session, self._recorded.weights_path(step, other))

    def _advance(self, feeds):
        del feeds  # The tasks have updated the variables together.
        self._restore(self._after)
        return float('nan')


def look(inspections: Sequence[ShareInspection], recorded: Recorded, step: int, batch_size: int | None) -> Inspected:
    """Returns a step as all tasks have made it, its examples in the order of the batch, and deletes what was recorded of it.

    Args:
      inspections: of each task.
      batch_size: of all tasks; None if each has recorded the whole batch, of which its graph takes a part of consecutive rows.
    """
    found = [inspection.look(recorded, step, task) for task, inspection in enumerate(inspections)]
    recorded.delete_weights(step - 1)
    parts = [inspected for inspected, _, _ in found]
    is_whole, size = batch_size is None, found[0][2] if batch_size is None else batch_size
    sizes = [part_size(size, len(parts), task) for task in range(len(parts))]
    scales = [functools.partial(_scaled, one, size, is_whole) for one in sizes]
    gradients = {name: [own[name] for _, own, _ in found] for name in found[0][1]}
    loss = _mean_loss([np.float32(part.losses[0]) for part in parts], scales, recorded.losses[step])
    joined: dict[str, Any]
    if is_whole:
        predictions = _arrays_in_rows([part.predictions for part in parts], sizes)
        joined = {'features': parts[0].features, 'labels': parts[0].labels, 'predictions': predictions}
    else:
        joined = {name: _arrays_in_order([getattr(part, name) for part in parts]) for name in _ARRAYS}
    return parts[0]._replace(
        losses=(loss, loss),
        example_losses=_in_order([part.example_losses for part in parts]),
        gradient_norms=_in_order([part.gradient_norms for part in parts]),
        **joined,
        gradients={name: measure(_mean(own, scales)) for name, own in gradients.items()},
        layers=[
            Layer(layers[0].name, layers[0].type, _whole([layer.measure for layer in layers]))
            for layers in zip(*(p.layers for p in parts))
        ],
        origin=next((part.origin for part in parts if part.origin), None),
        culprits=_culprits(parts, size, is_whole),
    )


def _culprits(parts, size, is_whole):
    """Returns the Culprits of all shares of a batch, by their numbers in it; None if none has any."""
    count, known = len(parts), {task: part.culprits for task, part in enumerate(parts) if part.culprits}
    if not known:
        return None

    def in_batch(number, task):
        return number if is_whole else number * count + task

    found = sorted({in_batch(number, task) for task, own in known.items() for number in own.found})
    first, places = min(known), np.arange(size)
    good = in_batch(known[first].good, first)
    are_all = all(part.culprits.are_all if part.culprits else not part.origin for part in parts)
    return Culprits(found, np.where(np.isin(places, found), good, places), good, are_all)


def _mean_loss(losses, scales, trained):
    """Returns the mean of the losses of tasks, which a ring adds from one of them on: as trained, if an order gives that."""
    count = len(losses)
    orders = [[(first + i * way) % count for i in range(count)] for way in (1, -1) for first in range(count)]
    means = [float(_mean([losses[i] for i in order], [scales[i] for i in order])) for order in orders]
    return float(trained) if trained in means else means[0]


def _mean(shares, scales):
    return functools.reduce(operator.add, [scaled(share) for share, scaled in zip(shares, scales)])


def _scaled(part, size, is_whole, share):
    """Returns the share that a part of a batch has of a mean, as common/cluster/collectives.py computes it.

    TensorFlow divides by the reciprocal of a weight that it computes, and multiplies by the reciprocal of a constant.
    """
    one, dtype = np.float32(1), share.dtype
    if not is_whole:
        return share * (one / np.float32(size / part)).astype(dtype)
    with np.errstate(divide='ignore', invalid='ignore'):
        return share / (one / (np.float32(part) / np.float32(size))).astype(dtype)


def _arrays_in_rows(parts, sizes):
    """Returns the arrays of consecutive rows as those of the batch; the rows of an empty part are borrowed."""
    return {name: np.concatenate([part[name][:size] for part, size in zip(parts, sizes)]) for name in parts[0]}


def _arrays_in_order(parts):
    return {name: _in_order([part[name] for part in parts]) for name in parts[0]}


def _in_order(arrays):
    """Returns the shares of an array [batch, ...] in the order of the batch, of which task i of n has each n-th, from i on.

    Shares that are padded to different lengths get the largest one.
    """
    if arrays[0] is None:
        return None
    shape = np.max([array.shape[1:] for array in arrays], axis=0).astype(int)
    whole = np.zeros([sum(map(len, arrays)), *shape], arrays[0].dtype)
    if whole.dtype == object:
        whole[...] = b''
    places = sorted((i * len(arrays) + task, task, i) for task, array in enumerate(arrays) for i in range(len(array)))
    for place, (_, task, i) in enumerate(places):
        index: Any = (place, *map(slice, arrays[task].shape[1:]))
        whole[index] = arrays[task][i]
    return whole


def _whole(parts):
    """Returns the Measure of tensors that have these, together."""
    size = sum(part.size for part in parts)
    return Measure(
        float(np.linalg.norm([part.norm for part in parts])),
        max(part.largest for part in parts),
        sum(part.zeros * part.size for part in parts) / size if size else 0.0,
        sum(part.nan for part in parts),
        sum(part.infinite for part in parts),
        size,
    )

"""A step of a run, looked at: its batch goes through the training graph once more, in a session of its own."""

from collections.abc import Iterator, Mapping
import contextlib
import functools
import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.evaluated_input import aside
from estimator_trainer.common.plugins.estimator_contract import named
from estimator_trainer.common.replay import culprits
from estimator_trainer.common.replay.culprits import Culprits
from estimator_trainer.common.replay.measures import Measure, Origin, find_origin, layers, measure, measures_of, to_measure
from estimator_trainer.common.replay.odd_values import odd_values
from estimator_trainer.common.replay.recorder import flat
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage.restore import make_saver
from estimator_trainer.common.training import observed
from estimator_trainer.common.training.gradients import in_one_type, merge_duplicates
from estimator_trainer.common.training.minimize import LOSS_SCALING_VARIABLES

_SECONDS = 60.0  # For the gradients of single examples, each of which takes as long as a step, and for the culprits likewise.
Arrays = Mapping[str, np.ndarray]


class Layer(NamedTuple):
    """The output of an op of the model."""

    name: str
    type: str
    measure: Measure


class Inspected(NamedTuple):
    """A step, looked at.

    Attributes:
      loss: of this computation, and of the one that updated the variables; they differ if random ops have states.
      example_losses: float [batch], without regularization; None if the model has its own training step. With culprits, those
        of the batch without them, and of each of them in that batch.
      gradient_norms: likewise, the norm of the gradient of each example's loss; NaN if time ran out.
      features, labels, predictions: {name: array [batch, ...]}; features are those after augmentation.
      gradients, updates: of each variable, by name.
      origin: where the first NaN or infinity arises; None if there is none.
      culprits: the examples by which loss or gradients are not finite; None if they are, or none was found.
      loss_scale: that of float16, before the step; None without. All losses and gradients are those without it.
      is_skipped: whether the step left the variables as they are, as gradients overflow float16 at this scale.
    """

    losses: tuple[float, float]
    example_losses: np.ndarray | None
    gradient_norms: np.ndarray | None
    features: Arrays
    labels: Arrays
    predictions: Arrays
    gradients: Mapping[str, Measure]
    updates: Mapping[str, Measure]
    layers: list[Layer]
    origin: Origin | None
    culprits: Culprits | None
    loss_scale: float | None
    is_skipped: bool


class Inspection:
    """The training graph with the variables of a checkpoint, in a session."""

    def __init__(self, session: tf.Session, features: Any, labels: Any, spec: Any, fed: Mapping[Any, tf.Tensor]):
        self._session, self._spec = session, spec
        self._fed = [*fed.values()]
        features, labels, predictions, *shown = (
            {name: fed.get(value.ref(), value) for name, value in values.items() if isinstance(value, tf.Tensor)}
            for values in (
                named(features, 'features'),
                named(labels, 'label'),
                named(spec.predictions, 'predictions'),
                *tf.get_collection(observed.FEATURES),
            )
        )
        self._names = {value.name: f'the input {name}' for name, value in {**features, **labels}.items()}
        example_loss = tf.get_collection(observed.EXAMPLE_LOSS)
        self._example_loss = example_loss[0] if example_loss and example_loss[0].shape.rank == 1 else None
        self._variables = {variable.op.name: variable for variable in tf.trainable_variables()}
        self._gradients = _gradients(spec.loss)
        self._layers = layers(self._fed, spec.loss)
        self._fetches = {
            'loss': spec.loss,
            'example_losses': [] if self._example_loss is None else [self._example_loss],
            'features': [_batched(values) for values in shown or [features]],
            'labels': _batched(labels),
            'predictions': _batched(predictions),
            'gradients': {name: measures_of(value) for name, value in self._gradients.items()},
            'layers': [measures_of(tensor) for tensor in self._layers],
        }
        scales = [one for one in tf.global_variables() if one.op.name.rpartition('/')[2] == LOSS_SCALING_VARIABLES[0]]
        self._has_scale, self._scale = bool(scales), scales[0] if scales else tf.ones([])
        checked = [spec.loss, *self._gradients.values()]
        self._is_finite = tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(value)) for value in checked]))
        if self._example_loss is not None:
            self._weights = tf.placeholder(self._example_loss.dtype, [None], 'example_weights')
            # As in the mean of the batch: float16 would lose smaller ones, and overflow by larger ones.
            scale = tf.cast(self._scale / tf.size(self._example_loss, out_type=tf.float32), self._example_loss.dtype)
            total = tf.reduce_sum(self._example_loss * self._weights) * scale
            pulled = tf.gradients(total, [*self._variables.values()])
            merged = [merge_duplicates(gradient) for gradient in pulled if gradient is not None]
            self._norm = tf.global_norm(in_one_type(merged)) if merged else tf.zeros([])
            self._norm /= tf.cast(scale, self._norm.dtype)

    def step(self, batch: list[Any]) -> Inspected:
        """Runs the step of a batch, arrays as of `flat`, after looking at it."""
        feeds = dict(zip(self._fed, batch, strict=True))
        found, before, scale = self._session.run((self._fetches, self._variables, self._scale), feeds)
        gradients = {name: to_measure(numbers) for name, numbers in found['gradients'].items()}
        losses = found['example_losses'][0] if found['example_losses'] else None
        origin = to_blame = None
        if not (np.isfinite(found['loss']) and all(one.is_finite for one in gradients.values())):
            origin = find_origin(self._session, feeds, [self._spec.loss, *self._gradients.values()], self._names)
            to_blame = self._culprits(batch, {**found['labels'], **_joined(found['features'])})
        norms = None
        if losses is not None:
            feeds_of = functools.partial(self._feeds_of, batch, to_blame)
            losses = self._losses(to_blame, feeds_of) if to_blame else losses
            norms = self._norms(losses, feeds_of)
        loss = self._advance(feeds)
        after, scale_after = self._session.run((self._variables, self._scale))
        return Inspected(
            losses=(float(found['loss']), loss),
            example_losses=losses,
            gradient_norms=norms,
            features=_joined(found['features']),
            labels=found['labels'],
            predictions=found['predictions'],
            gradients=gradients,
            updates={name: measure(after[name] - before[name]) for name in after},
            layers=[Layer(t.op.name, t.op.type, to_measure(n)) for t, n in zip(self._layers, found['layers'])],
            origin=origin,
            culprits=to_blame,
            loss_scale=float(scale) if self._has_scale else None,
            is_skipped=bool(scale_after < scale),
        )

    def _advance(self, feeds):
        """Updates the variables; returns the loss of this."""
        return float(self._session.run((self._spec.loss, self._spec.train_op), feeds)[0])

    def _culprits(self, batch, arrays):
        """Returns the Culprits of a batch; None as `culprits.find`, or if its tensors have no examples in common."""
        sizes = {len(array) if np.ndim(array) else 0 for array in batch}
        if len(sizes) != 1 or not (size := sizes.pop()):
            return None
        odd, end = odd_values(arrays, size, {}), time.monotonic() + _SECONDS
        return culprits.find(
            size,
            lambda numbers: bool(self._session.run(self._is_finite, self._feeds(batch, numbers))),
            sorted(range(size), key=lambda i: odd[i] != ''),
            lambda: time.monotonic() > end,
        )

    def _feeds(self, batch, numbers):
        """Returns the feeds of a batch with these examples in its places."""
        return {fed: array[numbers] for fed, array in zip(self._fed, batch, strict=True)}

    def _feeds_of(self, batch, to_blame, number):
        """Returns the feeds in which an example is looked at: its batch, without the culprits, or the other ones."""
        if not to_blame:
            return dict(zip(self._fed, batch, strict=True))
        return self._feeds(batch, to_blame.alone(number) if number in to_blame.found else to_blame.others)

    def _losses(self, to_blame, feeds_of):
        """Returns the losses of the examples in the batches of `feeds_of`."""
        losses = self._session.run(self._example_loss, feeds_of(to_blame.good))
        for i in to_blame.found:
            losses[i] = self._session.run(self._example_loss, feeds_of(i))[i]
        return losses

    def _norms(self, losses, feeds_of):
        """Returns the norms of the examples' gradients; those of the largest losses come first, until time runs out."""
        norms, end = np.full(len(losses), np.nan), time.monotonic() + _SECONDS
        for i in np.argsort(-np.nan_to_num(losses, nan=np.inf), kind='stable'):
            norms[i] = self._session.run(self._norm, {**feeds_of(i), self._weights: np.eye(1, len(losses), i, losses.dtype)[0]})
            if time.monotonic() > end:
                break
        return norms


@contextlib.contextmanager
def inspecting(experiment: Experiment, checkpoint_path: str, kind: type[Any] = Inspection) -> Iterator[Any]:
    """Yields the Inspection, of a class `kind`, of the steps after a checkpoint."""
    estimator: Any = experiment.estimator
    config = estimator.config
    with aside(experiment.train_input_fn, config.tf_random_seed) as (graph, batch):
        spec = estimator.model_fn(batch.features, batch.labels, tf.estimator.ModeKeys.TRAIN, config)
        saver = make_saver(spec)
        fed = _detached(graph, flat(batch.features, batch.labels))  # A session would not see it later.
        with tf.Session(graph=graph, config=config.session_config) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run(tf.tables_initializer())
            saver.restore(session, checkpoint_path)
            yield kind(session, batch.features, batch.labels, spec, fed)


def _detached(graph, batch):
    """Returns {reference of a tensor of a batch: placeholder that has taken its place in the graph}.

    What reads the batch would run even if its tensors are fed. The placeholders come after all other ops, since the seeds of
    random ops depend on the number of ops before them.
    """
    read = {tensor.op for tensor in batch}
    for op in graph.get_operations():
        if read & {*op.control_inputs}:
            others = [other for other in op.control_inputs if other not in read]
            op._remove_all_control_inputs()
            op._add_control_inputs(others)

    def replace(tensor):
        fed = tf.placeholder(tensor.dtype, tensor.shape, 'replayed_batch')
        for user in [*tensor.consumers()]:
            for i, value in enumerate(user.inputs):
                if value is tensor:
                    user._update_input(i, fed)
        return fed

    return {tensor.ref(): replace(tensor) for tensor in batch}


def _gradients(loss):
    """Returns {name of a variable: its gradient}, that of the framework's training step, or of the loss."""
    pairs = tf.get_collection(observed.GRADIENTS)
    if not pairs:
        variables = tf.trainable_variables()
        pairs = [(gradient, variable) for gradient, variable in zip(tf.gradients(loss, variables), variables)]
    return {variable.op.name: tf.convert_to_tensor(gradient) for gradient, variable in pairs if gradient is not None}


def _joined(shares):
    """Returns the arrays of all towers."""
    parts = [part for part in shares if part]
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def _batched(tensors):
    """Returns the tensors [batch, ...]."""
    return {name: value for name, value in tensors.items() if value.shape.rank != 0}

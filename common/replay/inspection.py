"""A step of a training, looked at: its batch goes through the training graph once more, in a session of its own."""

from collections.abc import Iterator, Mapping
import contextlib
import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.evaluated_input import aside
from estimator_trainer.common.plugins.estimator_contract import named
from estimator_trainer.common.replay.measures import Measure, Origin, find_origin, layers, measure, measures_of, to_measure
from estimator_trainer.common.replay.recorder import flat
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage.restore import make_saver
from estimator_trainer.common.training import observed
from estimator_trainer.common.training.gradients import in_one_type, merge_duplicates

_SECONDS = 60.0  # For the gradients of single examples, each of which takes as long as a step.
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
      example_losses: float [batch], without regularization; None if the model has its own training step.
      gradient_norms: likewise, the norm of the gradient of each example's loss; NaN if time ran out.
      features, labels, predictions: {name: array [batch, ...]}; features are those after augmentation.
      gradients, updates: of each variable, by name.
      origin: where the first NaN or infinity arises; None if there is none.
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
        if self._example_loss is not None:
            self._weights = tf.placeholder(self._example_loss.dtype, [None], 'example_weights')
            pulled = tf.gradients(tf.reduce_sum(self._example_loss * self._weights), [*self._variables.values()])
            merged = [merge_duplicates(gradient) for gradient in pulled if gradient is not None]
            self._norm = tf.global_norm(in_one_type(merged)) if merged else tf.zeros([])

    def step(self, batch: list[Any]) -> Inspected:
        """Runs the step of a batch, arrays as of `flat`, after looking at it."""
        feeds = dict(zip(self._fed, batch, strict=True))
        found, before = self._session.run((self._fetches, self._variables), feeds)
        gradients = {name: to_measure(numbers) for name, numbers in found['gradients'].items()}
        losses = found['example_losses'][0] if found['example_losses'] else None
        norms = None if losses is None else self._norms(losses, feeds)
        origin = None
        if not (np.isfinite(found['loss']) and all(one.is_finite for one in gradients.values())):
            origin = find_origin(self._session, feeds, [self._spec.loss, *self._gradients.values()], self._names)
        loss, after = self._advance(feeds)
        parts = [part for part in found['features'] if part]
        return Inspected(
            losses=(float(found['loss']), loss),
            example_losses=losses,
            gradient_norms=norms,
            features={name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())},
            labels=found['labels'],
            predictions=found['predictions'],
            gradients=gradients,
            updates={name: measure(after[name] - before[name]) for name in after},
            layers=[Layer(t.op.name, t.op.type, to_measure(n)) for t, n in zip(self._layers, found['layers'])],
            origin=origin,
        )

    def _advance(self, feeds):
        """Updates the variables; returns the loss of this, and the variables."""
        loss, _ = self._session.run((self._spec.loss, self._spec.train_op), feeds)
        return float(loss), self._session.run(self._variables)

    def _norms(self, losses, feeds):
        """Returns the norms of the examples' gradients; those of the largest losses come first, until time runs out."""
        norms, end = np.full(len(losses), np.nan), time.monotonic() + _SECONDS
        for i in np.argsort(-np.nan_to_num(losses, nan=np.inf), kind='stable'):
            norms[i] = self._session.run(self._norm, {**feeds, self._weights: np.eye(1, len(losses), i, losses.dtype)[0]})
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


def _batched(tensors):
    """Returns the tensors [batch, ...]."""
    return {name: value for name, value in tensors.items() if value.shape.rank != 0}

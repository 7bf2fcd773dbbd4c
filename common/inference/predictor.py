"""Repeated prediction with one graph and session."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import os
import threading
import types
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import tags
from estimator_trainer.common.errors import RunError, describe, first_line
from estimator_trainer.common.files import stamp
from estimator_trainer.common.inference.arrays import cast, wrong
from estimator_trainer.common.inference.checkpoint_estimator import at
from estimator_trainer.common.inference.session_calls import Call, make_call
from estimator_trainer.common.processes import check_not_forked
from estimator_trainer.common.products import LARGE, largest_product
from estimator_trainer.common.storage.best_checkpoint import best_record, find_best, intact_best
from estimator_trainer.common.storage.checkpoints import latest_intact
from estimator_trainer.common.storage.restore import make_saver, make_session, restore
from estimator_trainer.common.targets import with_key

ModeKeys = tf.estimator.ModeKeys
# In a small network, to pass the work of one example from thread to thread takes longer than to do it, so a session with one
# thread within an op is faster. Larger weights are not loaded twice for that.
_MAX_BYTES = 64 * 2**20


class _Network(NamedTuple):
    """The graph of a checkpoint; of most Estimators, it is the same for all."""

    graph: tf.Graph
    inputs: list[tf.Tensor]
    predictions: dict[str, tf.Tensor]
    saver: tf.train.Saver
    init: list[tf.Operation]
    answers_one: bool


class Predictor:
    """Predicts like `Estimator.predict`, but creates graph and session once: 100 times faster for single examples.

    Any number of threads may predict concurrently, even during a reload.

    Args:
      input_specs: {name: tf.TensorSpec of shape [batch, ...]}, the inputs of `predict`, of any batch size.
      checkpoint_path: without suffix, as in model.ckpt-100.
      make_features: function from the inputs, {name: tensor}, to the features; by default the identity.
      make_batch: function from the argument of `predict` to {name: array [batch, ...]} of the inputs, and whether that is a
        single example; it raises ValueError. By default `predict` takes such arrays.
      class_names: {key of a target: names}, as of `class_names_of`; adds 'class_name', str, to predictions of a 'class'.
      follows_best: whether `reload` loads the best checkpoint of the model's directory by default, not the latest.
      answers_one: whether a small network is loaded twice, to predict single examples faster.
      find_run: returns what identifies the run in the model's directory, now: checkpoints of another one are not loaded.

    Raises:
      RunError: the checkpoint is corrupt, or belongs to another model.
    """

    def __init__(
        self,
        estimator: tf.estimator.Estimator,
        input_specs: Mapping[str, tf.TensorSpec],
        checkpoint_path: str,
        make_features: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]] = dict,
        make_batch: Callable[[Any], tuple[dict[str, np.ndarray], bool]] | None = None,
        class_names: Mapping[str, Sequence[str]] = types.MappingProxyType({}),
        follows_best: bool = False,
        answers_one: bool = True,
        find_run: Callable[[], Any] = lambda: None,
    ):
        self._estimator = estimator
        self._specs = dict(input_specs)
        self._types = [(name, spec.dtype.as_numpy_dtype, tuple(spec.shape[1:])) for name, spec in input_specs.items()]
        self._make_batch, self._takes_raw = make_batch or self._check_batch, make_batch is not None
        self.class_names = class_names
        # Functions from the model's directory to the path of its newest checkpoint, or None: at once, and after reading it.
        self._find: Callable[[str], str | None] = find_best if follows_best else tf.train.latest_checkpoint
        self._find_intact = intact_best if follows_best else latest_intact
        directory = estimator.model_dir
        self._record = best_record(directory) if follows_best else os.path.join(directory, 'checkpoint')  # That both read.
        self._lock = threading.Lock()
        self._make_features, self._answers_one = make_features, answers_one
        self._find_run, self._run = find_run, find_run()
        self._network: Any = None  # Until `reload`.
        self._checkpoint_path = ''
        # Checkpoints with their stamps: that which is loaded, and the newest one seen; and the stamp of the file that names it.
        self._loaded: Any = None
        self._latest: Any = None
        self._stamp: Any = None
        self.reload(checkpoint_path)

    def predict(self, inputs: Mapping[str, Any] | Any) -> dict[str, np.ndarray]:
        """Returns the predictions for a batch, or for a single example.

        Args:
          inputs: {name: array [batch, ...]}, or the array alone if the model has one input. Without the batch dimension, it is
            a single example. A predictor of a run, of a dataset with raw inputs, takes more: see `Run.predict`.

        Returns:
          {name: array [batch, ...]}; [...] for a single example.

        Raises:
          RunError: this process was forked; see `check_not_forked`.
          ValueError: the names or shapes do not match the model, or a number does not fit its input's type.
        """
        batch, is_single = self.to_batch(inputs)
        found = {**getattr(batch, 'fields', {}), **self.predict_batch(batch)}
        return {name: array[0] for name, array in found.items()} if is_single else found

    def to_batch(self, inputs: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Returns the argument of `predict` as {name: array [batch, ...]}, and whether it was a single example."""
        return self._make_batch(inputs)

    def predict_batch(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the predictions for a batch of `to_batch`, or for several of the same shapes, concatenated."""
        check_not_forked()
        arrays = self._feeds(batch)
        try:
            found = (self._predict_one if max(map(len, arrays)) == 1 else self._predict)(*arrays)
        except tf.errors.InvalidArgumentError as error:
            if not self._takes_raw:
                raise
            raise ValueError(first_line(error)) from None
        return self.with_names(found)

    @property
    def prediction_specs(self) -> dict[str, tf.TensorSpec]:
        """{name: tf.TensorSpec} of the model's predictions, as far as its graph tells; without 'class_name'."""
        return {name: tf.TensorSpec(tensor.shape, tensor.dtype) for name, tensor in self._network.predictions.items()}

    @property
    def checkpoint_path(self) -> str:
        """The path of the checkpoint that is loaded; waits for a reload in progress."""
        with self._lock:
            return self._checkpoint_path

    @property
    def newest_path(self) -> str:
        """The path of the checkpoint that predicts, or is about to; does not wait. No prediction so far is of a newer one."""
        return self._checkpoint_path

    def _check_batch(self, inputs):
        """Returns the arrays of `predict`, with a batch dimension, and whether it was added."""
        if not isinstance(inputs, Mapping) and len(self._specs) == 1:
            inputs = dict.fromkeys(self._specs, inputs)
        if not isinstance(inputs, Mapping) or inputs.keys() != self._specs.keys():
            given = (', '.join(inputs) or 'none') if isinstance(inputs, Mapping) else describe(inputs)
            raise ValueError(f'the inputs are {", ".join(self._specs)}, not {given}')
        arrays = {name: cast(name, spec, inputs[name]) for name, spec in self._specs.items()}
        is_single = all(array.ndim == self._specs[name].shape.rank - 1 for name, array in arrays.items())
        if is_single:
            return {name: array[None] for name, array in arrays.items()}, True
        for name, array in arrays.items():
            if not array.ndim:
                raise wrong(name, self._specs[name], array)
        if len(sizes := {len(array) for array in arrays.values()}) > 1:
            raise ValueError(f'the inputs {", ".join(self._specs)} have batches of different sizes: {sorted(sizes)}')
        return arrays, False

    def _feeds(self, batch):
        """Returns the arrays of the inputs, in their order; raises ValueError for one of another shape."""
        arrays = [np.asarray(batch[name], dtype) for name, dtype, _ in self._types]
        for (name, _, shape), array in zip(self._types, arrays):
            if array.shape[1:] != shape and not self._specs[name].shape.is_compatible_with(array.shape):
                raise wrong(name, self._specs[name], batch[name])
        return arrays

    def with_names(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the predictions of a batch with 'class_name' of each target whose classes have names, and tags as str."""
        if tags.are_predicted(found):
            strings = {name: found[name] for name in ('tokens', 'tags') if found[name].dtype == object}
            decode = np.vectorize(lambda text: text.decode(errors='replace'), otypes=[object])
            found = {**found, **{name: np.asarray(decode(array)) for name, array in strings.items()}}
        for key, names in self.class_names.items():
            number = found.get(with_key('class', key))
            if number is not None and number.ndim == 1 and number.dtype.kind in 'iu':
                texts = [names[i] if 0 <= i < len(names) else '' for i in number.tolist()]
                found = {**found, with_key('class_name', key): np.array(texts, object)}
        return found

    def reload(self, checkpoint_path: str | None = None) -> str:
        """Loads a checkpoint, by default the newest intact one of the model's directory, and returns its path.

        Predictions in progress keep their weights, so memory holds the weights twice meanwhile.

        Raises:
          RunError: the checkpoint is corrupt, or belongs to another model or run; the current weights stay.
        """
        with self._lock:
            path, is_new = (checkpoint_path, True) if checkpoint_path else self._newest()
            if is_new:
                loaded = _stamped(path)
                network, predict, predict_one = self._load(path)
                self._checkpoint_path, self._loaded = path, loaded  # Before the weights: see `newest_path`.
                self._network, self._predict, self._predict_one = network, predict, predict_one
        return path

    def _load(self, path):
        """Returns the network of a checkpoint, and the calls for any batch, and for a single example, with its weights."""
        estimator, network = at(self._estimator, path), self._network
        if network is None or estimator is not self._estimator:
            network = self._build(estimator)
        calls: list[Call] = []
        for for_one in (False, True) if network.answers_one else (False,):
            session = make_session(self._estimator.config, network.graph, for_one)
            restore(network.saver, session, path)
            session.run(network.init)
            calls.append(make_call(session, network.predictions, network.inputs, in_caller=for_one))
        return network, calls[0], calls[-1]

    def _build(self, estimator):
        config = estimator.config
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(config.tf_random_seed)
            tf.train.create_global_step()
            inputs = {name: tf.placeholder(spec.dtype, [None, *spec.shape.as_list()[1:]]) for name, spec in self._specs.items()}
            spec = estimator.model_fn(self._make_features(inputs), None, ModeKeys.PREDICT, config)
            predictions = {name: tf.identity(value) for name, value in spec.predictions.items()}  # For `make_call`.
            answers_one = self._answers_one and _is_small(graph)
            saver, init = make_saver(spec), [tf.local_variables_initializer(), tf.tables_initializer()]
            network = _Network(graph, [*inputs.values()], predictions, saver, init, answers_one)
            graph.finalize()
        return network

    def _newest(self):
        """Returns the path of the best or latest intact checkpoint, and whether it is new; reads checkpoints only if so."""
        latest: Any = None
        run = self._run
        # Another process may be writing or deleting it.
        with contextlib.suppress(ValueError, OSError, RunError, tf.errors.OpError):
            record = stamp(self._record)
            path = self._latest[0] if record == self._stamp else self._find(self._estimator.model_dir)
            found = path and _stamped(path)
            is_same = found in (self._latest, self._loaded)
            if not is_same:
                run = self._find_run()
            latest = found
        if latest is None:
            return self._checkpoint_path, False
        if run != self._run:
            self._refuse()
        self._latest, self._stamp = latest, record
        if is_same:
            return self._checkpoint_path, False
        intact = self._find_intact(self._estimator.model_dir)
        is_new = intact is not None and _stamped(intact) != self._loaded
        return intact if is_new else self._checkpoint_path, is_new

    def check_unchanged(self) -> None:
        """Raises RunError if another run has written the checkpoint anew that is loaded, or has deleted it."""
        if self._loaded != _stamped(self._checkpoint_path):
            self._refuse()

    def _refuse(self):
        directory, cure = self._estimator.model_dir, 'load it anew, or restart the server'
        raise RunError(f'{directory}: a run with other hyper-parameters or data has begun there: {cure}')


def _stamped(path):
    """Returns a checkpoint's path with the stamp of its index, which tells another one of the same step; None if it is gone."""
    with contextlib.suppress(OSError, tf.errors.OpError):
        return path, stamp(f'{path}.index')
    return None


def _is_small(graph):
    """Whether the work of a single example is."""
    weights = sum((variable.shape.num_elements() or 0) * variable.dtype.size for variable in tf.global_variables())
    return weights <= _MAX_BYTES and largest_product(graph, 1) < LARGE

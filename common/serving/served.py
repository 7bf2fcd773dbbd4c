"""The model of a run as a server has it: inputs of requests, batches, the checkpoint that is loaded."""

from collections.abc import Callable
import re
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.formats.encoded import PICTURE
from estimator_trainer.common.inference import pictures
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.inference.requests import SIGNATURE, make_example
from estimator_trainer.common.inference.signatures import DEFAULT, PICTURES, signatures_of
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.serving.batching import Arrays, Batcher, size_of
from estimator_trainer.common.serving.form import form_of
from estimator_trainer.common.serving.rest import Inputs, Request

MAX_PIXELS = 50_000_000  # Decoded, 150 MB.
MAX_EXAMPLES = 64  # In a batch of several requests.


def inputs_of(source: DataSource) -> Inputs:
    """Returns what requests for a model of this dataset contain."""
    signatures, metadata = signatures_of(source), source.params.metadata
    specs = signatures[DEFAULT].specs
    found = specs if source.has_images() else [name for name, spec in specs.items() if spec.name == PICTURE]
    known = metadata.get('columns') or metadata.get('features') or []
    return Inputs(
        specs,
        tuple(found),
        ignored=tuple(column['name'] for column in known if column['name'] not in specs),
        signatures=(SIGNATURE, *([f'{PICTURES}:{SIGNATURE}'] if PICTURES in signatures else [])),
    )


def step_of(checkpoint_path: str) -> int:
    """Returns the step in the name of a checkpoint; 0 if it has none."""
    found = re.search(r'-(\d+)$', checkpoint_path)
    return int(found[1]) if found else 0


class TooManyPixels(ValueError):
    """A picture is larger than the server decodes."""


class ServedModel:
    """A model that answers requests.

    Attributes:
      name: of the model in requests.
      inputs: what they contain.
      outputs: {name: tf.TensorSpec} of the predictions.
      form: the fields of the page.
      step: of the checkpoint that is loaded.
    """

    def __init__(self, name: str, source: DataSource, predictor: Predictor, on_batch: Callable[[int], Any]):
        self.name, self.inputs = name, inputs_of(source)
        self.outputs = _outputs(predictor, source.params.metadata)
        self.form = form_of(name, self.inputs, source.params.metadata)
        self._predictor = predictor
        self.step = step_of(predictor.checkpoint_path)
        max_size = MAX_EXAMPLES if all(map(_is_per_example, predictor.prediction_specs.values())) else 0
        self._batcher = Batcher(predictor.predict_batch, max_size, on_batch)

    def warm_up(self) -> None:
        """Predicts an example: the first prediction optimizes the graph, which is slow."""
        try:
            self._predictor.predict(make_example(self.inputs.specs))
        except Exception as error:  # A model may refuse an empty example.
            tf.logging.debug('No first prediction: %s', error)

    def to_batch(self, request: Request) -> Arrays:
        """Returns the arrays of a request; raises ValueError if it does not fit the model."""
        for name in self.inputs.pictures:
            for number, value in enumerate(request.columns[name]):
                pixels = pictures.count_pixels(value) if isinstance(value, bytes) else 0
                if pixels > MAX_PIXELS:
                    raise TooManyPixels(
                        f'the input {name}: picture {number} has {pixels:,} pixels, and at most {MAX_PIXELS:,} are allowed'
                    )
        try:
            batch, is_single = self._predictor.to_batch(request.columns)
        except OverflowError as error:
            raise ValueError(f'a number is too large: {error}') from None
        assert not is_single
        return batch

    def submit(self, batch: Arrays) -> Any:
        """Returns the future of the predictions of a batch."""
        return self._batcher.submit(batch)

    def has_step(self, step: int) -> bool:
        """Whether a checkpoint is loaded, and no other is being loaded."""
        return step_of(self._predictor.checkpoint_path) == step

    def reload(self) -> None:
        """Loads the newest checkpoint; predictions go on meanwhile. A warning says if it cannot be loaded."""
        try:
            step = step_of(self._predictor.reload())
        except RunError as error:
            tf.logging.warning('The model of step %d stays: %s', self.step, error)
            return
        if step != self.step:
            tf.logging.info('Step %d is loaded.', step)
        self.step = step

    def close(self) -> None:
        """Waits for the requests in progress."""
        self._batcher.close()


def check_rows(found: Arrays, batch: Arrays) -> None:
    """Raises ValueError if some predictions have no value per example, which an answer to "instances" needs."""
    size = size_of(batch)
    for name, array in found.items():
        if np.ndim(array) == 0 or len(array) != size:
            raise ValueError(f'the prediction {name} has the shape {np.shape(array)}, no value per example: use "inputs"')


def _is_per_example(spec):
    """Whether predictions are independent of the other examples of a batch, as far as their shape tells."""
    sizes = spec.shape.as_list() if spec.shape.rank else [0]
    return sizes[0] is None and None not in sizes[1:]


def _outputs(predictor, metadata):
    specs = predictor.prediction_specs
    has_names = bool(metadata.get('class_names')) and 'class' in specs and specs['class'].shape.rank == 1
    return {**specs, **({'class_name': tf.TensorSpec([None], tf.string)} if has_names else {})}

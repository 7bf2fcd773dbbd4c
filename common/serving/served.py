"""The model of a run as a server has it: inputs of requests, batches, the checkpoint that is loaded."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
import re
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.formats.encoded import PICTURE
from estimator_trainer.common.inference import pictures
from estimator_trainer.common.inference.arrays import cast
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.inference.requests import SIGNATURE, make_example
from estimator_trainer.common.inference.signatures import DEFAULT, EXAMPLES, PICTURES, signatures_of
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.serving.batching import Arrays, Batcher, size_of
from estimator_trainer.common.serving.form import form_of
from estimator_trainer.common.serving.rest import Inputs, Request, Signature
from estimator_trainer.common.targets import class_names_of, with_key

MAX_PIXELS = 50_000_000  # Decoded, 150 MB.
MAX_EXAMPLES = 64  # In a batch of several requests.
_EXAMPLES = f'{EXAMPLES}:{SIGNATURE}'


def inputs_of(source: DataSource) -> Inputs:
    """Returns what requests for a model of this dataset contain."""
    specs, metadata = signatures_of(source)[DEFAULT].specs, source.params.metadata
    found = specs if source.has_images() else [name for name, spec in specs.items() if spec.name == PICTURE]
    known = metadata.get('columns') or metadata.get('features') or []
    return Inputs(
        specs,
        tuple(found),
        ignored=tuple(column['name'] for column in known if column['name'] not in specs),
    )


def form_of_export(source: DataSource) -> dict[str, Any]:
    """Returns the form for an export of a model of this dataset; pictures are sent as files, which not all signatures take."""
    params, has_files = source.params, PICTURES in signatures_of(source)
    return form_of(params.model, inputs_of(source), params.metadata, f'{PICTURES}:{SIGNATURE}' if has_files else '')


def step_of(checkpoint_path: str) -> int:
    """Returns the step in the name of a checkpoint; 0 if it has none."""
    found = re.search(r'-(\d+)$', checkpoint_path)
    return int(found[1]) if found else 0


class TooManyPixels(ValueError):
    """A picture is larger than the server decodes."""


class Replaced(Exception):
    """A newer version of the model, which takes other inputs, was loaded after a request was read."""

    def __init__(self, version: int):
        super().__init__(f'version {version}, which was loaded just now, takes other inputs: ask again')


def check_pixels(columns: Mapping[str, Any], names: Collection[str]) -> None:
    """Raises TooManyPixels if a picture, among the columns with these names, is larger than the server decodes."""
    for name in names:
        for number, value in enumerate(columns[name]):
            pixels = pictures.count_pixels(value) if isinstance(value, bytes) else 0
            if pixels > MAX_PIXELS:
                raise TooManyPixels(
                    f'the input {name}: picture {number} has {pixels:,} pixels, and at most {MAX_PIXELS:,} are allowed'
                )


class ServedModel:
    """The model of a run that answers requests.

    Args:
      make_examples: returns a Predictor of serialized examples, from the path of a checkpoint; called at their first request.

    Attributes:
      name: of the model in requests.
      signatures: what these contain, and what the answers do.
      form: the fields of the page.
      step: of the checkpoint that is loaded.
      unit: what people call this number.
    """

    unit = 'step'

    def __init__(
        self,
        name: str,
        source: DataSource,
        predictor: Predictor,
        on_batch: Callable[[int], Any],
        make_examples: Callable[[str], Predictor],
    ):
        self.name = name
        self.signatures = _signatures(source, predictor)
        self.form = form_of(name, inputs_of(source), source.params.metadata)
        self._predictor, self._make_examples = predictor, make_examples
        self._of_examples: Predictor | None = None
        self._refused = ''  # Why the newest checkpoint was not loaded.
        self.step = step_of(predictor.checkpoint_path)
        max_size = MAX_EXAMPLES if all(map(is_per_example, predictor.prediction_specs.values())) else 0
        self._batcher = Batcher(predictor.predict_batch, max_size, on_batch)
        self._example_batcher = Batcher(self._predict_examples, max_size, on_batch)

    def _predict_examples(self, batch):
        if self._of_examples is None:
            of_examples = self._make_examples(self._predictor.checkpoint_path)
            self._predictor.check_unchanged()
            self._of_examples = of_examples
        return self._of_examples.predict_batch(batch)

    def warm_up(self) -> None:
        """Predicts an example: the first prediction optimizes the graph, which is slow."""
        try:
            self._predictor.predict(make_example(self.signatures[SIGNATURE].inputs.specs))
        except Exception as error:  # A model may refuse an empty example.
            tf.logging.debug('No first prediction: %s', error)

    def to_batch(self, request: Request) -> Arrays:
        """Returns the arrays of a request; raises ValueError if it does not fit the model."""
        inputs = self.signatures[request.signature].inputs
        check_pixels(request.columns, inputs.pictures)
        if request.signature == _EXAMPLES:
            return {name: cast(name, spec, request.columns[name]) for name, spec in inputs.specs.items()}
        try:
            batch, is_single = self._predictor.to_batch(request.columns)
        except OverflowError as error:
            raise ValueError(f'a number is too large: {error}') from None
        assert not is_single
        return batch

    def submit(self, signature: str, batch: Arrays) -> 'Future[Arrays]':
        """Returns the future of the predictions of a batch."""
        return (self._example_batcher if signature == _EXAMPLES else self._batcher).submit(batch)

    def has_step(self, step: int) -> bool:
        """Whether a checkpoint is loaded still, so that no prediction so far was of a newer one; does not wait for a reload."""
        return step_of(self._predictor.newest_path) == step

    def reload(self) -> None:
        """Loads the newest checkpoint; predictions go on meanwhile. A warning says if it cannot be loaded."""
        try:
            path = self._predictor.reload()
            if self._of_examples and self._of_examples.checkpoint_path != path:
                self._of_examples.reload(path)
        except RunError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                tf.logging.warning('The model of step %d stays: %s', self.step, error)
            return
        self._refused = ''
        step = step_of(path)
        if step != self.step:
            tf.logging.info('Step %d is loaded.', step)
        self.step = step

    def close(self) -> None:
        """Waits for the requests in progress."""
        self._batcher.close()
        self._example_batcher.close()


def check_rows(found: Arrays, batch: Arrays) -> None:
    """Raises ValueError if some predictions have no value per example, which an answer to "instances" needs."""
    size = size_of(batch)
    for name, array in found.items():
        if np.ndim(array) == 0 or len(array) != size:
            raise ValueError(f'the prediction {name} has the shape {np.shape(array)}, no value per example: use "inputs"')


def is_per_example(spec: tf.TensorSpec) -> bool:
    """Whether predictions are independent of the other examples of a batch, as far as their shape tells."""
    sizes = spec.shape.as_list() if spec.shape.rank else [0]
    return sizes[0] is None and None not in sizes[1:]


def _signatures(source, predictor):
    """Returns {name: Signature} as an export has them; for pictures, the default takes files, too."""
    found, specs = signatures_of(source), predictor.prediction_specs
    named = [key for key in class_names_of(source.params.metadata) if with_key('class', key) in specs]
    named = [key for key in named if specs[with_key('class', key)].shape.rank == 1]
    outputs = {**specs, **{with_key('class_name', key): tf.TensorSpec([None], tf.string) for key in named}}
    signatures = {SIGNATURE: Signature(inputs_of(source), outputs)}
    if PICTURES in found:
        signatures[f'{PICTURES}:{SIGNATURE}'] = signatures[SIGNATURE]
    if EXAMPLES in found:
        signatures[_EXAMPLES] = Signature(Inputs(found[EXAMPLES].specs), outputs)
    return signatures

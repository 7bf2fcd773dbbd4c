"""Dataset modules with the arguments of their functions."""

from collections.abc import Mapping
import contextlib
import dataclasses
import types
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, describe
from estimator_trainer.common.pipeline import excluded, fold
from estimator_trainer.common.pipeline.specs import Specs
from estimator_trainer.common.plugins import dataset_contract, estimator_contract
from estimator_trainer.common.plugins.traceback_filter import in_a_line
from estimator_trainer.common.word_vectors import WordVectors
from estimator_trainer.hparams.build import HParams, ReadHParams


@dataclasses.dataclass(frozen=True)
class DataSource:
    """A dataset module, and the data_dir and HParams that its functions take.

    specs is given if the data may be missing, as for the export of a model trained elsewhere. names_read are the
    hyper-parameters that the module, the model and its training step have read; given says where a user gave some, see
    `build.origins`; vectors are those with which a run starts, see `with_word_vectors`.
    """

    module: types.ModuleType
    data_dir: str
    params: HParams
    specs: Specs | None = None
    names_read: set[str] = dataclasses.field(default_factory=set, compare=False)
    given: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    vectors: WordVectors | None = dataclasses.field(default=None, compare=False)

    @property
    def recorded(self) -> HParams:
        """The hyper-parameters for functions of the modules: names_read gets those that they read."""
        return ReadHParams(self.params, self.names_read)

    def metadata(self) -> dict[str, Any]:
        """Returns the module's metadata, empty if it has none; its `prepare` must have run.

        Raises:
          UsageError: JSON cannot represent the returned value.
        """
        if not self.has_metadata():
            return {}
        return dataset_contract.check_metadata(self.module.metadata(self.data_dir, self.recorded), self.params)

    def summary(self) -> str:
        """Returns the module's text about the data for people, '' if it has none; its `prepare` must have run."""
        return self.module.summary(self.data_dir, self.recorded) if hasattr(self.module, 'summary') else ''

    def has_metadata(self) -> bool:
        """Whether the module has `metadata`."""
        return hasattr(self.module, 'metadata')

    def read(self, split: str) -> tf2.data.Dataset:
        """Returns the records of a split; the module's `prepare` must have run.

        Of the training records, these are those that the hyper-parameter `exclude` leaves, see `exclusion`.

        Raises:
          UsageError: there is no such split, or the module returns something else.
          RunError: the split cannot be read.
        """
        records = self.read_whole(split)
        if self._excludes(split):
            records = excluded.read(records, self.data_dir, self.params)
        return fold.in_fold(records, split, self.recorded) if self._is_divided(split) else records

    def _excludes(self, split):
        """Whether some of the records of `read_whole` are excluded, as far as that has been prepared."""
        is_prepared = excluded.DIGEST in self.params.metadata and self.recorded.exclude
        return bool(is_prepared) and self._whole_of(split) == self.params.train_split

    def _is_divided(self, split):
        """Whether a split is a fold of the training records, or the others of these."""
        return not self.has_own_folds() and bool(self.recorded.folds) and split in (fold.EVAL, self.params.train_split)

    def _whole_of(self, split):
        """Returns the split whose records `read_whole` returns for a split."""
        return self.params.train_split if self._is_divided(split) else split

    def is_part(self, split: str) -> bool:
        """Whether a split may lack records of `read_whole`."""
        return self._excludes(split) or self._is_divided(split)

    def _kept(self):
        """Returns the numbers of the records of `read_whole` that are not excluded."""
        with tf.Graph().as_default():
            return excluded.numbers(self.read_whole(self.params.train_split), self.data_dir, self.params)

    def read_whole(self, split: str) -> tf2.data.Dataset:
        """Returns what the module reads, all records; with folds, the split eval is part of the training split."""
        flag = f'--dataset={self.params.dataset}'
        try:
            with self._finding(split):
                records = self.module.read(self._whole_of(split), self.data_dir, self.recorded)
        except (OSError, tf.errors.OpError) as error:
            raise RunError(f'{flag}: read(): the split {split} in {self.data_dir} cannot be read: {in_a_line(error)}') from None
        if not isinstance(records, tf2.data.Dataset):
            raise UsageError(f'{flag}: read() must return a tf.data.Dataset, not {describe(records)}')
        return records

    def in_whole(self, split: str, numbers: np.ndarray) -> tuple[str, np.ndarray]:
        """Returns the split of `read_whole` and the numbers there, int64 [n], of records of a split."""
        whole = fold.in_whole(numbers, split, self.params) if self._is_divided(split) else numbers
        return self._whole_of(split), self._kept()[whole] if self._excludes(split) else whole

    def in_part(self, split: str, numbers: np.ndarray) -> np.ndarray:
        """Returns the numbers in a split of those records that are in it, given their numbers in the split of `in_whole`."""
        if self._excludes(split):
            kept = self._kept()
            numbers = np.searchsorted(kept, numbers[np.isin(numbers, kept)])
        return fold.in_part(numbers, split, self.params) if self._is_divided(split) else numbers

    def has_own_folds(self) -> bool:
        """Whether the module divides its examples by the hyper-parameters folds and fold."""
        return getattr(self.module, 'OWN_FOLDS', False)

    def make_batches(self, split: str) -> Any:
        """Returns what the module's `input_fn` does: a tf.data.Dataset of batches, or tensors (features, labels).

        Raises:
          UsageError: there is no such split, or it returns something else.
        """
        if self.params.folds:
            raise UsageError(
                f'folds={self.params.folds}: --dataset={self.params.dataset} has input_fn, of whose batches the trainer knows '
                'no examples: give it read() and parse()'
            )
        with self._finding(split):
            made = self.module.input_fn(split, self.recorded)
        return estimator_contract.check_batches(f'--dataset={self.params.dataset}', made)

    @contextlib.contextmanager
    def _finding(self, split):
        """Within the block, a module's KeyError of a split is a UsageError."""
        try:
            yield
        except KeyError as error:
            if error.args != (split,):
                raise
            raise UsageError(f'--dataset={self.params.dataset}: unknown split {split}') from None

    def has_input_fn(self) -> bool:
        """Whether the module has `input_fn`, which makes batches, in place of `read` and `parse`."""
        return hasattr(self.module, 'input_fn')

    def prepare(self) -> None:
        """Prepares the data, if the module has `prepare`."""
        if hasattr(self.module, 'prepare'):
            self.module.prepare(self.data_dir, self.recorded)

    def parses_batches(self) -> bool:
        """Whether the module's `parse_batch` is called, which is faster than `parse`; grouping by length needs the latter."""
        return hasattr(self.module, 'parse_batch') and not (self.params.group_by_length and hasattr(self.module, 'parse'))

    def is_parsed_once(self) -> bool:
        """Whether the module declares a record's features the same in every epoch and in any batch."""
        return getattr(self.module, 'PARSED_ONCE', False)

    def reads_input(self) -> bool:
        """Whether the module has `read_input`, which reads the files of --input."""
        return hasattr(self.module, 'read_input')

    def reads_labeled(self) -> bool:
        """Whether the module has `read_labeled`, which reads the files of --input with their labels."""
        return hasattr(self.module, 'read_labeled')

    def takes_raw(self) -> bool:
        """Whether the module has `raw_specs` and `from_raw`, which convert raw inputs to features."""
        return hasattr(self.module, 'raw_specs') and hasattr(self.module, 'from_raw')

    def raw_specs(self) -> dict[str, tf.TensorSpec]:
        """Returns {name: tf.TensorSpec [batch, ...]} of the raw inputs; {} if it takes none.

        Raises:
          UsageError: the module's are malformed.
        """
        return dataset_contract.check_raw_specs(self.module.raw_specs(self.params), self.params) if self.takes_raw() else {}

    def has_images(self) -> bool:
        """Whether the module's `image_features` converts raw images to features."""
        if not hasattr(self.module, 'image_features'):
            return False
        with tf.Graph().as_default():
            return self.module.image_features(self.params, tf.zeros([0, *self.image_shape()], tf.uint8)) is not None

    def has_raw_image(self, features: Mapping[str, Any]) -> bool:
        """Whether the features of a batch, or their specs, have a raw image that `image_features` converts."""
        is_raw = getattr(features.get('image'), 'dtype', None) == tf.uint8
        return is_raw and self.parses_batches() and hasattr(self.module, 'image_features')

    def with_images(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the features of a batch; in place of a raw image those that `image_features` makes of it.

        If these have an image of the same type, `parse_batch` has made them already.
        """
        if not self.has_raw_image(features):
            return features
        made = self.module.image_features(self.params, features['image'])
        if made is None or self.has_raw_image(made):
            return features
        return {**{name: value for name, value in features.items() if name != 'image'}, **made}

    def image_shape(self) -> list[int]:
        """Returns the shape of a raw image that `image_features` takes."""
        return [self.params.image_size, self.params.image_size, self.params.num_channels]

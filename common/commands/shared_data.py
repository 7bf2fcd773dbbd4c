"""The data that the runs of a sweep, or folds, share, as it is now."""

from collections.abc import Iterable, Mapping
import types
from typing import Any

from estimator_trainer.common.pipeline import checksums
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.sweep.shared_data import of_files
from estimator_trainer.hparams.build import HParams


def find(
    dataset: Any, data_dir: str, params: HParams, splits: Iterable[str], values: Mapping[str, Any] = types.MappingProxyType({})
) -> dict[str, str]:
    """Prepares the data, and returns {split or path: checksum} of its records, and of files that these do not tell of.

    Args:
      dataset: module.
      values: of the space, as in JSON.
    """
    source = DataSource(dataset, data_dir, params)
    source.prepare()
    return {**checksums.of_splits(source, splits), **of_files(params, values)}

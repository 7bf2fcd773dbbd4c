"""Your own table, in CSV files: numeric and categorical columns, and a target for classification or regression.

--hparams=csv_file=PATH names one file, a share of which is held out for evaluation, or a directory of files named by their
splits: train.csv, eval.csv, fold3.csv ... The first line names the columns. Cells that are empty, NA, NaN, nan, null, NULL,
None or ? are missing. Column kinds are inferred from the training rows unless a schema file gives them; see docs/own_data.md.
"""

from collections.abc import Iterator
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, check_range
from estimator_trainer.common.files import read_json
from estimator_trainer.common.own_data import example_parser
from estimator_trainer.common.own_data.cells import encoded_features, make_encoder
from estimator_trainer.common.own_data.delimited import Table
from estimator_trainer.common.own_data.schema import COLUMNS, TARGET, WEIGHT, check_same_columns, read_schema
from estimator_trainer.common.own_data.split_rows import read_rows, write
from estimator_trainer.common.own_data.splits import find_files, find_split, fingerprint
from estimator_trainer.common.own_data.table_facts import describe
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = ('*.csv', '*.tsv')
PARSED_ONCE = True


def get_params() -> dict[str, Any]:
    return {
        'csv_file': '',  # A file, or a directory of files named by their splits.
        'target': '',  # The column to predict; optional if the schema names it, or if it is named target or label.
        'schema': '',  # A JSON file, see docs/own_data.md.
        'eval_share': 0.2,  # Of the rows of a single file.
        'min_count': 2,  # Values of a categorical column that are rarer in training count as unknown.
        'max_vocabulary': 10000,  # Values of a categorical column; the rarest beyond that count as unknown.
        'max_bad_share': 0.0,  # Maximum share of invalid rows, which are skipped.
        'task': '',  # Set by the metadata.
        'num_classes': 0,  # Set by the metadata.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the files to TFRecord files, once for each state of the files and of the hyper-parameters."""
    check_range(params, 'eval_share', 0, 0.9)
    check_range(params, 'max_bad_share', 0, 1)
    check_range(params, 'min_count', 1)
    check_range(params, 'max_vocabulary', 1, 1000000)
    files = _files(params)
    directory = _directory(data_dir, params)
    if not records.is_written(directory):
        _convert(directory, files, params)


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns the facts about the training rows.

    Returns:
      columns: a list of {'name', 'kind'}. Those of kind numeric have 'mean', 'std' and 'indicator', whether some are missing;
        those of kind categorical have 'vocabulary'. The others are of kind target, id or weight.
      vocabulary_sizes: {'categorical': sizes}, with 1 for id 0; {} without such columns.
      task: classification, with class_names and num_classes; or regression, with target_mean and target_std.
    """
    return read_json(os.path.join(_directory(data_dir, params), 'metadata.json'))


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples with the cells by column: float for a number, bytes for text; without missing cells."""
    columns = metadata(data_dir, params)['columns']
    check_same_columns(f'--hparams=csv_file={params.csv_file}', params.metadata.get('columns', ()), columns)
    find_split(split, 'csv_file', params.csv_file, _files(params))
    return records.read(_directory(data_dir, params), split)


def parse_batch(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns the features 'numeric', 'categorical' and 'example_id', and the labels 'label' and 'weight', of a batch.

    Each is present if such columns exist; see `example_parser.parse`. In PREDICT there are no labels.
    """
    return example_parser.parse(mode, params, serialized, encoded_features(params.metadata))


def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {column: float32 or string [batch]} of the columns to learn from; see `example_parser.raw_specs`."""
    return example_parser.raw_specs(params, encoded_features(params.metadata))


def from_raw(params: HParams, raw: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the features 'numeric' and 'categorical' of raw columns; NaN and '' are missing."""
    raw = {name: tf.strings.strip(value) if value.dtype == tf.string else value for name, value in raw.items()}
    return example_parser.from_raw(params, raw, encoded_features(params.metadata))


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the rows of a CSV file, with or without the target; an error for an invalid row."""
    table = Table(path)
    yield from read_rows(path, table.rows(), make_encoder(path, table.header, params.metadata, has_labels=False))


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields what `read_input` does, with the target and the weight; raises UsageError if there is no such column."""
    table = Table(path)
    required = [column['name'] for column in params.metadata['columns'] if column['kind'] in (TARGET, WEIGHT)]
    if missing := [name for name in required if name not in table.names]:
        raise UsageError(f'{path}: has no column {", ".join(missing)}, which evaluation requires')
    yield from read_rows(path, table.rows(), make_encoder(path, table.header, params.metadata, has_labels=True))


def _files(params):
    return find_files('csv_file', params.csv_file, ('.csv', '.tsv'), params.eval_share)


def _directory(data_dir, params):
    names = ('target', 'eval_share', 'min_count', 'max_vocabulary', 'max_bad_share')
    facts = [read_schema(params.schema, COLUMNS).content, params.train_split, *(params[name] for name in names)]
    return os.path.join(data_dir, f'csv-{fingerprint(params.csv_file, [file.path for file in _files(params)], facts)}')


def _convert(directory, files, params):
    trained = find_split(params.train_split, 'csv_file', params.csv_file, files)
    tables = {file: Table(file.path) for file in files}
    facts = describe(tables, trained, read_schema(params.schema, COLUMNS), params)
    readers = [(file, table.rows, make_encoder(file.path, table.header, facts, True)) for file, table in tables.items()]
    write(directory, params.csv_file, facts, readers, params.max_bad_share)

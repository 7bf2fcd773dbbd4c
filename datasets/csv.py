"""Your own table, by the former name of --dataset=table."""

from typing import Any

from estimator_trainer.datasets import table

INPUT_PATTERNS = table.INPUT_PATTERNS
PARSED_ONCE = table.PARSED_ONCE
OWN_FOLDS = table.OWN_FOLDS
LACKS = table.LACKS
prepare = table.prepare
metadata = table.metadata
summary = table.summary
read = table.read
places = table.places
parse_batch = table.parse_batch
raw_specs = table.raw_specs
from_raw = table.from_raw
input_parts = table.input_parts
cell_readers = table.cell_readers
by_column = table.by_column
feature_columns = table.feature_columns
read_input = table.read_input
read_labeled = table.read_labeled


def get_params() -> dict[str, Any]:
    return {**table.get_params()}

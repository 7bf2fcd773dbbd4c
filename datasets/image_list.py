"""Your own pictures, named by a table: a column of the paths of their files; other columns are features, or targets.

    python trainer.py --model=alexnet --dataset=image_list --hparams='table_file=pictures.csv,target=[even,large]'

The table is read as by --dataset=table, in which it may have any number of targets. Paths are relative to the table, or to
image_dir. Pictures are squashed to squares, as by --dataset=image_folder.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, check_range
from estimator_trainer.common.formats import encoded, images, picture_files, stored_pictures
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.schema import IMAGE
from estimator_trainer.common.own_data.tables import picture_column, raw_columns
from estimator_trainer.common.own_data.tables.encoding import LEARNED
from estimator_trainer.datasets import table
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = (*table.INPUT_PATTERNS, *(f'*{suffix}' for suffix in images.SUFFIXES))
OWN_FOLDS = True
metadata = table.metadata
summary = table.summary
read = table.read
input_parts = table.input_parts


def get_params() -> dict[str, Any]:
    return {
        **table.get_params(),
        'image_column': '',  # The column of paths; optional if only one has names of pictures.
        'image_dir': '',  # The directory to which paths are relative, by default that of the table.
        'image_size': 64,
        'num_channels': 3,  # Or 1, for gray.
        'shuffle_buffer': 1000,  # Pictures may be large.
        'eval_batch_size': 250,
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the table and its pictures to TFRecord files, once for each state of them and of the hyper-parameters."""
    check_range(params, 'image_size', 1, 10000)
    if params.num_channels not in (1, 3):
        raise UsageError(f'num_channels={params.num_channels} must be 1, for gray, or 3, for color')
    if not params.table_file:
        raise UsageError('--hparams=table_file=PATH is required: a table with a column of the paths of pictures')
    picture_column.look_again()
    table.prepare(data_dir, params)


def places(split: str, data_dir: str, params: HParams) -> Iterator[dict[str, Any]]:
    """Yields what `table.places` does; nothing if rows may be missing for their pictures."""
    if not params.max_bad_share:
        yield from table.places(split, data_dir, params)


def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns 'image', float32 [image_size, image_size, num_channels] in [0, 1], and what `parser.parse` does.

    The 'example_id' is the path in the table, unless a column of it is the id.
    """
    features, labels = table.parse_batch(mode, params, serialized)
    prefix = picture_column.prefix_of(_column(params))
    spec = {**stored_pictures.spec(prefix), f'{prefix}path': tf.io.FixedLenFeature([], tf.string, '')}
    example = tf.io.parse_single_example(serialized, spec)
    image = stored_pictures.to_square(example, params.image_size, params.num_channels, prefix)
    return {'image': image, 'example_id': example[f'{prefix}path'], **features}, labels


def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {column of paths: string [batch]}, the contents of image files, and the specs of the other columns."""
    return {_column(params)['name']: tf.TensorSpec([None], tf.string, encoded.PICTURE), **raw_columns.raw_specs(params)}


def cell_readers(params: HParams) -> dict[str, Callable[[Any], Any]]:
    """Returns those of the other columns, and the function from any picture file to one that the graph decodes alike."""
    return {_column(params)['name']: picture_files.to_kept_file, **table.cell_readers(params)}


def from_raw(params: HParams, raw: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the features of image files and of raw columns, as `parse` does."""
    name = _column(params)['name']
    squares = stored_pictures.files_to_squares(raw[name], params.image_size, params.num_channels)
    others = {column: value for column, value in raw.items() if column != name}
    return {'image': squares, **raw_columns.from_raw(params, others)}


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields what `table.read_input` does, or ({}, record) for a picture, for models of a picture alone.

    Raises:
      RunError: it is a picture, and the model takes other columns, too.
      UsageError: it cannot be read.
    """
    if not path.lower().endswith(images.SUFFIXES):
        yield from table.read_input(path, params)
        return
    if others := [column['name'] for column in params.metadata['columns'] if column['kind'] in LEARNED]:
        raise RunError(f'{path}: the model also needs the columns {", ".join(others)}: give a table of pictures')
    try:
        yield {}, picture_column.to_example(path, _column(params))
    except images.ImageError as error:
        raise UsageError(f'{path} {error}') from None


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields what `table.read_labeled` does; raises RunError for a picture, which has no target."""
    if path.lower().endswith(images.SUFFIXES):
        raise RunError(f'{path}: a picture alone has no target: give a table of pictures')
    yield from table.read_labeled(path, params)


def _column(params):
    return of_kind(params.metadata['columns'], IMAGE)[0]

"""A column of a table with the paths of picture files, which are stored with the other cells of their rows."""

from collections.abc import Callable, Iterable, Mapping
import concurrent.futures
import functools
import itertools
import os
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, listed
from estimator_trainer.common.files import stamp
from estimator_trainer.common.formats import images
from estimator_trainer.common.formats.picture_files import read_picture
from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.schema import IMAGE
from estimator_trainer.common.own_data.tables.blocks import Table
from estimator_trainer.common.own_data.tables.encoding import Encode, Encoded
from estimator_trainer.common.own_data.tables.files import open_table
from estimator_trainer.common.processor import num_cores
from estimator_trainer.common.records import records

MAX_ROWS = 200  # Whose pictures are in memory together.
_MAX_LOGGED = 5


def find(table: Table, name: str, directory: str) -> Feature:
    """Returns the metadata of the column of paths: that of this name, or the only one whose first cell ends as pictures do.

    Args:
      name: of the column, or ''.
      directory: to which the paths are relative; '' for that of the table.

    Raises:
      UsageError: there is no such column, or several may be meant.
    """
    if name and name not in table.header:
        raise UsageError(f'--hparams=image_column: {table.path} has no column {name}; its columns are: {_shown(table)}')
    if not name:
        block = next(iter(table.blocks()), None)
        firsts = (
            {} if block is None else {one: cells[0].as_py() for one, cells in zip(table.header, block.columns) if len(cells)}
        )
        found = [one for one, cell in firsts.items() if cell.lower().endswith(images.SUFFIXES)]
        if len(found) != 1:
            what = f'{" and ".join(found)} have' if found else 'no column has'
            raise UsageError(
                f'--hparams=image_column=COLUMN is required: {table.path}: {what} paths of pictures in the first row; its '
                f'columns are: {_shown(table)}'
            )
        (name,) = found
    return {'name': name, 'kind': IMAGE, 'directory': directory}


def _shown(table):
    return listed([*filter(None, table.header)], 50)


def prefix_of(column: Feature) -> str:
    """Returns what begins the names under which pictures are stored, besides other columns."""
    return f'{column["name"]}: '


def _warn_of_dark(path, text):
    tf.logging.warning('%s %s', path, text)


def to_example(path: str, column: Feature, on_dark: Callable[[str, str], None] = _warn_of_dark) -> bytes:
    """Returns a picture file as a serialized tf.train.Example; raises images.ImageError.

    Calls on_dark with the path and a text for a dark picture, see `read_picture`; warns by default.
    """
    picture = read_picture(path, functools.partial(on_dark, path))
    return records.encode({f'{prefix_of(column)}{name}': value for name, value in picture.items()})


def with_pictures(encode: Encode, table: Table, facts: Mapping[str, Any]) -> Encode:
    """Returns a function that also stores the pictures of the rows; the given one if the metadata has no column of paths.

    Raises:
      UsageError: the table has no such column.
    """
    columns = of_kind(facts['columns'], IMAGE)
    if not columns:
        return encode
    (column,) = columns
    if column['name'] not in table.header:
        raise UsageError(f'{table.path}: has no column {column["name"]}, of the paths of pictures; it has: {_shown(table)}')
    place, dark = table.header.index(column['name']), itertools.count()

    def warn_of_some(path, text):
        number = next(dark)
        if number < _MAX_LOGGED:
            _warn_of_dark(path, text)
        elif number == _MAX_LOGGED:
            tf.logging.warning('%s: has more pictures of 16 bits with small values only, which are not listed.', table.path)

    def add(cell):
        path = path_of(cell, column, table.path)
        try:
            if not cell:
                raise images.ImageError('is missing')
            id_of = records.encode({f'{prefix_of(column)}path': cell})
            return to_example(path, column, warn_of_some) + id_of
        except images.ImageError as error:
            return RunError(f'{path} {error}' if cell else 'the path of the picture is missing')

    def encode_both(block, indices):
        found = encode(block, indices)
        cells = block.columns[place].take(pa.array(found.indices)).to_pylist()
        with concurrent.futures.ThreadPoolExecutor(num_cores()) as pool:
            pictures = list(pool.map(add, cells))
        faults = {
            index: RunError(f'{table.path}: {table.unit} {block.line(index)}: column {column["name"]}: {picture}')
            for index, picture in zip(found.indices.tolist(), pictures)
            if isinstance(picture, RunError)
        }
        is_sound = np.array([not isinstance(picture, RunError) for picture in pictures], bool)
        # Serialized messages that follow one another are one with the fields of both.
        pairs = zip(found.examples.to_pylist(), pictures)
        joined = [example + picture for example, picture in pairs if not isinstance(picture, RunError)]
        return Encoded(found.indices[is_sound], pa.array(joined, pa.binary()), dict(sorted({**found.faults, **faults}.items())))

    return encode_both


def path_of(cell: str, column: Feature, table: str) -> str:
    """Returns the path of the picture that a cell of a table names."""
    return os.path.join(column['directory'] or os.path.dirname(table), os.path.expanduser(cell))


def state(paths: Iterable[str], name: str, directory: str) -> list[Any]:
    """Returns what tells whether the pictures of tables have changed: JSON values, of their sizes and times."""
    return [_state(path, tuple(stamp(path)), name, directory) for path in paths]


def look_again() -> None:
    """Forgets what `state` has seen of the pictures of tables, which it otherwise looks at once."""
    _state.cache_clear()


@functools.cache
def _state(path, stamped, name, directory):
    del stamped
    table = open_table(path, [name])
    column = find(table, name, directory)
    place, found = table.header.index(column['name']), []
    for block in table.blocks():
        for cell in block.columns[place].to_pylist():
            picture = path_of(cell, column, path)
            found.append([cell, *stamp(picture)] if cell and os.path.isfile(picture) else [cell])
    return found

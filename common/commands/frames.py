"""Tables in the memory of a Python program, as files that --dataset=table reads."""

from collections.abc import Mapping, Sequence
import hashlib
import io
import os
from typing import Any

from estimator_trainer.common import files
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.paths import is_remote
from estimator_trainer.hparams.merge import as_text

_CURES = {  # By the type's name.
    'period': '.dt.to_timestamp()',
    'timedelta': '.dt.total_seconds()',
    'interval': '.astype(str)',
    'Sparse': '.sparse.to_dense()',
}


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of pandas or polars, or a table of Arrow."""
    return hasattr(value, '__arrow_c_stream__') or hasattr(value, 'iloc') and hasattr(value, 'columns') or _is_lazy(value)


def _is_lazy(value):
    return hasattr(value, 'collect') and hasattr(value, 'lazy')


def write(frame: Any, data_dir: str) -> str:
    """Writes a frame to an Arrow file in data_dir, which its content names, and returns the path; its index is left out.

    Raises:
      UsageError: Arrow has no type for a column, or data_dir is remote, or cannot be written.
    """
    if is_remote(data_dir):
        raise UsageError(
            f'data_dir={data_dir}: a table in memory needs a local directory: give one, or write the table to a file'
        )
    import pyarrow as pa  # Takes 0.15 s, which programs without tables need not wait for.

    try:
        table, checksum = _table(pa, frame), _Checksum()
        _write(pa, table, checksum)
        final = os.path.join(data_dir, f'frame-{checksum.sha256.hexdigest()[:16]}.arrow')
        os.makedirs(data_dir, exist_ok=True)
        if not os.path.exists(final):  # The conversion of an older one is bound to its time.
            with files.atomic_path(final) as path:
                _write(pa, table, path)
    except (pa.ArrowException, TypeError, ValueError) as error:
        is_arrows = isinstance(error, pa.ArrowException)  # To whose text pandas adds which column it is.
        reason = ': '.join(map(str, reversed(error.args))) if is_arrows else str(error)
        raise UsageError(f'dataset: the table cannot be read: {" ".join(reason.split())}') from None
    except OSError as error:
        raise UsageError(f'data_dir={data_dir}: cannot be written: {error.strerror}') from None
    return final


def _table(pa, frame):
    if hasattr(frame, 'iloc'):
        if not hasattr(frame, 'columns'):
            raise ValueError('it is a Series: give a DataFrame, with the target')
        frame = frame.rename(columns=str)
        _check_types(frame)
        return pa.Table.from_pandas(frame, preserve_index=False)
    return pa.table(frame.collect() if _is_lazy(frame) else frame)


def _check_types(frame):
    """Raises ValueError for a column of pandas whose values a file cannot have, or mean nothing there: numbers of some unit."""
    for name, found in frame.dtypes.items():
        dtype = str(getattr(getattr(found, 'categories', None), 'dtype', found))
        if cure := next((cure for kind, cure in _CURES.items() if dtype.startswith(kind)), None):
            raise ValueError(f"the column {name} is of the type {dtype}: give frame['{name}']{cure}")


def _write(pa, table, sink):
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


class _Checksum(io.RawIOBase):
    """A file that is only hashed."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        return len(data)


def add_file(hparams: Mapping[str, Any] | str, path: str, target: str | Sequence[str]) -> Mapping[str, Any] | str:
    """Returns hyper-parameters, of either form, with the file of a frame and its targets, '' if they name them."""
    added = {'table_file': path, **({'target': as_text(target)} if len(target) else {})}
    if isinstance(hparams, str):
        return ','.join(filter(None, [hparams, *(f'{name}={value}' for name, value in added.items())]))
    return {**hparams, **added}

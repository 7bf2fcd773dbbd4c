"""common/commands/frames.py: tables in memory, told by what they have, as pandas and polars are no packages of the tests."""

import types

import pyarrow as pa
import pytest

from estimator_trainer.common.commands import frames
from tests.shared import refused

TABLE = pa.table({'a': [1, 2], 'y': ['hi', 'lo']})


def test_a_lazy_frame_is_collected(tmp_path):
    lazy = types.SimpleNamespace(collect=lambda: TABLE, lazy=lambda: lazy)
    assert frames.is_frame(lazy) and frames.is_frame(TABLE) and not frames.is_frame('table') and not frames.is_frame(types)
    path = frames.write(lazy, str(tmp_path))
    assert pa.ipc.open_file(path).read_all() == TABLE and frames.write(TABLE, str(tmp_path)) == path


@pytest.mark.parametrize(
    'dtype, cure',
    [
        ('period[M]', '.dt.to_timestamp()'),
        ('timedelta64[ns]', '.dt.total_seconds()'),
        ('interval[int64, right]', '.astype(str)'),
        ('Sparse[float64, 0]', '.sparse.to_dense()'),
        (types.SimpleNamespace(categories=types.SimpleNamespace(dtype='interval[int64, right]')), '.astype(str)'),
    ],
)
def test_columns_that_mean_nothing_in_a_file_are_refused_with_the_cure(tmp_path, dtype, cure):
    frame = types.SimpleNamespace(
        iloc=None, columns=['a', 't'], dtypes={'a': 'int64', 't': dtype}, rename=lambda columns: frame
    )
    name = getattr(getattr(dtype, 'categories', None), 'dtype', dtype)
    message = f"dataset: the table cannot be read: the column t is of the type {name}: give frame['t']{cure}"
    assert refused(frames.write, frame, str(tmp_path)) == message


def test_a_remote_directory_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(frames.write, TABLE, 'gs://bucket/data').startswith('data_dir=gs://bucket/data: a table in memory needs a')
    assert not [*tmp_path.iterdir()]


def test_what_is_no_table_of_several_columns_is_refused_in_one_line(tmp_path, monkeypatch):
    series = types.SimpleNamespace(iloc=None, __arrow_c_stream__=None)
    assert refused(frames.write, series, str(tmp_path)).endswith('it is a Series: give a DataFrame, with the target')

    def fail(_, frame):
        raise pa.ArrowTypeError("Expected bytes, got a 'int' object", 'Conversion failed for column x with type object')

    monkeypatch.setattr(frames, '_table', fail)
    said = (
        "dataset: the table cannot be read: Conversion failed for column x with type object: Expected bytes, got a 'int' object"
    )
    assert refused(frames.write, TABLE, str(tmp_path)) == said

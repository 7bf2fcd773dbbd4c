"""Files that must not be read as a whole, and text of a user's that must not reach a terminal as it is."""

import contextlib
import io
import logging
import os

from absl import flags
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import console, files
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.formats import images
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.own_data import description
from estimator_trainer.common.own_data.lines import Lines
from estimator_trainer.common.own_data.schema import COLUMNS
from estimator_trainer.common.records import tfrecord
from estimator_trainer.common.storage import checkpoints, run_dir

READERS = (images.read, files.read_json, lambda path: list(Lines(path)), tfrecord.scan)


@pytest.mark.parametrize('read', READERS)
def test_pipes_and_devices_are_refused_before_they_are_read(read, tmp_path):
    os.mkfifo(tmp_path / 'hparams.json')
    for path in (str(tmp_path / 'hparams.json'), '/dev/zero'):
        with pytest.raises((images.ImageError, ValueError, UsageError, tf.errors.OpError), match='is a pipe or a device: '):
            read(path)


@pytest.mark.parametrize('check', [checkpoints.has_checkpoint, run_dir.ensure_writable])
def test_pipes_are_refused_among_the_files_of_a_run_but_not_among_others(check, tmp_path):
    os.mkfifo(tmp_path / 'log')
    check(str(tmp_path))
    os.mkfifo(tmp_path / 'model.ckpt-1.index')
    with pytest.raises(
        UsageError, match=f'^{tmp_path}/model.ckpt-1.index: is a pipe or a device: delete it, or choose another'
    ):
        check(str(tmp_path))


def test_a_file_behind_a_link_that_leads_nowhere_names_the_link_and_its_target(tmp_path):
    (tmp_path / 'data').symlink_to('/no/disk')
    path = f'{tmp_path}/data/mnist'
    for make in (os.mkdir, tf.io.gfile.mkdir):
        with pytest.raises((OSError, tf.errors.OpError)) as raised:
            make(path)
        expected = f'{path}: {tmp_path}/data is a link to /no/disk, which does not exist: create or mount that'
        assert files.explain(raised.value) == expected


@pytest.mark.parametrize('read', READERS[:2])
def test_a_file_too_large_to_be_read_as_a_whole_is_refused(read, tmp_path):
    (tmp_path / os.fsdecode(b'\xff')).write_text('x')  # A name that TensorFlow does not take.
    files.check_readable(os.fsdecode(os.fsencode(tmp_path) + b'/\xff'), 1)
    path = tmp_path / 'large'
    with open(path, 'wb') as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises((images.ImageError, ValueError), match='has 1,073,741,825 bytes, more than 1,073,741,824'):
        read(str(path))


def test_names_in_a_directory_are_sorted_and_without_those_that_tensorflow_cannot_open(tmp_path):
    for name in ('b', 'a', b'c\xff'):
        (tmp_path / os.fsdecode(name)).write_text('')
    assert files.names_in(str(tmp_path)) == ['a', 'b'] and files.names_in(f'{tmp_path}/none') == []


@pytest.mark.parametrize('path', ['gs://', 'gs:///a', 'file://', 'file:///'])
def test_a_scheme_without_a_path_is_refused(path):
    with pytest.raises(UsageError, match=f'--output_dir={path}: names no directory or file'):
        files.check_scheme('output_dir', path)
    for accepted in ('file:///tmp', 'ram:///a'):
        files.check_scheme('output_dir', accepted)


@contextlib.contextmanager
def logged():
    """Yields the log of a run."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    tf.get_logger().addHandler(handler)
    values = flags.FlagValues()
    for name in ('verbosity', 'log_file'):
        flags.DEFINE_string(name, getattr(Options(), name), '', flag_values=values)
    values.mark_as_parsed()
    with console.log(values):
        yield out
    tf.get_logger().removeHandler(handler)


def test_names_with_line_breaks_do_not_split_the_lines_of_the_log():
    with logged() as out:
        description.log_ignored('a.csv', COLUMNS, 'wide\r\nname', 'it is empty')
    assert ' INFO a.csv: the column wide name is ignored: it is empty. --hparams' in out.getvalue()


def test_log_lines_are_printable_and_of_bounded_length():
    with logged() as out:
        tf.logging.warning('picture \x1b[31m.png\nand é\u3000%s.', 'x' * 10**6)
    assert r' WARNING picture \x1b[31m.png' '\nand é\u3000xxx' in out.getvalue() and 10000 < len(out.getvalue()) < 10010
    assert out.getvalue().endswith('x.\n')


@pytest.mark.parametrize(
    'content, expected',
    [
        (b'', (b'', 0)),
        (b'cut', (b'', 0)),
        (b'cut' * 10**5, (b'', 0)),
        (b'\n', (b'', 1)),
        (b'one\ntwo\ncut', (b'two', 8)),
        (b'one\n' + b'2' * 10**5 + b'\n' + b'c' * 10**5, (b'2' * 10**5, 4 + 10**5 + 1)),
        (b'1\n' + b'2' * (1 << 14) + b'\n', (b'2' * (1 << 14), 2 + (1 << 14) + 1)),
    ],
)
def test_the_last_whole_line_of_a_file_is_found_from_its_end(tmp_path, content, expected):
    (tmp_path / 'lines').write_bytes(content)
    with open(tmp_path / 'lines', 'rb', buffering=0) as file:
        assert files.last_line(file) == expected


def test_a_copy_is_whole_even_if_a_run_that_starts_meanwhile_deletes_its_temporary_file(tmp_path, monkeypatch):
    def rename(part, target, move=os.rename):
        files.remove_abandoned(part)
        move(part, target)

    (tmp_path / 'source').write_text('whole')
    monkeypatch.setattr(os, 'rename', rename)
    files.copy(str(tmp_path / 'source'), str(tmp_path / 'target'))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {'source': 'whole', 'target': 'whole'}


def test_a_directory_that_is_named_like_a_temporary_file_stays(tmp_path):
    part = tmp_path / f'file.{"0" * 32}.part'
    part.mkdir()
    files.remove_abandoned(str(part))
    assert part.is_dir()


class Full(io.FileIO):
    """A device that is full, which can be truncated."""

    def truncate(self, size=None):
        return size


def test_a_file_that_cannot_be_appended_to_is_named(tmp_path):
    path = tmp_path / 'full'
    files.append(str(path), b'a')
    files.append(str(path), b'b')
    assert path.read_bytes() == b'ab'
    path.unlink()
    path.symlink_to('/dev/full')
    with pytest.raises(OSError) as raised:  # A device has no length.
        files.append(str(path), b'c')
    assert files.explain(raised.value) == f'{path}: Invalid argument'
    with Full(path, 'ab') as file, pytest.raises(OSError) as raised:
        files.write_from(file, str(path), 0, b'c')
    assert files.explain(raised.value) == f'{path}: No space left on device'

"""Names of files and folders that are never data."""

import pytest

from estimator_trainer.common.foreign_files import is_foreign

FOREIGN = [
    *('.DS_Store', '._a.jpg', '.hidden', '.ipynb_checkpoints', '__MACOSX', 'Icon\r'),
    *('Thumbs.db', 'desktop.ini', 'Desktop.ini', '$RECYCLE.BIN', 'System Volume Information', '~$table.csv'),
    *('@eaDir', 'a.jpg@SynoEAStream', 'SYNOFILE_THUMB_M.png', '#recycle', 'lost+found', '__pycache__'),
]


@pytest.mark.parametrize('name', FOREIGN)
def test_what_systems_leave_is_foreign(name):
    assert is_foreign(name)


@pytest.mark.parametrize('name', ['a.jpg', 'Icon', 'icons', 'thumbs', 'a@b.png', '_a', '__a', '@home', '#1', '~a', 'lost', ''])
def test_similar_names_are_data(name):
    assert not is_foreign(name)

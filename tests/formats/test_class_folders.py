"""Files of class folders, and those held out."""

import hashlib
import os
import shutil

from estimator_trainer.common.formats import class_folders
from tests.shared import refused


def make(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(os.fsencode(path))


def scan(root, train_split='train', eval_share=0.2):
    return class_folders.scan(str(root), ('.jpg', '.png'), train_split, eval_share)


def labels(folders, *splits):
    return {file.path: file.label for split in splits or folders.splits for file in folders.splits[split]}


def sizes(folders):
    return {split: len(files) for split, files in folders.splits.items()}


def many(count, *names):
    return [f'{name}/{i}.png' for name in names for i in range(count)]


def test_folders_are_classes_in_the_order_of_their_names_and_other_files_are_counted_by_their_kind(tmp_path):
    make(tmp_path, 'emu/a.png', 'emu/b.png', 'Cat/c.jpg', 'Cat/d.png', 'dog/deep/er/e.PNG', 'dog/f.JPG')
    folders = scan(tmp_path)
    assert folders.class_names == ['Cat', 'dog', 'emu']
    cats_and_emus = {'Cat/c.jpg': 0, 'Cat/d.png': 0, 'emu/a.png': 2, 'emu/b.png': 2}
    assert labels(folders) == {**cats_and_emus, 'dog/deep/er/e.PNG': 1, 'dog/f.JPG': 1}
    make(tmp_path, 'dog/Thumbs.db', 'dog/x.txt', 'emu/x.TXT', 'emu/x', 'dog/.DS_Store', 'dog/.old/x.png', 'x.png')
    os.symlink('nowhere', tmp_path / 'dog' / 'broken.png')
    folders = scan(tmp_path)
    misplaced = {'.png outside of classes': 1, '.png that cannot be read': 1}
    assert folders.ignored == {'Thumbs.db': 1, '.txt': 2, 'without a suffix': 1, 'hidden': 2, **misplaced}
    assert len(labels(folders)) == 6


def test_the_share_held_out_of_each_class_however_small_is_chosen_by_a_checksum_of_the_path(tmp_path):
    make(tmp_path / 'large', *many(200, 'a', 'b'))
    folders = scan(tmp_path / 'large', eval_share=0.3)
    position = {path: int.from_bytes(hashlib.sha256(path.encode()).digest()[:6], 'big') for path in many(200, 'a', 'b')}
    held_out = labels(folders, 'eval')
    assert held_out.keys() == {path for path in position if position[path] < 0.3 * 2**48}
    assert all(40 < list(held_out.values()).count(label) < 80 for label in (0, 1))
    train = labels(folders, 'train')
    assert list(train) == sorted(position.keys() - held_out.keys(), key=position.get)  # So the classes are mixed.
    make(tmp_path / 'small', *many(2, 'a'), *many(3, 'b'))
    for eval_share in (1e-9, 0.2, 1 - 1e-9):
        folders = scan(tmp_path / 'small', eval_share=eval_share)
        assert set(labels(folders, 'train').values()) == set(labels(folders, 'eval').values()) == {0, 1}


def test_folders_of_splits_are_taken_as_they_are_and_without_one_for_evaluation_a_share_of_train_is_held_out(tmp_path):
    of_all = ('train/a', 'train/b', 'eval/b', 'eval/a', 'test/b', 'other/a')
    make(tmp_path / 'all', *many(3, *of_all), *many(1, 'val/a', 'val/b'))
    folders = scan(tmp_path / 'all')
    assert folders.class_names == ['a', 'b']
    assert sizes(folders) == {'train': 6, 'eval': 6, 'test': 3, 'other': 3, 'val': 2}
    assert labels(folders, 'test') == {f'test/b/{i}.png': 1 for i in range(3)}
    assert folders.find_split('eval', 'train') == 'eval' and folders.find_split('test', 'train') == 'test'
    make(tmp_path / 'held', *many(30, 'train/a', 'train/b'), 'test/1.png', 'test/2.png')
    folders = scan(tmp_path / 'held')
    assert folders.splits.keys() == {'train', 'eval'} and len(labels(folders)) == 60
    assert all(path.startswith('train/') for path in labels(folders, 'eval'))
    assert folders.ignored == {'.png outside of classes': 2}


def test_what_systems_leave_among_classes_and_splits_is_neither_and_is_counted(tmp_path):
    for root, parents in ((tmp_path / 'classes', ['']), (tmp_path / 'splits', ['train/', 'val/'])):
        make(root, *(path for parent in parents for path in many(3, f'{parent}a', f'{parent}b')))
        expected = labels(scan(root))
        thumbnails = ('a/@eaDir/0.png/SYNOFILE_THUMB_M.png', '@eaDir/a/1.png', '__MACOSX/a/._0.png')
        make(root, *thumbnails, *(f'{parents[0]}{path}' for path in ('a/._0.png', 'lost+found/x.png', '$RECYCLE.BIN/1.png')))
        folders = scan(root)
        assert labels(folders) == expected and folders.class_names == ['a', 'b'] and not folders.unlabeled
        assert folders.ignored['@eaDir'] >= 1 and folders.ignored['__MACOSX'] == folders.ignored['lost+found'] == 1


def test_folders_for_testing_without_classes_are_unlabeled_unless_there_is_one_of_a_class(tmp_path):
    make(tmp_path, *many(3, 'train/a', 'train/b', 'val/a', 'val/b', 'test/unknown', 'test2/x/y'), 'notes/old/a.txt')
    folders = scan(tmp_path)
    assert folders.splits.keys() == {'train', 'val'}
    assert folders.unlabeled == {'test': ['unknown'], 'test2': ['x']}  # None of notes, which has no pictures.
    make(tmp_path, 'test/a/0.png')
    assert refused(scan, tmp_path) == f'{tmp_path}/test/unknown: there is no such class in train, which has a, b'


def test_names_of_classes_are_equal_in_both_forms_of_accents(tmp_path):
    composed, apart = '\u00c4pfel', 'A\u0308pfel'
    make(tmp_path, *many(3, f'train/{composed}', 'train/b', f'val/{apart}', 'val/b'))
    folders = scan(tmp_path)
    assert folders.class_names == ['b', composed]
    assert labels(folders, 'val') == {**dict.fromkeys(many(3, 'val/b'), 0), **dict.fromkeys(many(3, f'val/{apart}'), 1)}
    make(tmp_path / 'two', *many(3, composed, apart, 'b'))  # Two classes, of which another part of the trainer warns.
    folders = scan(tmp_path / 'two')
    assert all(folders.class_names[label] == os.path.dirname(path) for path, label in labels(folders).items())


def test_the_split_for_evaluation_is_called_eval_or_validation_and_is_not_that_trained_on(tmp_path):
    for trained, other, expected in (
        ('training', 'val', 'val'),
        ('train', 'valid', 'valid'),
        ('train', 'validation', 'validation'),
        ('val', '', 'eval'),  # Held out.
        ('val', 'valid', 'valid'),
        ('validation', 'val', 'val'),
        ('eval', '', 'eval'),
    ):
        root = tmp_path / f'{trained}-{other}'
        make(root, *(path for split in (trained, other) if split for path in many(30, f'{split}/a', f'{split}/b')))
        folders = scan(root, trained)
        assert folders.find_split('eval', trained) == folders.find_split(expected, trained) == expected
        assert folders.find_split(trained, trained) == trained
        held_out = 0 if other or trained == 'eval' else sizes(folders)['eval']
        assert sizes(folders)[trained] == 60 - held_out and bool(held_out) == (trained == 'val' and not other)


def test_links_are_followed_but_not_in_circles_and_names_of_files_but_not_of_classes_need_not_be_text(tmp_path):
    make(tmp_path, *many(2, 'root/a'), *many(3, 'elsewhere'))
    os.symlink('../elsewhere', tmp_path / 'root' / 'train')  # Here the name of a class.
    os.symlink('.', tmp_path / 'root' / 'a' / 'again')
    assert sorted(labels(scan(tmp_path / 'root'))) == many(2, 'a') + many(3, 'train')
    make(tmp_path / 'own', *many(2, 'a', 'b'), 'a/\udcff.png')
    folders = scan(tmp_path / 'own')
    assert 'a/\udcff.png' in labels(folders) and folders.fingerprint()
    (tmp_path / 'own' / '\udcff').mkdir()
    assert r"'\udcff': the name of a class must be UTF-8: rename the folder" in refused(scan, tmp_path / 'own')


def test_the_fingerprint_tells_whether_files_have_changed_wherever_they_are(tmp_path):
    make(tmp_path, *many(9, 'here/a', 'here/b'))
    before = scan(tmp_path / 'here').fingerprint()
    root = (tmp_path / 'here').rename(tmp_path / 'there')
    assert scan(root).fingerprint() == before != scan(root, eval_share=0.7).fingerprint() and len(before) == 16
    path, found = root / 'a' / '0.png', [before]
    status = path.stat()
    for change in (
        lambda: path.write_text('shorter') and os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns)),
        lambda: os.utime(path, ns=(0, status.st_mtime_ns + 10**6)),
        lambda: path.rename(path.with_name('other.png')),
        lambda: path.with_name('new.png').write_text(''),
        lambda: path.parent.rename(root / 'c'),
    ):
        change()
        found.append(scan(root).fingerprint())
    assert len({*found}) == 6


def test_a_directory_without_usable_classes_is_refused(tmp_path):
    root = tmp_path / 'root'
    for paths, message in (
        ([], ': has no folders, but needs one for each of at least two classes'),
        (['a/1.png', 'a/2.png'], ': has only one folder, a, but needs one'),
        (['a/1.txt', 'b/2.txt'], ': has no files named *.jpg, *.png'),
        (['a/1.png', 'a/2.png', 'b/2.txt'], '/b: has no files named *.jpg, *.png'),
        (['a/1.png', 'b/1.png', 'b/2.png'], '/a/1.png: is the only file of its class: evaluation needs another'),
        (
            ['a.jpg', 'b.jpg', 'labels.csv', '.x'],
            ': has no folders, but needs one for each of at least two classes; it has 1 .csv, 2',
        ),
        (
            many(2, 'data/train/a', 'data/val/a'),
            f': has only one folder, data, but needs one for each of at least two classes: give {root}/data, which has train, ',
        ),
        (
            ['a/1.png', 'a/2.png', *(f'b/{i}.x' for i in 'abc'), 'b/old/x'],
            '/b: has no files named *.jpg, *.png; it has 3 .x, the folder old',
        ),
        (many(2, 'train/a', 'train/b', 'val/a', 'val/c'), '/val/c: there is no such class in train, which has a, b'),
        (many(2, 'train/a', 'train/b', 'val/c'), '/val/c: there is no such class in train'),
        (many(2, 'train/a', 'train/b', 'val/a'), '/val/b: has no files named'),
        (many(2, 'train/a', 'val/a'), '/train: has only one folder, a'),
        (many(2, 'training/a', 'training/b', 'val/a', 'val/b'), ': has the folder val with folders of classes, but no'),
    ):
        root.mkdir()
        make(root, *paths)
        assert refused(scan, root).startswith(f'{root}{message}')
        shutil.rmtree(root)
    make(tmp_path, 'file')
    for path, message in (('file', 'is not a directory'), ('nothing', 'no such directory')):
        assert f'{path}: {message}' in refused(scan, tmp_path / path)
    assert 'gs://bucket: must be a local directory' in refused(scan, 'gs://bucket')

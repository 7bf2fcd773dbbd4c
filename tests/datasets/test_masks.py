"""Users' own pictures with masks: layouts, numbers, classes, bad input."""

import os
import shutil
import struct
import unicodedata
import zlib

import numpy as np
from PIL import ExifTags, Image
import pytest

from benchmarks.digit_masks import NAMES
from benchmarks.digit_masks import write as write_digits
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.formats import masks
from estimator_trainer.common.formats.images import ImageError
from estimator_trainer.datasets import image_folder
from tests.datasets.own_data import Prepared
from tests.shared import raised

SIDE = 8


def numbers(i, height=SIDE, width=SIDE):
    """A mask of the classes 0, 1 and 2, and pixels to ignore."""
    mask = np.random.RandomState(i).randint(0, 3, [height, width]).astype(np.uint8)
    mask[0, 0] = 255
    return mask


def save(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def add(root, name, mask, images='images', drawn='masks', palette=False, suffix='.png'):
    """Writes a picture, whose red is 20 times the number of each pixel, and its mask."""
    pixels = np.zeros([*mask.shape, 3], np.uint8)
    pixels[..., 0] = np.where(mask == 255, 200, 20 * mask)
    save(root / images / f'{name}{suffix}', Image.fromarray(pixels))
    drawing = Image.fromarray(mask)
    if palette:
        drawing.putpalette(np.random.RandomState(0).randint(0, 256, 768, np.uint8).tobytes())
    save(root / drawn / f'{name}.png', drawing)


def fill(root, count=10, **options):
    for i in range(count):
        add(root, f'p{i}', numbers(i), **options)


def prepare(root, *hparams):
    return Prepared(image_folder, root.parent / 'data', f'image_dir={root}', f'image_size={SIDE}', *hparams)


@pytest.mark.parametrize('places', ['{kind}', '{split}/{kind}', '{kind}/{split}'])
def test_pictures_are_read_with_their_masks_from_any_layout(places, tmp_path, caplog):
    root, splits = tmp_path / 'p', ('train', 'val') if 'split' in places else ('train',)
    for split in splits:
        images, drawn = (places.format(kind=kind, split=split) for kind in ('images', 'masks'))
        fill(root, images=images, drawn=drawn, palette=split == 'val')
    unlabeled = root / places.format(kind='images', split='test')
    if 'split' in places:
        save(unlabeled / 'a.png', Image.new('RGB', (4, 4)))
    found = prepare(root)
    cure = f'{root}: the split test has no masks: predict its pictures with --input={unlabeled}.'
    assert (cure in caplog.messages) == ('split' in places)
    train, held_out = found.read('train'), found.read('eval')
    assert (len(train), len(held_out)) == (10, 10) if 'split' in places else len(train) + len(held_out) == 10 and held_out
    for features, labels in train + held_out:
        i = int(features['example_id'].decode().rpartition('/p')[2].removesuffix('.png'))
        np.testing.assert_array_equal(labels['label'], numbers(i))
        assert labels['label'].dtype == np.int32
        red = np.where(labels['label'] == 255, 200, 20 * labels['label'])
        np.testing.assert_allclose(features['image'][..., 0] * 255, red, atol=1e-3)
    assert found.metadata == {'task': 'segmentation', 'num_classes': 3, 'mask_values': [0, 1, 2]}
    files = [str(root / features['example_id'].decode()) for features, _ in held_out]
    assert found.places('eval') == [{'file': file, 'height': SIDE, 'width': SIDE} for file in files]
    assert '\n1: ' in found.source.summary() and 'ignored: 1.56 %' in found.source.summary()


def test_pictures_and_masks_of_any_size_are_resized_together_and_the_mask_takes_the_nearest_pixel(tmp_path):
    for i in range(4):
        add(tmp_path / 'p', f'a/p{i}', np.kron(numbers(i), np.ones([3 + i, 5], np.uint8)), suffix='.bmp')
    found = prepare(tmp_path / 'p', 'eval_share=0.5')
    for features, labels in found.read('train') + found.read('eval'):
        number = int(features['example_id'].decode().removesuffix('.bmp')[-1])
        np.testing.assert_array_equal(labels['label'], numbers(number))
    sizes = {os.path.basename(one['file']): one['height'] for one in found.places('train') + found.places('eval')}
    assert sizes == {'p0.bmp': 24, 'p1.bmp': 32, 'p2.bmp': 40, 'p3.bmp': 48}


def test_a_mask_belongs_to_the_upright_picture(tmp_path):
    fill(tmp_path / 'p')
    mask = np.kron(numbers(1), np.ones([1, 2], np.uint8))  # 16 wide, 8 high.
    add(tmp_path / 'p', 'turned', mask)
    picture = Image.open(tmp_path / 'p/images/turned.png').transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    save(tmp_path / 'p/images/turned.png', picture, exif=exif)
    found = prepare(tmp_path / 'p')
    ((features, labels),) = [pair for pair in found.read('train') + found.read('eval') if b'turned' in pair[0]['example_id']]
    red = np.where(labels['label'] == 255, 200, 20 * labels['label'])
    np.testing.assert_allclose(features['image'][..., 0] * 255, red, atol=1e-3)


def test_a_mask_is_turned_by_its_own_orientation(tmp_path):
    mask = numbers(0, 4, 6)
    for orientation, turn in ((3, Image.Transpose.ROTATE_180), (6, Image.Transpose.ROTATE_90)):
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        save(tmp_path / 'm.png', Image.fromarray(mask).transpose(turn), exif=exif)
        np.testing.assert_array_equal(masks.read_mask(str(tmp_path / 'm.png'), 4, 6), mask)


def test_names_match_in_either_form_of_unicode(tmp_path):
    root, (composed, apart) = tmp_path / 'p', (unicodedata.normalize(form, 'Bäume') for form in ('NFC', 'NFD'))
    for i in range(4):
        add(root, f'{composed}/{apart}{i}', numbers(i))
    (root / 'masks' / composed).rename(root / 'masks' / apart)
    found = prepare(root, 'max_bad_share=0')
    assert len(found.read('train')) + len(found.read('eval')) == 4
    (root / 'images' / composed).rename(root / 'images' / apart)
    (root / 'masks' / apart).rename(root / 'masks' / composed)
    for i, form in enumerate((composed, apart)):
        add(root, f'{form}{i}', numbers(i))
        (root / 'masks' / f'{form}{i}.png').rename(root / 'masks' / f'{composed if form == apart else apart}{i}.png')
        assert len([*image_folder.read_labeled(str(root / 'images' / f'{form}{i}.png'), found.params)]) == 1
    add(root, f'{composed}0', numbers(0))
    assert 'differ in the suffix only, or in how accents are stored' in raised(UsageError, prepare, root)


def test_the_numbers_of_masks_of_all_kinds_are_read_as_they_are(tmp_path):
    mask = np.array([[0, 1, 2], [3, 2, 1]], np.uint8)
    for bits in (2, 4, 8):
        drawing = Image.fromarray(mask)
        drawing.putpalette([0] * 768)
        drawing.save(tmp_path / 'palette.png', bits=bits)
        np.testing.assert_array_equal(masks.read_mask(str(tmp_path / 'palette.png'), 2, 3), mask)
    Image.fromarray(mask.astype(np.uint16)).save(tmp_path / '16.png')
    np.testing.assert_array_equal(masks.read_mask(str(tmp_path / '16.png'), 2, 3), mask)
    Image.fromarray(mask > 1).save(tmp_path / '1.png')
    np.testing.assert_array_equal(masks.read_mask(str(tmp_path / '1.png'), 2, 3), mask > 1)
    (tmp_path / '2.png').write_bytes(gray_png(mask, 2))
    np.testing.assert_array_equal(masks.read_mask(str(tmp_path / '2.png'), 2, 3), mask)


def gray_png(mask, bits):
    """Returns a gray PNG file of few bits, which Pillow does not write."""
    rows = b''
    for row in mask.tolist():
        text = ''.join(f'{value:0{bits}b}' for value in row)
        text += '0' * (-len(text) % 8)
        rows += b'\0' + bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))
    return png(*mask.shape, bits, 0, rows)


def png(height, width, bits, color_type, rows):
    """Returns a PNG file of rows that each begin with the number of their filter."""

    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

    header = struct.pack('>IIBBBBB', width, height, bits, color_type, 0, 0, 0)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


@pytest.mark.parametrize('mode', ['RGB', 'RGBA', 'LA'])
def test_a_mask_in_colors_that_are_all_gray_is_read(mode, tmp_path):
    save(tmp_path / 'm.png', Image.fromarray(numbers(0)).convert(mode))
    np.testing.assert_array_equal(masks.read_mask(str(tmp_path / 'm.png'), SIDE, SIDE), numbers(0))


def test_masks_of_0_and_255_alone_are_two_classes_and_that_is_said(tmp_path, caplog):
    for i in range(4):
        add(tmp_path / 'p', f'p{i}', np.uint8(255 * (numbers(i) == 1)))
    found = prepare(tmp_path / 'p', 'eval_share=0.5')
    assert found.metadata['mask_values'] == [0, 255] and found.metadata['num_classes'] == 2
    assert 'masks have the numbers 0 and 255 alone: 255 is taken for class 1' in caplog.text
    for features, labels in found.read('train'):
        i = int(features['example_id'].decode()[-5])
        np.testing.assert_array_equal(labels['label'], numbers(i) == 1)
    drawn = masks.to_file(np.array([[0, 1]]), 2, 2, [0, 255], np.array([[0, 0, 0], [9, 8, 7]], np.uint8))
    (tmp_path / 'x.png').write_bytes(drawn)
    np.testing.assert_array_equal(masks.read_mask(str(tmp_path / 'x.png'), 2, 2), [[0, 255], [0, 255]])
    assert Image.open(tmp_path / 'x.png').convert('RGB').getpixel((1, 0)) == (9, 8, 7)


def test_what_is_ignored_beside_two_classes_is_said(tmp_path, caplog):
    for i in range(4):
        add(tmp_path / 'p', f'p{i}', np.uint8((255 if i else 1) * (numbers(i) == 1)))
    prepare(tmp_path / 'p', 'eval_share=0.5')
    assert 'masks have the numbers 0, 1 and 255: 255 is taken for pixels to ignore, not for class 1.' in caplog.text


def test_that_a_model_of_0_and_1_ignores_masks_of_0_and_255_is_said_once_for_a_directory(tmp_path, caplog):
    for i in range(4):
        add(tmp_path / 'p', f'p{i}', np.uint8(numbers(i) == 1))
        add(tmp_path / 'q', f'p{i}', np.uint8(255 * (numbers(i) == 1)))
    found = prepare(tmp_path / 'p', 'eval_share=0.5')
    warning = 'in masks that have the numbers 0 and 255 alone, 255 is taken for pixels to ignore, not for class 1, as the model'
    assert warning not in caplog.text
    for i in range(2):
        assert len([*image_folder.read_labeled(str(tmp_path / f'q/images/p{i}.png'), found.params)]) == 1
    assert caplog.text.count(f'{tmp_path}/q/masks: {warning}') == 1
    shutil.copytree(tmp_path / 'q', tmp_path / 'p', dirs_exist_ok=True)
    found.prepared_with(found.metadata).read('eval')
    assert caplog.text.count(f'{tmp_path}/p: {warning}') == 1


def test_a_given_number_of_classes_stays_that_of_the_model(tmp_path):
    fill(tmp_path / 'p')
    far(tmp_path / 'p')
    found = prepare(tmp_path / 'p', 'num_classes=60')
    assert found.metadata['num_classes'] == 60
    trained = found.prepared_with(found.metadata)
    assert trained.source.metadata() == found.metadata and '\n50: ' in trained.source.summary()
    add(tmp_path / 'p', 'more', np.arange(64, dtype=np.uint8).reshape(SIDE, SIDE))
    assert found.prepared_with(found.metadata).source.metadata()['num_classes'] == 64


def test_classes_have_the_names_in_a_file_and_those_that_training_lacks_are_named(tmp_path, caplog):
    fill(tmp_path / 'p', images='train/images', drawn='train/masks')
    add(tmp_path / 'p', 'x', np.full([SIDE, SIDE], 3, np.uint8), images='val/images', drawn='val/masks')
    (tmp_path / 'p' / 'classes.txt').write_text('sky\nroad\ncar\ndog\n')
    found = prepare(tmp_path / 'p')
    assert found.metadata['class_names'] == ['sky', 'road', 'car', 'dog']
    assert 'the split train has no pixel of the class dog: it is not learned' in caplog.text
    (tmp_path / 'p' / 'classes.txt').write_text('sky\nroad\ncar\ncat\n')
    assert 'the classes are sky, road, car, cat, but the model was trained with sky' in raised(UsageError, found.read, 'train')


def few(root):
    for i in range(2):
        save(root / 'images' / f'lonely{i}.png', Image.new('RGB', (SIDE, SIDE)))
    save(root / 'masks' / 'alone.png', Image.new('L', (SIDE, SIDE)))


def test_a_few_pictures_without_a_sound_mask_are_skipped_and_counted_and_many_are_an_error(tmp_path, caplog):
    root = tmp_path / 'p'
    fill(root, 20)
    few(root)
    add(root, 'small', numbers(1))
    save(root / 'masks/small.png', Image.new('L', (SIDE, 3)))
    for _ in range(2):
        found = prepare(root, 'max_bad_share=0.2')
    (listed,) = (root.parent / 'data').rglob('unreadable.txt')
    assert len(listed.read_text().splitlines()) == 4
    assert len(found.read('train')) + len(found.read('eval')) == 20
    assert '4 of 24 pictures are unreadable or have no sound mask, listed in' in caplog.text
    assert 'lonely0.png: has no mask masks/lonely0.png' in caplog.text and 'masks/alone.png: has no picture' in caplog.text
    assert 'small.png: has 8x3 pixels, but its picture, upright, has 8x8' in caplog.text
    message = raised(RunError, prepare, root)
    assert 'lonely0.png: has no mask masks/lonely0.png: repair or remove them, or raise max_bad_share=0.01' in message


def test_files_beside_the_folders_of_splits_are_counted(tmp_path, caplog):
    caplog.set_level('INFO', 'tensorflow')
    fill(tmp_path / 'p', 4, images='images/train', drawn='masks/train')
    add(tmp_path / 'p', 'loose', numbers(0))
    prepare(tmp_path / 'p')
    assert f'{tmp_path}/p: ignored 2 other files: 2 .png outside of splits' in caplog.text


def test_a_pair_with_broken_links_counts_once(tmp_path, caplog):
    root = tmp_path / 'p'
    fill(root, 17)
    for kind, name in (('images', 'both'), ('masks', 'both'), ('images', 'picture'), ('masks', 'mask')):
        if name != 'both':
            add(root, name, numbers(0))
            (root / kind / f'{name}.png').unlink()
        (root / kind / f'{name}.png').symlink_to('nowhere')
    found = prepare(root, 'max_bad_share=0.15')  # 3 of 20.
    assert len(found.read('train')) + len(found.read('eval')) == 17
    assert '3 of 20 pictures are unreadable or have no sound mask' in caplog.text
    (listed,) = (root.parent / 'data').rglob('unreadable.txt')
    places = ['images/both.png', 'images/picture.png', 'masks/mask.png']
    assert sorted(listed.read_text().splitlines()) == [f'{place}: is a broken link, or no file' for place in places]
    assert found.places('eval')
    for path in (root / 'masks').iterdir():
        path.unlink()
        path.symlink_to('nowhere')
    assert ' but 20 broken links: restore what they link to' in raised(UsageError, prepare, root)


@pytest.mark.parametrize(
    ('kind', 'reason'),
    [
        ('JPEG', 'is a JPEG file, which may blur numbers: export masks as PNG files, rather than convert them'),
        ('BMP', 'is a BMP file: save it as a gray or palette PNG'),
        ('RGB', 'has colors or transparency (RGB), not numbers of classes: save it as a gray or palette PNG'),
        ('RGBA', 'has colors or transparency (RGBA)'),
        ('LA', 'has colors or transparency (LA)'),
        ('key', 'has colors or transparency (RGB)'),
        ('16 bits', 'has colors or transparency (RGB)'),
        ('I;16', 'has the number 300, but classes are below 255'),
    ],
)
def test_a_file_that_is_no_mask_is_one_line(kind, reason, tmp_path):
    path = tmp_path / 'm.png'
    drawing = Image.fromarray(np.full([2, 2], 300, np.uint16) if kind == 'I;16' else numbers(0, 2, 2))
    if kind == 'RGB':
        drawing = Image.merge('RGB', [drawing, drawing, Image.new('L', (2, 2))])
    if kind in ('RGBA', 'LA'):
        drawing = drawing.convert(kind)
        drawing.putalpha(254)
    if kind == '16 bits':  # Pillow keeps the upper 8 of them, here 0.
        path.write_bytes(png(2, 2, 16, 2, bytes(2 * (1 + 2 * 6))))
    elif kind == 'key':
        drawing.convert('RGB').save(path, transparency=(255, 255, 255))
    else:
        drawing.save(path, kind if kind in ('BMP', 'JPEG') else 'PNG')
    assert raised(ImageError, masks.read_mask, str(tmp_path / 'm.png'), 2, 2).startswith(reason)


def rename(root):
    for path in (root / 'masks').iterdir():
        path.rename(path.with_name(f'{path.stem}_mask.png'))


def twice(root):
    save(root / 'images' / 'p0.jpg', Image.new('RGB', (SIDE, SIDE)))


def empty(root):
    for path in (root / 'images').iterdir():
        path.unlink()


def names(text):
    return lambda root: (root / 'classes.txt').write_bytes(text)


def far(root):
    for path in (root / 'masks').iterdir():
        Image.fromarray(50 * (np.asarray(Image.open(path)) % 2)).save(path)


def blurred(root):
    for path in (root / 'masks').iterdir():
        Image.fromarray(np.linspace(0, 255, SIDE * SIDE).astype(np.uint8).reshape(SIDE, SIDE)).save(path)


def one_class(root, number=0):
    for path in (root / 'masks').iterdir():
        Image.new('L', (SIDE, SIDE), number).save(path)


@pytest.mark.parametrize(
    ('spoil', 'hparams', 'message'),
    [
        (rename, '', 'no picture has a mask: images/p'),
        (twice, '', 'images: p0.jpg and p0.png differ in the suffix only'),
        (empty, '', 'images: has no files named *.avif'),
        (
            far,
            '',
            'masks have the numbers 0, 50 alone: renumber them from 0 on, or, if there are 51 or more classes, say so by',
        ),
        (blurred, '', 'masks have 63 numbers up to 250, and 255, as those of 0 and 255 that were blurred, blended or saved'),
        (one_class, '', 'masks have only the numbers 0, but need at least two classes besides 255'),
        (lambda root: one_class(root, 255), '', 'masks have only the numbers 255, but need at least two'),
        (names(b'a\nb\n'), '', '.png: has pixels of the class 2, but classes.txt has 2, so that classes are 0 to 1'),
        (names(b'a\nb\nc\n'), 'num_classes=4', 'num_classes=4, but'),
        (names(b'a\na\nc\n'), '', 'classes.txt: line 2 is a again'),
        (names(b'a\n\nc\n'), '', 'classes.txt: line 2 is empty'),
        (names(b'\xff'), '', 'classes.txt: cannot be read as UTF-8'),
        (lambda root: None, 'num_classes=2', '.png: has pixels of the class 2, but num_classes is 2'),
        (lambda root: None, 'folds=20', 'has 10 pictures with a mask, but needs 20: add some, or use fewer folds'),
    ],
)
def test_unsuitable_masks_are_one_line(spoil, hparams, message, tmp_path):
    fill(tmp_path / 'p')
    spoil(tmp_path / 'p')
    assert message in raised(UsageError, prepare, tmp_path / 'p', *filter(None, [hparams]))


@pytest.mark.parametrize('place', ['{split}/{kind}', '{kind}/{split}'])
def test_masks_of_an_evaluation_without_its_pictures_are_one_line(place, tmp_path):
    for split in ('train', 'val', 'drafts'):
        fill(tmp_path / 'p', images=place.format(split=split, kind='images'), drawn=place.format(split=split, kind='masks'))
    pictures, drawn = (place.format(split='val', kind=kind) for kind in ('images', 'masks'))
    shutil.rmtree(tmp_path / 'p' / place.format(split='drafts', kind='images'))
    assert len(prepare(tmp_path / 'p').places('eval')) == 10
    shutil.rmtree(tmp_path / 'p' / pictures)
    assert f'has the folder {drawn}, but not {pictures} with the pictures' in raised(UsageError, prepare, tmp_path / 'p')


@pytest.mark.parametrize('split', ['train', 'val'])
def test_a_split_whose_pixels_are_all_to_be_ignored_is_one_line_unless_it_is_for_tests(split, tmp_path):
    for folder in ('train', 'val', 'test'):
        fill(tmp_path / 'p', 4, images=f'{folder}/images', drawn=f'{folder}/masks')
    one_class(tmp_path / 'p' / 'test', 255)
    prepare(tmp_path / 'p')
    one_class(tmp_path / 'p' / split, 255)
    message = f'{tmp_path}/p: all pixels of the masks of the split {split} are 255, to be ignored: correct these masks'
    assert message in raised(UsageError, prepare, tmp_path / 'p')


def test_folders_of_pascal_voc_are_not_taken_for_classes(tmp_path):
    for name in ('JPEGImages', 'SegmentationClass'):
        save(tmp_path / 'p' / name / 'a.png', Image.new('L', (4, 4)))
    with pytest.raises(UsageError, match='p: is laid out as Pascal VOC: link its pictures and masks'):
        prepare(tmp_path / 'p')


def test_files_to_predict_or_evaluate_are_found_beside_their_masks(tmp_path):
    fill(tmp_path / 'p')
    params = prepare(tmp_path / 'p').params
    picture, mask = (str(tmp_path / 'p' / kind / 'p3.png') for kind in ('images', 'masks'))
    assert [fields for fields, _ in image_folder.read_input(picture, params)] == [{'height': SIDE, 'width': SIDE}]
    assert not [*image_folder.read_input(mask, params)] and not [*image_folder.read_labeled(mask, params)]
    assert len([*image_folder.read_labeled(picture, params)]) == 1
    (tmp_path / 'p/masks/p3.png').rename(tmp_path / 'p/masks/p3.PNG')
    assert len([*image_folder.read_labeled(picture, params)]) == 1
    (tmp_path / 'p/masks/p3.PNG').rename(mask)
    for value, message in (
        (7, 'has pixels of the class 7, but the model was trained with the numbers 0, 1, 2'),
        (None, f'{picture}: has no mask {mask}'),
    ):
        (tmp_path / 'p/masks/p3.png').unlink()
        if value:
            Image.new('L', (SIDE, SIDE), value).save(mask)
        assert message in raised((UsageError, RunError), lambda: [*image_folder.read_labeled(picture, params)])


def test_a_model_trained_with_masks_refuses_folders_of_classes(tmp_path):
    fill(tmp_path / 'p')
    found = prepare(tmp_path / 'p')
    (tmp_path / 'p' / 'masks').rename(tmp_path / 'p' / 'others')
    others = found.prepared_with(found.metadata)
    assert 'has folders of classes, but the model was trained with masks' in raised(UsageError, others.read, 'train')


def test_digits_are_drawn_with_their_masks(tmp_path):
    write_digits(str(tmp_path / 'digits'), 4)
    found = prepare(tmp_path / 'digits', 'max_bad_share=0')
    assert (len(found.read('train')), len(found.read('eval'))) == (4, 2) and found.metadata['class_names'] == [*NAMES]

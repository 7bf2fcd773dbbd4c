"""The contact sheet of --visualize."""

import json
import re

import numpy as np
from PIL import Image, ImageDraw
import pytest

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.contact_sheet import ContactSheet
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.ops.images import WRONG

NAMES = ['cat', 'dog', 'Übergröße', '猫']


@pytest.fixture
def captions(monkeypatch):
    """The drawn texts."""
    drawn, text = [], ImageDraw.ImageDraw.text
    monkeypatch.setattr(ImageDraw.ImageDraw, 'text', lambda *args, **kwargs: drawn.append(args[2]) or text(*args, **kwargs))
    return drawn


def prediction(number, share=0.9, shape=(28, 28, 1), **fields):
    probabilities = np.full(4, (1 - share) / 3)
    probabilities[number] = share
    values, label = {'class': np.int64(number), 'probabilities': probabilities}, fields.pop('label', None)
    return Prediction(fields, values, image=np.zeros(shape, np.float32), label=label)


def draw(path, predictions, **options):
    sheet = ContactSheet(str(path), **options)
    for one in predictions:
        sheet.add(one)
    sheet.save()
    return np.asarray(Image.open(path))


def test_a_wrong_prediction_has_a_red_frame_and_its_label(tmp_path, captions):
    pixels = draw(tmp_path / 'x.png', [prediction(i, label=np.int32(0)) for i in range(2)], class_names=NAMES)
    assert captions == ['cat 90%', 'example 0', 'dog 90%', 'label cat', 'example 1']
    assert (pixels == 0).all(-1).sum() == 2 * 112**2  # 28 pixels that are enlarged 4 times.
    of_right, of_wrong = ((half == WRONG).all(-1).sum() for half in np.split(pixels, 2, axis=1))
    frame = 120**2 - 112**2
    assert of_right == 0 and frame <= of_wrong < frame + 300  # And letters.


def test_the_folder_of_a_file_may_be_its_class_by_name_or_number(tmp_path, captions):
    for folders, number, names in ((['cat', 'dog', 'new'], 0, NAMES), (['3', '2', '2024'], 3, None)):
        paths = [f'/in/{folder}/{i}.png' for i, folder in enumerate(folders)]
        pixels = draw(tmp_path / 'x.png', [prediction(number, input=path) for path in paths], class_names=names)
        right, wrong, _ = folders
        assert captions == [f'{right} 90%', '0.png', f'{right} 90%', f'label {wrong}', '1.png', f'{right} 90%', '2.png']
        assert (pixels == WRONG).all(-1).any()
        captions.clear()


def test_what_the_font_lacks_is_replaced_and_long_texts_are_shortened(tmp_path, captions):
    found = [prediction(2), prediction(3, 1.0, example_id='dir/' + 40 * 'ä')]
    draw(tmp_path / 'x.png', found, class_names=NAMES)
    assert captions[:3] == ['2: Ubergro?e 90%', 'example 0', '3: ? 100%']
    assert captions[3].strip('a') == '…' and 10 < len(captions[3]) < 40


@pytest.mark.parametrize('shape, size', [((300, 200, 3), (128, 85)), ((64, 32, 1), (128, 64)), ((1, 2000, 3), (1, 128))])
def test_images_of_any_shape_fit_into_their_tiles(tmp_path, shape, size):
    pixels = draw(tmp_path / 'x.png', [prediction(0, shape=shape)])
    rows, columns = np.nonzero((pixels[:140] == 0).all(-1))
    assert (np.ptp(rows) + 1, np.ptp(columns) + 1) == size


def test_a_prediction_without_a_class_shows_its_first_number(tmp_path, captions):
    found = Prediction({'example_id': 7}, {'value': np.float32(0.123456)}, image=np.zeros([28, 28, 1]), label=np.int32(1))
    draw(tmp_path / 'x.png', [found])
    assert captions == ['value 0.1235', '7']


def test_the_labels_of_a_split_are_compared_with_its_predictions(run, trained_run, tmp_path, captions):
    trained_run('alexnet')
    captions.clear()
    code, result, err = run('--schedule=predict', f'--visualize={tmp_path}/x.png')
    assert code == 0 and result['visualize'] == f'{tmp_path}/x.png', err
    expected = []
    for i, (line, label) in enumerate(zip(open(result['predictions']), [7, 2, 1, 0, 4, 1, 4, 9, 5, 9])):  # The test digits.
        number = json.loads(line)['class']
        expected += [str(number), *[f'label {label}'] * (number != label), f'example {i}']
    assert [re.sub(r' \d+%$', '', text) for text in captions][: len(expected)] == expected
    assert captions.count('example 99') == 1 and 'example 100' not in captions


def test_a_sheet_needs_a_directory_and_images(tmp_path):
    with pytest.raises(UsageError, match='--visualize=.*/no/x.png: there is no directory .*/no'):
        ContactSheet(f'{tmp_path}/no/x.png')
    sheet = ContactSheet(f'{tmp_path}/x.png')
    for image in (None, np.zeros([4, 4]), np.zeros([4, 4, 2])):
        with pytest.raises(UsageError, match='--visualize: the dataset has no feature image of shape'):
            sheet.add(Prediction({}, {'class': np.int64(1)}, image=image))


def test_a_picture_is_tinted_by_its_predicted_mask_and_the_caption_has_the_largest_classes(tmp_path, captions):
    masks = [np.array([[0, 0], [1, 2]]), np.zeros([2, 2], int)]
    one, other = (Prediction({'example': 7}, {'class': mask}, image=np.zeros([2, 2, 1], np.float32)) for mask in masks)
    sheet = draw(tmp_path / 'sheet.png', [one, other], class_names=['sky', 'cat', 'dog'])
    assert captions == ['cat 25%, dog 25%', 'example 7', 'sky 100%', 'example 7']
    assert {(64, 0, 0), (0, 64, 0), (0, 0, 0)} < {tuple(color) for color in sheet.reshape(-1, 3).tolist()}

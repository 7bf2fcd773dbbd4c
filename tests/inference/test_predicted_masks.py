"""The files of predicted masks."""

import json
import os

import numpy as np
from PIL import Image

from estimator_trainer.common.inference.predicted_masks import MaskFiles, read_lines
from estimator_trainer.common.inference.prediction import Prediction

MASK = np.array([[0, 1], [1, 1]])


def test_masks_have_the_size_of_their_pictures_and_names_of_their_own(tmp_path, caplog):
    files = MaskFiles(str(tmp_path / 'p.jsonl'), {'num_classes': 2, 'mask_values': [0, 255], 'class_names': ['sky', 'car']})
    fields = [{'input': 'a/x.jpg', 'height': 4, 'width': 6}, {'input': 'b/x.jpg'}, {'split': 'eval', 'example': 3}]
    saved = [files.save(Prediction(each, {'class': MASK, 'probabilities': np.zeros([2, 2, 2])}, label=MASK)) for each in fields]
    lines = [prediction.to_json(['sky', 'car']) for prediction in saved]
    (tmp_path / 'p.jsonl').write_text('\n'.join(map(json.dumps, [lines[1], {'mask': [1]}])))
    kept, arrays = (read_lines(str(tmp_path / 'p.jsonl'), are_kept) for are_kept in (True, False))
    assert kept == [lines[1], {'mask': [1]}] and np.array_equal(arrays[0]['mask'], 255 * MASK) and arrays[1] == kept[1]
    assert [os.path.relpath(line.pop('mask'), tmp_path) for line in lines] == [
        f'p_masks/{name}.png' for name in ('x', 'x_2', '000003')
    ]
    assert lines == [{**each, 'shares': {'sky': 0.25, 'car': 0.75}} for each in fields]
    drawn = [Image.open(tmp_path / 'p_masks' / name) for name in ('x.png', 'x_2.png')]
    assert np.array_equal(drawn[0], 255 * np.kron(MASK, np.ones([2, 3], int))) and np.array_equal(drawn[1], 255 * MASK)
    assert drawn[0].convert('RGB').getpixel((5, 0)) == (128, 0, 0) and 'earlier masks' not in caplog.text
    other = Prediction({'example': 0}, {'class': np.int64(1)})
    assert MaskFiles(str(tmp_path / 'p.jsonl'), {'num_classes': 2}).save(other) is other and 'earlier masks' in caplog.text

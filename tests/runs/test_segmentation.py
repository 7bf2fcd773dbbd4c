"""Pictures with masks from training to predictions, report and export."""

import json

import numpy as np
from PIL import Image
import pytest

from estimator_trainer.common.commands import api
from tests.datasets.own_data import predicted
from tests.datasets.test_masks import add, numbers


def test_masks_are_learned_and_go_from_predictions_to_report(run, tmp_path):
    for i in range(12):
        add(
            tmp_path / 'p', f'p{i}', np.kron(numbers(i, 4, 4), np.ones([8, 4 + i % 2 * 4], np.uint8))
        )  # No pixel is on an edge.
    hparams = (
        f'image_dir={tmp_path}/p,image_size=16,filters=8,depth=2,num_epochs=30,min_steps=0,batch_size=5,augment_flip=true,'
        'augment_shift=2,augment_color=0.1,class_weights=balanced,learning_rate=0.02'
    )
    flags = ('--model=unet', '--dataset=image_folder', f'--data_dir={tmp_path}/data')
    code, result, _ = run(*flags, f'--hparams={hparams}', '--best_metric=mean_iou:max', '--eval_every_steps=40')
    metrics = result['eval']
    assert code == 0 and metrics['mean_iou'] > 0.9 and {'iou_0', 'iou_1', 'iou_2', 'pixel_accuracy'} < {*metrics}
    assert run(*flags, '--schedule=predict', f'--visualize={tmp_path}/sheet.png')[1]['masks'].endswith('predictions_masks')
    model, lines = api.load(tmp_path / 'output'), predicted(tmp_path / 'output')
    for line in lines:
        mask, picture = Image.open(line['mask']), Image.open(tmp_path / 'p' / line['example_id'])
        assert mask.mode == 'P' and mask.size == picture.size == (line['width'], line['height'])
        assert sum(line['shares'].values()) == pytest.approx(1, abs=1e-4) and [*line['shares']] == ['0', '1', '2']
        found = model.predict(str(tmp_path / 'p' / line['example_id']))['class']
        height, width = np.arange(mask.height), np.arange(mask.width)
        nearest = found[((height + 0.5) * 16 // mask.height).astype(int)][:, ((width + 0.5) * 16 // mask.width).astype(int)]
        np.testing.assert_array_equal(nearest, np.asarray(mask))
    (one,) = model.predict_files(str(tmp_path / 'p/images/p3.png'))
    assert one['mask'].shape == (one['height'], one['width']) == (32, 32) and {*np.unique(one['mask'])} <= {0, 1, 2}
    assert run(*flags, '--schedule=report')[0] == 0
    page = (tmp_path / 'output' / 'report.html').read_text()
    assert 'The mean IoU of the classes is' in page
    evaluated = run(*flags, '--schedule=evaluate', f'--input={tmp_path}/p/images')[1]['input']
    assert evaluated['mean_iou'] > 0.9
    assert run(*flags, '--schedule=export')[0] == 0
    (export,) = (tmp_path / 'output' / 'export').iterdir()
    assert json.loads((export / 'assets.extra' / 'model_card.json').read_text())['task'] == 'image-segmentation'

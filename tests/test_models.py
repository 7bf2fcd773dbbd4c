"""Every model under models/, found by itself: it trains on one of the datasets, and has the size that it should."""

import pytest
import tensorflow.compat.v1 as tf

from common import plugins
from hparams import build

# Worked out from the layers by hand.
NUM_PARAMETERS = {
    'alexnet': (3 * 3 * 1 * 32 + 32) + (3 * 3 * 32 * 64 + 64) + (3 * 3 * 64 * 128 + 128) + (3 * 3 * 128 * 512 + 512)
               + (512 * 10 + 10),
    'polynomial': 3,
}


def trains_on(run, model, dataset):
    try:
        code, result, _ = run(f'--model={model}', f'--dataset={dataset}', '--schedule=dry_run')
    except (KeyError, ValueError, AttributeError):  # Not made for each other.
        return False
    return code == 0 and result['eval']['loss'] > 0


@pytest.mark.parametrize('model', plugins.available('model'))
def test_every_model_trains_on_a_dataset(run, model):
    datasets = sorted(plugins.available('dataset'), key=lambda dataset: f'{model}_{dataset}' not in build.available_sets())
    assert any(trains_on(run, model, dataset) for dataset in datasets)


@pytest.mark.parametrize('model, dataset', [('alexnet', 'mnist'), ('polynomial', 'polynomial')])
def test_number_of_parameters(run, model, dataset, tmp_path):
    run(f'--model={model}', f'--dataset={dataset}', '--schedule=train', '--train_steps=1')
    reader = tf.train.load_checkpoint(str(tmp_path / 'output'))
    shapes = [shape for name, shape in reader.get_variable_to_shape_map().items()
              if 'Adam' not in name and 'beta' not in name and name != 'global_step']
    assert sum(tf.TensorShape(shape).num_elements() for shape in shapes) == NUM_PARAMETERS[model]

"""The length of a run: steps of epochs, and the examples that they need."""

import pytest

from estimator_trainer.common.runs import length
from estimator_trainer.hparams import build


def make_params(text):
    return build.make_hparams('m', {}, 'd', {}, text=text)


@pytest.mark.parametrize(
    ('epochs', 'examples', 'batch_size', 'steps'),
    [(1.1, 100, 5, 22), (16.1, 1000, 100, 161), (0.3, 1000, 100, 3), (1.0, 101, 10, 11), (0.001, 10, 10, 1), (2.5, 3, 2, 4)],
)
def test_epochs_need_not_be_whole_and_the_last_step_may_have_a_part_of_a_batch(epochs, examples, batch_size, steps):
    params = make_params(f'num_epochs={epochs},batch_size={batch_size}')
    assert length._train_steps(params, examples) == steps


def test_a_training_reads_a_shuffle_buffer_more_than_it_trains_on_and_what_statistics_of_averages_need():
    text = 'train_steps=50,batch_size=10,shuffle_buffer=7'
    assert length.needed_examples(make_params(text)) == 507
    assert length.needed_examples(make_params(f'{text},swa_start=20')) == 507 + 100 * 10
    assert length.needed_examples(make_params('num_epochs=3.0')) is None

"""The events of a training, as TensorBoard sees them."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
import tensorflow.compat.v1 as tf

from tests.linear import input_fn, make_estimator


def test_what_a_killed_training_has_written_of_later_steps_is_forgotten(tmp_path):
    for max_steps in (2, 6):
        make_estimator(tmp_path).train(input_fn(), max_steps=max_steps)
    # As if it had been killed before it saved another checkpoint.
    tf.train.update_checkpoint_state(str(tmp_path), f'{tmp_path}/model.ckpt-2')
    seen = EventAccumulator(str(tmp_path), purge_orphaned_data=True)
    assert steps(seen) == [1, 2, 3, 4, 5, 6]
    make_estimator(tmp_path).train(input_fn(), max_steps=4)
    assert steps(seen) == [1, 2, 3, 4]


def steps(accumulator):
    return [event.step for event in accumulator.Reload().Scalars('learning_rate')]

"""A program's own model_fn and input_fn in a cluster without parameter servers."""

from tests.cluster.tasks import Run, addresses
from tests.shared import assert_equal


def test_a_program_trains_as_one_process_and_resumes_at_its_place_in_the_data(tmp_path):
    """Batches of 7 have another share for each task; a resumed run has passed part of an epoch. The cluster's are tensors."""
    module = 'tests.cluster.own_program'
    flags = (f'--model={module}', '--save_checkpoints_steps=10')
    one = Run(tmp_path / 'one', {}, *flags, f'--dataset={module}', '--train_steps=20')
    assert one.wait() == [0], one.log('chief0')
    for steps, towers in ((9, 1), (20, 2)):
        flags = (*flags[:2], '--dataset=tests.cluster.own_tensors', f'--train_steps={steps}', f'--num_towers={towers}')
        two = Run(tmp_path / 'two', addresses(chief=1, worker=1), *flags)
        assert two.wait() == [0, 0], two.log('chief0') + two.log('worker0')
    assert_equal(two.weights(), one.weights(), 1e-5)

"""--overwrite starts over in the output_dir of a run, once nothing is left to refuse."""

import os

import pytest

from estimator_trainer.common.storage import run_dir
from tests.shared import POLYNOMIAL, read_weights
from tests.storage.test_run_files import files_in

OVERWRITE = (*POLYNOMIAL, '--overwrite', '--train_steps=4')


@pytest.mark.parametrize(
    'flags, message',
    [
        (['--best_metric=los:min'], 'there is no metric los'),
        (['--eval_splits=nosuch'], 'nosuch'),
        (['--hparams=optimizer=lion'], 'optimizer=lion is not one of'),
        (['--num_towers=3'], 'batch_size=100 is not divisible by 3 towers: use --hparams=batch_size=99'),
        (['--warm_start_from=/none'], '--warm_start_from=/none: is neither a checkpoint'),
        (['--warm_start_from={output}/best'], 'is in the directory that --overwrite deletes: choose another --output_dir'),
        (['--hparams=momentum=0.5'], 'momentum=0.5 has no effect with optimizer=adam'),  # Shown by the graph.
        (['--freeze=nosuch'], '--freeze=nosuch: matches none of the variables: w'),
        (['--schedule=evaluate'], '--overwrite requires --schedule=train_and_evaluate or train, not evaluate'),
    ],
)
def test_a_mistake_deletes_nothing(run, trained_run, flags, message):
    output = trained_run('polynomial')
    before = files_in(str(output))
    code, result, err = run(*OVERWRITE, *(flag.format(output=output) for flag in flags))
    assert (code, result) == (2, None) and message in err.splitlines()[-1]
    assert {*before} <= {*files_in(str(output))}


def test_a_run_that_trains_is_not_overwritten(run, trained_run):
    output = trained_run('polynomial')
    before = files_in(str(output))
    with run_dir.lock(str(output)):
        code, _, err = run(*OVERWRITE)
    assert code == 1 and 'is training there: wait for it, or choose another' in err.splitlines()[-1]
    assert {*before} <= {*files_in(str(output))}


def test_a_new_run_takes_the_place_of_the_old_one_also_of_a_damaged_one_and_files_of_others_stay(run, trained_run, tmp_path):
    assert run(*OVERWRITE, '--hparams=learning_rate=0.25', output_dir=tmp_path / 'new')[0] == 0
    output = trained_run('polynomial')
    (output / 'notes.txt').write_text('mine')
    for name in ('hparams.json', 'model.ckpt-20.index', 'model.ckpt-10.index', 'flags.json', 'dataset.json', 'metrics.csv'):
        (output / name).write_text('')
    code, result, log = run(*OVERWRITE, '--hparams=learning_rate=0.25')
    assert code == 0 and f'WARNING --overwrite: deleting the run in {output}.' in log
    weights = [read_weights(path) for path in (output, tmp_path / 'new')]
    assert weights[0]['global_step'] == 4 and {name: value.tolist() for name, value in weights[0].items()} == {
        name: value.tolist() for name, value in weights[1].items()
    }
    names = [sorted(name for name in files_in(str(path)) if 'events' not in name) for path in (output, tmp_path / 'new')]
    assert names[0] == sorted([*names[1], 'notes.txt'])
    assert sum('tfevents' in name for name in os.listdir(output)) == 2

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
        (['--num_towers=3', '--hparams=batch_size=2'], 'batch_size=2 is too small for 3 towers: use --hparams=batch_size=3'),
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


DRAWN = """
import random

import tensorflow.compat.v1 as tf


OVERRIDABLE_HPARAMS = ('wrong',)


def get_params():
    return {'wrong': False}


def model(features, labels, mode, params):
    if params.wrong and mode == tf.estimator.ModeKeys.TRAIN:
        return features['z']
    y = features['x'] * tf.get_variable('w', initializer=random.random())
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def eval_metrics(features, labels, predictions, params):
    return {}
"""


def test_a_mistake_in_the_code_deletes_and_records_nothing_and_looking_for_it_draws_no_numbers(run, tmp_path, monkeypatch):
    (tmp_path / 'drawn').mkdir()
    (tmp_path / 'drawn' / 'line.py').write_text(DRAWN)
    monkeypatch.syspath_prepend(tmp_path)
    flags, output = ('--model=drawn.line', '--dataset=polynomial', '--train_steps=2'), tmp_path / 'output'
    assert run(*flags)[0] == 0
    first, before = read_weights(output), files_in(str(output))
    names = ('flags.json', 'hparams.json', 'dataset.json', 'provenance.jsonl')
    recorded = [(output / name).read_text() for name in names]
    changed = ('--train_steps=4', '--eval_steps=3', f'--data_dir={tmp_path}')
    code, _, err = run(*flags[:2], *changed, '--override_hparams=wrong=true')
    assert code == 2 and 'missing feature z' in err.splitlines()[-1]
    assert [(output / name).read_text() for name in names] == recorded
    code, _, err = run(*flags, '--overwrite', '--hparams=wrong=true')
    assert code == 2 and 'missing feature z' in err.splitlines()[-1] and '--overwrite: deleting' not in err
    assert {*before} <= {*files_in(str(output))} and read_weights(output) == first
    code, _, log = run(*flags, '--overwrite')
    assert code == 0 and log.count('--overwrite: deleting') == 1 and read_weights(output)['w'] == first['w']

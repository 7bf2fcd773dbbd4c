"""Commands on the run in an output_dir: the flags that they take from it, and the changes that they refuse."""

import json
import os
from unittest import mock

import pytest

from estimator_trainer.common.commands import flags as run_flags
from estimator_trainer.common.commands import saved_run, trainer
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.runs import saved_flags
from estimator_trainer.common.storage import provenance
from estimator_trainer.datasets import polynomial
from estimator_trainer.hparams import build, sets
from tests.shared import POLYNOMIAL, assert_equal, read_weights, refused

KEPT = {
    'schedule': 'train',
    'num_towers': 2,
    'eval_splits': ['train', 'eval'],
    'eval_steps': 3,
    'best_metric': 'loss:max',
    'warm_start_from': '/weights',
    'xla': True,
}
EMPTY = 'Expecting value: line 1 column 1 (char 0)'
EVALUATION = {'eval_splits', 'eval_steps', 'best_metric'}
MODEL = {'model', 'dataset'}


@pytest.fixture
def directory(tmp_path):
    """Makes an output_dir: directory(has_checkpoint, **changed flags) -> its path."""

    def call(has_checkpoint=True, **changed):
        build.save({'model': 'mlp', 'dataset': 'table', 'batch_size': 7}, str(tmp_path / 'hparams.json'))
        (tmp_path / 'flags.json').write_text(json.dumps({**KEPT, **changed}))
        if has_checkpoint:
            (tmp_path / 'model.ckpt-5.index').write_text('')
        return str(tmp_path)

    return call


def taken(output_dir, *given):
    """Returns the names of the flags that a command takes from a run, all with the run's values, and the SavedRun."""
    FLAGS = run_flags.define()
    FLAGS(['trainer.py', f'--output_dir={output_dir}', *given])
    before = {name: FLAGS[name].value for name in FLAGS}
    found = saved_run.take(FLAGS, output_dir)
    names = {name for name, value in before.items() if FLAGS[name].value != value}
    own = {**KEPT, 'model': 'mlp', 'dataset': 'table'}
    assert {name: FLAGS[name].value for name in names} == {name: own[name] for name in names}
    return names, found


@pytest.mark.parametrize(
    'given, has_checkpoint, expected',
    [
        ((), True, MODEL | KEPT.keys() - {'warm_start_from'}),
        ((), False, MODEL | KEPT.keys()),
        (('--model=mlp',), True, {'dataset'} | KEPT.keys() - {'warm_start_from', 'schedule'}),
        (('--model=mlp',), False, set()),  # It starts anew.
        (('--num_towers=1', '--noxla', '--schedule=train'), True, MODEL | EVALUATION),
        (('--model=alexnet',), True, set()),  # The comparison refuses it.
        (('--schedule=dry_run',), True, MODEL | EVALUATION | {'num_towers', 'xla'}),
        (('--schedule=continuous_eval',), False, MODEL | EVALUATION),
        (('--schedule=describe',), False, MODEL),
        (('--schedule=describe', '--model=mlp'), False, set()),  # Of data that may be another.
        (('--schedule=evaluate', '--dataset=table'), True, {'model'}),
        (('--overwrite', '--model=mlp', '--dataset=table'), True, set()),
    ],
)
def test_flags_that_are_not_given_are_those_of_the_run(directory, given, has_checkpoint, expected):
    names, found = taken(directory(has_checkpoint), *given)
    assert names == expected
    assert (found and found.hparams['batch_size']) == (7 if expected else None)


@pytest.mark.parametrize(
    'given, changed, message',
    [
        (
            ['--early_stopping_patience=3'],
            {},
            '--early_stopping_patience requires --schedule=train_and_evaluate or dry_run, not',
        ),
        ([], {'num_towers': -1}, '/flags.json: num_towers: -1 is not an integer in the range'),
        ([], {'eval_steps': 'x'}, '/flags.json: eval_steps: '),
        (
            [],
            {'replaced_defaults': 3},
            '/flags.json: replaced_defaults must be a JSON object; restore it, or delete it, and give',
        ),
        (['--overwrite'], {}, ' has --model=mlp and --dataset=table: give both, or others, to start over'),
        (['--overwrite', '--model=mlp'], {}, ' has --model=mlp and --dataset=table: give both'),
    ],
)
def test_flags_that_do_not_go_with_those_of_the_run_are_named(directory, given, changed, message):
    with pytest.raises(UsageError) as raised:
        taken(directory(**changed), *given)
    assert message in str(raised.value)


def test_flags_that_change_the_result_stay_as_the_run_began_and_others_are_those_of_the_last_start(tmp_path, caplog):
    began = {'num_towers': 2, 'eval_steps': 3, saved_flags.REPLACED: {'batch_size': 8}}
    saved_flags.save(str(tmp_path), began, 1)
    now = {'num_towers': 4, 'eval_steps': 5, saved_flags.REPLACED: {'batch_size': 9, 'seed': 1}}
    saved_flags.save(str(tmp_path), now, 3, step=2)
    expected = {'num_towers': 2, 'eval_steps': 5, saved_flags.REPLACED: {'batch_size': 8, 'seed': 1}, 'num_tasks': 1}
    assert saved_flags.load(str(tmp_path)) == {**expected, saved_flags.ASYNCHRONOUS: None}
    assert 'This run began otherwise: num_towers was 2, now it is 4; num_tasks was 1, now it is 3.' in caplog.text


@pytest.mark.parametrize('was', [False, True])
def test_a_run_any_steps_of_which_had_parameter_servers_keeps_that_and_the_change_is_told(tmp_path, caplog, was):
    saved_flags.save(str(tmp_path), {saved_flags.ASYNCHRONOUS: was}, 2)
    for step, now in ((20, not was), (40, False), (60, True)):
        saved_flags.save(str(tmp_path), {saved_flags.ASYNCHRONOUS: now}, 2, step)
    since = 0 if was else 20
    assert saved_flags.asynchronous_since(saved_flags.load(str(tmp_path))) == since
    assert f'This run began otherwise: asynchronous was {json.dumps(was)}, now it is {json.dumps(not was)}.' in caplog.text
    caplog.clear()
    saved_flags.save(str(tmp_path), {saved_flags.ASYNCHRONOUS: was}, 2, step=20)  # It has gone back.
    assert saved_flags.asynchronous_since(saved_flags.load(str(tmp_path))) == (0 if was else None) and not caplog.text


def test_parameter_servers_of_a_single_worker_count_also_in_files_without_a_mark(tmp_path, caplog):
    kept = {saved_flags.LOCAL_CLUSTER: 'worker:1,ps:1', saved_flags.ASYNCHRONOUS: False}
    for step in (0, 2):
        saved_flags.save(str(tmp_path), kept, 1, step)
    assert not caplog.text
    (tmp_path / 'flags.json').write_text('{"local_cluster": "worker:1,ps:1"}')
    saved_flags.save(str(tmp_path), {saved_flags.LOCAL_CLUSTER: '', saved_flags.ASYNCHRONOUS: False}, 1, step=2)
    assert 'This run began otherwise: asynchronous was true, now it is false.' in caplog.text
    assert saved_flags.asynchronous_since(saved_flags.load(str(tmp_path))) == 0


def test_a_run_goes_on_by_its_directory_alone_with_the_same_result_though_defaults_have_changed(run, tmp_path, monkeypatch):
    given = (
        '--hparams=num_samples=640,learning_rate=0.02,learning_rate_schedule=constant',
        '--schedule=train',
        '--num_towers=2',
        '--save_checkpoints_steps=4',
    )
    assert run(*POLYNOMIAL, *given, '--train_steps=8', output_dir=tmp_path / 'whole')[0] == 0
    assert run(*POLYNOMIAL, *given, '--train_steps=3')[0] == 0
    code, result, log = run('--train_steps=6')
    assert (code, result) == (0, {'global_step': 6}) and 'WARNING' not in log
    assert (
        'From the run: --model=polynomial, --dataset=polynomial, --schedule=train, --save_checkpoints_steps=4, --num_to' in log
    )
    code, result, log = run()
    assert (code, result) == (0, {'global_step': 6})
    assert 'INFO Nothing to train: step 6 is reached, and training ends at 6; raise --train_steps or --num_epochs to' in log

    with open(sets.set_path('polynomial_polynomial')) as file:
        changed = {**json.load(file), 'momentum': 0.75}
    (tmp_path / 'polynomial_polynomial.json').write_text(json.dumps(changed))
    monkeypatch.setattr(sets, 'SETS_DIR', str(tmp_path))
    own, now = 'its own momentum=0.9; the set polynomial_polynomial now has momentum=0.75:', changed['learning_rate']
    assert f'WARNING This run goes on with {own} --override_hparams changes some, --overwrite starts over.' in run()[2]
    code, _, log = run(*POLYNOMIAL, '--train_steps=8', '--eval_steps=1', '--hparams=num_samples=640')
    assert code == 0 and ('learning_rate=0.02' in log and f'learning_rate={now}' in log) == (now != 0.02)
    assert_equal(read_weights(tmp_path / 'output'), read_weights(tmp_path / 'whole'))
    (tmp_path / 'polynomial_polynomial.json').write_text('{"nosuch": 1}')
    assert run()[0] == 0

    with monkeypatch.context() as patch:
        patch.setattr(polynomial, 'get_params', lambda: {'num_samples': 9, 'shuffle_buffer': 9, 'new': [3]})
        code, _, log = run('--train_steps=9')
        assert code == 0 and 'WARNING The code has gained new=[3] since this run was saved: it goes on with these def' in log
        assert json.loads((tmp_path / 'output' / 'hparams.json').read_text())['new'] == [3]
        assert 'WARNING' not in run('--train_steps=9')[2]
    code, _, log = run('--train_steps=10')
    assert code == 0 and 'WARNING The code has lost new=[3] since this run was saved: it goes on without.' in log
    assert 'new' not in json.loads((tmp_path / 'output' / 'hparams.json').read_text())

    for hparams, message in (
        (
            'learning_rate=0.5',
            ', or change the run from here on, with --override_hparams=learning_rate=0.5, or start over with --ov',
        ),
        (
            'num_samples=20',
            "num_samples was 640, now it is 20: omit what differs to go on with the run's own, or start over with --",
        ),
    ):
        code, _, err = run('--train_steps=11', f'--hparams={hparams}')
        assert code == 2 and message in err.splitlines()[-1] and 'WARNING' not in err
    code, _, err = run('--model=alexnet', '--train_steps=11')
    assert (
        code == 2 and f'{os.sep}hparams.json: model was "polynomial", now it is "alexnet"; dataset was' in err.splitlines()[-1]
    )


def test_a_run_that_ended_while_its_data_was_prepared_goes_on_by_its_directory_alone(run, execute, tmp_path, monkeypatch):
    output, data = tmp_path / 'output', tmp_path / 'own'
    with monkeypatch.context() as patch:
        patch.setattr(polynomial, 'prepare', mock.Mock(side_effect=RunError('out of space')))
        code, _, err = run(
            *POLYNOMIAL, '--hparams=num_samples=640', '--schedule=train', '--train_steps=3', f'--data_dir={data}'
        )
        assert code == 1 and err.endswith('out of space\n')
    code, result, log = execute(trainer.main, ['trainer.py', f'--output_dir={output}'])
    assert (code, result) == (0, {'global_step': 3}) and f'Checking the data: {data}.' in log and 'WARNING' not in log
    assert json.loads((output / 'hparams.json').read_text())['num_samples'] == 640


def test_a_directory_alone_that_has_no_run_gets_the_default_model_after_a_warning(tmp_path, caplog):
    for schedule, lines in (('evaluate', 0), ('dry_run', 0), ('train', 1)):
        assert taken(str(tmp_path / 'new'), f'--schedule={schedule}') == (set(), None)
        assert len(caplog.messages) == lines
    assert caplog.messages == [
        f'{tmp_path}/new has no run: --model=alexnet and --dataset=mnist, the defaults, are trained there.'
    ]


@pytest.mark.parametrize(
    'given', [(), ('--schedule=evaluate',), ('--schedule=predict', '--model=mlp'), ('--model=mlp', '--dataset=table')]
)
def test_checkpoints_without_hyper_parameters_are_not_used_with_the_defaults(directory, given):
    output_dir = directory()
    path = f'{output_dir}/hparams.json'
    os.remove(path)
    missing = f'--output_dir={output_dir}: has checkpoints, but no hparams.json: restore it'
    others = f', or choose another --output_dir; --warm_start_from={output_dir} takes over the weights'
    assert refused(taken, output_dir, *given) == missing + others
    taken(output_dir, '--schedule=describe', '--model=mlp', '--dataset=table')  # Needs no checkpoint.
    for kind, values in (('start', {'num_epochs': 1.0}), ('resume', {'num_epochs': 2.0})):
        made_by = {'hparams': {'model': 'mlp', 'dataset': 'table', 'batch_size': 7, **values}}
        provenance.append(output_dir, {'kind': kind, 'step': 0, 'tensors': '', 'made_by': made_by})
    known = f' from made_by.hparams in the last line of {output_dir}/provenance.jsonl that has it'
    assert refused(taken, output_dir, *given) == missing + known
    with open(path, 'w'):
        pass
    assert refused(taken, output_dir, *given).endswith(f'hparams.json: is not JSON: {EMPTY}; restore it{known}')
    made_by['hparams']['batch_size'] = 8  # From a step on, which only hparams.json had.
    provenance.append(output_dir, {'kind': 'resume', 'step': 5, 'tensors': '', 'made_by': made_by})
    assert refused(taken, output_dir, *given).endswith(others)


def test_flags_that_are_missing_or_corrupt_are_told_with_where_they_are(directory, caplog):
    output_dir, made_by = directory(), {'flags': KEPT, 'tasks': 1}
    path = f'{output_dir}/flags.json'
    provenance.append(output_dir, {'kind': 'start', 'step': 0, 'tensors': '', 'made_by': made_by})
    now = {**made_by, 'flags': {**KEPT, 'eval_steps': 4}}  # On which no weights depend.
    provenance.append(output_dir, {'kind': 'resume', 'step': 2, 'tensors': '', 'made_by': now})
    known = f' from made_by.flags in the last line of {output_dir}/provenance.jsonl that has it'
    with open(path, 'w'):
        pass
    others = ', or delete it, and give the flags of the run again'
    assert refused(taken, output_dir) == f'{path}: is not JSON: {EMPTY}; restore it{known}{others}'
    os.remove(path)
    missing = f'{path} is missing, so flags that are not given have their defaults, whatever the run had: restore it'
    assert taken(output_dir, '--schedule=train')[0] == MODEL
    assert caplog.messages.pop() == f'{missing}{known}, or give them.'
    taken(output_dir, '--schedule=predict')
    assert 'missing' not in caplog.text.rpartition(known)[2]
    for changed in ({'flags': {**KEPT, 'num_towers': 1}, 'tasks': 1}, {'flags': KEPT, 'tasks': 2}):
        provenance.append(output_dir, {'kind': 'resume', 'step': 5, 'tensors': '', 'made_by': changed})
        taken(output_dir)
        assert caplog.messages[-1] == f'{missing}, or give them.'


def test_data_that_is_gone_from_its_old_place_is_looked_for_in_the_default_one(directory, tmp_path, caplog):
    output_dir, data = directory(), tmp_path / 'data'
    (tmp_path / 'dataset.json').write_text(json.dumps({'metadata': {}, 'sha256': 'a', 'data_dir': str(data)}))
    taken(output_dir)
    assert f'The data of this run was in {data}, which is gone: --data_dir=data is used.' in caplog.text
    data.mkdir()
    FLAGS = run_flags.from_values({'output_dir': output_dir})
    saved_run.take(FLAGS, output_dir)
    assert FLAGS.data_dir == str(data)

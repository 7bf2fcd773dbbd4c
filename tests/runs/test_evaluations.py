"""Evaluations during training, the best checkpoint, and early stopping."""

import json
import re

import numpy as np

from estimator_trainer.common.commands import api
from estimator_trainer.common.inference.evaluator import Evaluator
from estimator_trainer.common.runs import chosen_checkpoint
from estimator_trainer.common.storage import best_checkpoint
from estimator_trainer.common.storage.objective import Objective
from tests.shared import DAMAGES, POLYNOMIAL, rows
from tests.storage.test_best_checkpoint import save

RATE = '--hparams=optimizer=sgd,learning_rate=1e-5,learning_rate_schedule=piecewise'


def status_in(directory, name):
    return json.loads((directory / 'status.json').read_text())[name]


def test_evaluations_at_their_own_steps_on_several_splits(run, tmp_path):
    flags = (*POLYNOMIAL, '--eval_every_steps=6', '--save_checkpoints_steps=10', '--eval_splits=eval,train', '--eval_steps=2')
    code, result, log = run(*flags, '--train_steps=15')
    assert code == 0 and set(result) == {'global_step', 'eval', 'train'} and result['global_step'] == 15
    assert re.findall(r'Saving dict for global step (\d+)', log) == ['6', '6', '12', '12', '15', '15']
    assert {int(path.stem[11:]) for path in (tmp_path / 'output').glob('*.index')} == {0, 6, 10, 12, 15}
    table = rows(tmp_path / 'output' / 'metrics.csv')
    expected = [(step, split) for step in ('6', '12', '15') for split in ('eval', 'train')]
    assert [(row['global_step'], row['split']) for row in table] == expected
    for split, row in (('eval', table[-2]), ('train', table[-1])):
        assert {name: float(row[name]) for name in result[split]} == result[split]
    assert result['eval']['loss'] != result['train']['loss']
    assert status_in(tmp_path / 'output', 'evaluation') == result
    assert [row['split'] for row in rows(tmp_path / 'output' / 'metrics.csv', mode='train')] == ['train']
    # A restart evaluates at the same steps; the row of a repeated step replaces the old one.
    assert run(*flags, '--train_steps=18')[0] == 0
    assert run(*flags, '--schedule=evaluate')[0] == 0
    expected += [('18', 'eval'), ('18', 'train')]
    assert [(row['global_step'], row['split']) for row in rows(tmp_path / 'output' / 'metrics.csv')] == expected
    (tmp_path / 'output' / 'metrics.csv').write_text('x')
    code, _, log = run(*flags, '--schedule=evaluate')
    assert code == 1 and 'metrics.csv: is not a table of metrics: delete it' in log
    assert 'Restoring parameters' not in log  # It is known before the evaluation.


def test_the_best_checkpoint_is_kept_across_restarts_and_can_be_asked(run, tmp_path):
    # A rate that is much too large after the third step makes the loss worse and worse.
    flags = (f'{RATE},piecewise_boundaries=[3],piecewise_factors=[100.0]', '--save_checkpoints_steps=1')
    flags = (*POLYNOMIAL, *flags, '--keep_checkpoint_max=2', '--eval_steps=2')
    output = tmp_path / 'output'
    assert run(*flags, '--train_steps=5')[0] == 0
    assert run(*flags, '--train_steps=7')[0] == 0
    losses_by_step = {int(row['global_step']): float(row['loss']) for row in rows(output / 'metrics.csv')}
    assert min(losses_by_step, key=losses_by_step.get) == 3 and sorted(losses_by_step) == [1, 2, 3, 4, 5, 6, 7]
    assert sorted(path.name for path in output.glob('*.index')) == ['model.ckpt-6.index', 'model.ckpt-7.index']
    for name, step in (('best', 3), (f'{output}/model.ckpt-6.index', 6)):
        result = run(*flags, '--schedule=evaluate', f'--checkpoint={name}')[1]
        assert (result['global_step'], result['eval']['loss']) == (step, losses_by_step[step])
    for schedule in ('predict', 'export'):
        assert run(*flags, f'--schedule={schedule}', '--checkpoint=best')[1]['global_step'] == 3
    code, result, log = run(*flags, '--schedule=evaluate')  # As the run had no --best_metric.
    assert (code, result['global_step'], 'best checkpoint' in log) == (0, 7, False)


def test_the_best_is_the_result_of_a_training_that_was_asked_for_it(run, tmp_path):
    flags = (f'{RATE},piecewise_boundaries=[3],piecewise_factors=[100.0]', '--save_checkpoints_steps=1', '--eval_steps=2')
    output = tmp_path / 'output'
    code, result, _ = run(*POLYNOMIAL, *flags, '--train_steps=5', '--best_metric=loss:min')
    table = {int(row['global_step']): float(row['loss']) for row in rows(output / 'metrics.csv')}
    assert code == 0 and (result['global_step'], result['eval']['loss']) == (5, table[5])
    assert (result['best']['global_step'], result['best']['eval']['loss']) == (3, table[3]) and table[3] < table[5]
    assert json.loads((output / 'results.json').read_text()) == result
    warning = 'WARNING Using the best checkpoint, model.ckpt-3, as --best_metric or --early_stopping_patience was given in '
    for schedule in ('evaluate', 'predict', 'export'):
        code, found, log = run(f'--schedule={schedule}', '--eval_steps=2' if schedule == 'evaluate' else '--verbosity=info')
        assert (code, found['global_step']) == (0, 3), log
        assert log.count(f'{warning}training; --checkpoint=latest uses that of step 5.') == 1
    branch = (*POLYNOMIAL, f'--warm_start_from={output}', '--train_steps=1')
    log = run(*branch, output_dir=tmp_path / 'branch')[2]
    assert log.count(f'{warning}training; --warm_start_from={output}/model.ckpt-5 uses that of step 5.') == 1
    assert f'Starting from the weights in {output}/best/model.ckpt-3:' in log
    assert run('--schedule=predict', '--checkpoint=latest')[1]['global_step'] == 5
    trained = api.load(str(output))
    assert trained.metrics == result and trained.evaluate(eval_steps=2) == {'global_step': 3, **result['best']['eval']}
    inputs = {'x': np.ones([2], np.float32)}
    np.testing.assert_array_equal(trained.predict(inputs)['y'], trained.predictor('best').predict(inputs)['y'])
    assert (trained.predict(inputs)['y'] != trained.predictor('latest').predict(inputs)['y']).all()
    DAMAGES['flipped'](output / 'best' / 'model.ckpt-3.data-00000-of-00001')
    code, found, log = run('--schedule=predict')
    assert (code, found['global_step']) == (0, 5)
    assert f'WARNING Using the latest checkpoint in place of the best: {output}/best has no intact one.' in log


def test_a_run_without_its_flags_may_have_asked_for_its_best(tmp_path, caplog):
    assert chosen_checkpoint.choose(str(tmp_path), None) == 'latest' and not caplog.messages  # No run.
    (tmp_path / 'hparams.json').write_text('{}')
    assert chosen_checkpoint.choose(str(tmp_path), 'best') == 'best' and not caplog.messages
    assert chosen_checkpoint.choose(str(tmp_path), None) == 'latest'
    missing = (
        f'{tmp_path}/flags.json is missing, so the latest checkpoint is used, even if the run asked for its best: restore it.'
    )
    assert caplog.messages == [missing]


def test_the_best_is_used_though_no_other_checkpoint_is_whole(tmp_path):
    result = {'global_step': 3, 'eval': {'loss': 1.0}}
    best_checkpoint.keep_if_best(save(tmp_path, 3), str(tmp_path), Objective('loss', False), 'eval', result)
    (tmp_path / 'flags.json').write_text('{"best_metric": "loss:min"}')
    (tmp_path / 'model.ckpt-3.index').unlink()
    assert chosen_checkpoint.choose(str(tmp_path), None) == 'best'


def test_training_ends_early_where_nothing_better_comes_also_after_a_restart(run, tmp_path):
    flags = (f'{RATE},piecewise_boundaries=[5],piecewise_factors=[0.0]', '--best_metric=mean_absolute_error:min')
    flags = (*POLYNOMIAL, *flags, '--eval_every_steps=2', '--eval_steps=2', '--train_steps=40', '--eval_splits=eval,train')
    code, result, log = run(*flags, '--early_stopping_patience=3')
    # The weights stand still from step 5 on: step 6 is the last that is better than the one before.
    assert code == 0 and (result['global_step'], result['best']['global_step']) == (12, 6)
    assert log.count('Stopping early: mean_absolute_error has not improved for 3 evaluations (--early_stopping_pat') == 1
    code, again, log = run(*flags, '--early_stopping_patience=3')
    assert code == 0 and again == result and 'loss = ' not in re.sub('Saving dict.*', '', log)
    assert run(*flags, '--early_stopping_patience=5')[1]['global_step'] == 16
    for step in (14, 16):  # What was evaluated after the checkpoint that it resumes from does not count.
        DAMAGES['emptied'](tmp_path / 'output' / f'model.ckpt-{step}.index')
    code, again, log = run(*flags, '--early_stopping_patience=5')
    assert code == 0 and again['global_step'] == 16 and 'Resuming from' in log


def test_a_missed_evaluation_is_repeated(run, tmp_path, monkeypatch):
    flags = (*POLYNOMIAL, '--eval_every_steps=5', '--save_checkpoints_steps=5', '--eval_steps=1', '--train_steps=20')
    whole, table, states = Evaluator.evaluate, tmp_path / 'output' / 'metrics.csv', []

    def evaluate(self, path):
        states.append(status_in(tmp_path / 'output', 'state'))
        return 1 / 0 if path.endswith('-10') else whole(self, path)

    with monkeypatch.context() as context:  # As if the process were killed in the evaluation of step 10.
        context.setattr(Evaluator, 'evaluate', evaluate)
        assert run(*flags)[0] == 1
    state, reason = (status_in(tmp_path / 'output', name) for name in ('state', 'reason'))
    assert (state, states) == ('failed', ['evaluating', 'evaluating']) and reason.startswith('ZeroDivisionError: division by')
    assert [row['global_step'] for row in rows(table)] == ['5']
    with monkeypatch.context() as context:  # Or after it, before the checkpoint is kept as the best.
        context.setattr(best_checkpoint, 'keep_if_best', lambda *args: 1 / 0)
        assert run(*flags)[0] == 1
    assert [row['global_step'] for row in rows(table)] == ['5']
    assert run(*flags)[0] == 0
    assert [row['global_step'] for row in rows(table)] == ['5', '10', '15', '20']

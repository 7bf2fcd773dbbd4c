"""Forecasts of series from training to predictions, evaluation of files, report, export and a program."""

import json

import numpy as np
import pytest

from benchmarks import store_sales
from estimator_trainer.common.commands import api
from estimator_trainer.common.runs import baselines
from tests.shared import rows

STEPS = 4


def test_a_run_forecasts_and_says_what_the_baselines_would(run, tmp_path):
    table, output = tmp_path / 'sales.csv', tmp_path / 'output'
    store_sales.write(str(table), num_stores=2, num_days=150)
    hparams = f'table_file={table},time=date,target=sales,group=store,window=14,horizon={STEPS},batch_size=32,hidden_units=[32]'
    flags = ('--model=mlp', '--dataset=series', f'--data_dir={tmp_path}/data')
    code, early, err = run(*flags, f'--hparams={hparams}', '--train_steps=1', '--num_towers=2')
    assert code == 0 and 'do not beat a baseline, which needs no model: mean_absolute_error: ' in err
    assert f'{early["eval"]["rmse_last_season"]:.4g} of the same time last season' in err
    assert 'train     206 windows, whose forecasts end before 2022-05-03' in err
    code, result, err = run(*flags, '--train_steps=150', '--num_towers=2', '--save_checkpoints_steps=200')
    metrics = result['eval']
    assert code == 0 and 'do not beat' not in err and metrics['rmse'] < metrics['rmse_last_season'] < metrics['rmse_last_value']
    assert metrics['rmse_last_season'] == early['eval']['rmse_last_season']
    assert float(rows(output / 'metrics.csv')[-1]['rmse_last_value']) == pytest.approx(metrics['rmse_last_value'], rel=1e-4)

    assert run(*flags, '--schedule=predict')[0] == 0
    lines = [json.loads(line) for line in (output / 'predictions.jsonl').read_text().splitlines()]
    assert len(lines) == STEPS * 2 * (30 - STEPS + 1)
    first = {name: lines[0][name] for name in ('split', 'example', 'group', 'time')}
    assert first == {'split': 'eval', 'example': 0, 'group': 'store 1', 'time': '2022-05-03'}
    for end, name in (('', 'value'), ('_last_value', 'last_value'), ('_last_season', 'last_season')):
        errors = np.array([line[name] - line['label'] for line in lines])
        assert metrics[f'mean_absolute_error{end}'] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
        assert metrics[f'rmse{end}'] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-4)

    given = table.read_text().splitlines()
    newest = tmp_path / 'newest.csv'
    newest.write_text('\n'.join([given[0], *given[137:151], *given[290:301]]) + '\n')
    code, result, err = run(*flags, '--schedule=predict', f'--input={newest}')
    assert code == 0 and result['errors'] == 1
    *forecast, wrong = [json.loads(line) for line in (output / 'predictions.jsonl').read_text().splitlines()]
    assert [line['time'] for line in forecast] == [f'2022-06-0{day}' for day in range(2, 2 + STEPS)]
    assert {line['group'] for line in forecast} == {'store 1'}
    assert wrong['group'] == 'store 2' and 'store 2: 11 rows, but window=14 requires as many' in wrong['error']
    evaluated = run(*flags, '--schedule=evaluate', f'--input={table}')[1]['input']
    assert evaluated['rmse'] < evaluated['rmse_last_season']

    columns = {
        name: list(cells) for name, cells in zip(given[0].split(','), zip(*(line.split(',') for line in given[137:151])))
    }
    trained = api.load(output)
    found = trained.predict(columns)
    assert found['group'].tolist() == ['store 1'] and found['time'][0].tolist() == [line['time'] for line in forecast]
    np.testing.assert_allclose(found['value'][0], [line['value'] for line in forecast], rtol=1e-5)
    one = trained.predict({'date': columns['date'][-1], 'sales': [float(cell) for cell in columns['sales']]})
    np.testing.assert_allclose(one['value'], found['value'][0], rtol=1e-5)
    with pytest.raises(ValueError, match='the rows: has no column date, which a forecast requires'):
        trained.predict([{'sales': 1.0, 'store': 'a'}])
    assert run(*flags, '--schedule=report')[0] == 0
    page = (output / 'report.html').read_text()
    assert all(text in page for text in ('54 windows', 'error by step', 'store 1', 'store 2', 'last season', 'From 2022-05-'))
    code, _, err = run(*flags, '--schedule=export')
    assert code == 0 and 'Compared with the checkpoint on 54 examples of eval: value differs by' in err


def test_a_warning_names_what_each_metric_loses_to(caplog):
    found = {
        'mean_absolute_error': 2.0,
        'rmse': 3.0,
        'mean_absolute_error_last_value': 1.5,
        'mean_absolute_error_last_season': 2.5,
    }
    found |= {'rmse_last_value': 4.0, 'rmse_last_season': 3.5}
    baselines.warn({'global_step': 1, 'eval': found, 'other': {'rmse': 1.0}})
    (record,) = caplog.records
    assert record.getMessage().endswith(': mean_absolute_error: 2 of the model, 1.5 of the last value.')
    caplog.clear()
    baselines.warn({'global_step': 1, 'eval': found | {'mean_absolute_error_last_value': 2.1}})
    assert not caplog.records
    baselines.warn({'global_step': 1, 'eval': found | {'rmse': float('nan')}})
    assert 'rmse: NaN of the model, 4 of the last value, 3.5 of the same time last season' in caplog.text

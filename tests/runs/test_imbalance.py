"""A rare class, from its weights in training to the threshold of its predictions."""

import json
import os
from pathlib import Path
import re

import numpy as np
import pytest

from estimator_trainer.common.commands import api
from estimator_trainer.common.export import saved_model
from tests.shared import ROOT, rows


@pytest.fixture(scope='module')
def table(tmp_path_factory):
    """The path of a table with 4 % of positives, which two of four numbers tell from the others, but not always."""
    random, is_rare = np.random.RandomState(0), np.arange(1500) % 25 == 0
    numbers = random.normal(size=(1500, 4)) + is_rare[:, None] * np.array([1.5, 1, 0, 0])
    path = tmp_path_factory.mktemp('table') / 'rare.csv'
    lines = [f'{",".join(f"{x:.3f}" for x in row)},{"yes" if rare else "no"}' for row, rare in zip(numbers, is_rare)]
    path.write_text('\n'.join(['a,b,c,d,target', *lines]))
    return path


def f1_of(output):
    lines = [json.loads(line) for line in (output / 'predictions.jsonl').read_text().splitlines()]
    label, predicted = (np.array([line[name] for line in lines]) for name in ('label', 'class'))
    return 2 * (label & predicted).sum() / (label.sum() + predicted.sum()), lines


def test_balanced_classes_and_a_threshold_find_more_and_predictions_and_exports_use_it(run, tmp_path, table):
    flags = ('--model=mlp', '--dataset=table', '--num_epochs=4')
    hparams, output = f'--hparams=table_file={table},hidden_units=[8],batch_size=32,min_steps=0', tmp_path / 'output'
    code, _, log = run(*flags, f'{hparams},class_weights=balanced,decision_threshold=best')
    assert 'decision_threshold=best: has the best F1 of the class yes, the second one' in log
    counts = [int(count) for count in re.search(r'no 0.5\d+, of (\d+), yes 1\d.\d+, of (\d+)$', log, re.MULTILINE).groups()]
    assert (
        code == 0 and f'no {sum(counts) / 2 / counts[0]:.4g}, of' in log and f'yes {sum(counts) / 2 / counts[1]:.4g}, of' in log
    )
    saved = json.loads((output / 'dataset.json').read_text())['metadata']
    assert saved['class_counts'] == counts and counts[1] in range(40, 56)
    metrics = rows(output / 'metrics.csv')[-1]
    threshold, best = float(metrics['best_f1_threshold']), float(metrics['best_f1'])
    assert best > float(metrics['f1']) + 0.05
    code, _, log = run('--schedule=predict')
    assert code == 0 and f'the class is yes if its probability is at least {threshold:.6g}' in log
    f1, lines = f1_of(output)
    assert f1 == pytest.approx(best, abs=0.02)  # Equal up to ties in float16.
    assert {line['decision_threshold'] for line in lines} == {threshold}
    assert all((line['class'] == 1) == (line['probabilities'][1] >= threshold) for line in lines)
    assert all(line['class_name'] == ['no', 'yes'][line['class']] for line in lines)
    one = api.load(str(output)).predict(dict.fromkeys('abcd', 0.0))
    assert one['class'] == (one['probabilities'][1] >= threshold) and one['decision_threshold'] == pytest.approx(threshold)
    code, _, log = run('--schedule=evaluate')
    assert code == 0 and 'decision_threshold=best: evaluations decide by the more probable class' in log
    assert run('--schedule=report')[0] == 0
    page = (output / 'report.html').read_text()
    found = f'from {threshold:.4g} on, the decision_threshold of these predictions, precision is '
    assert found in page and f' and F1 {f1:.4g}' in page.partition(found)[2][:60]
    code, result, _ = run('--schedule=export', '--hparams=decision_threshold=0.001')
    assert code == 0
    with saved_model.opened(result['export'], '') as after:
        assert {'class', 'decision_threshold'} <= {*after.outputs}
    assert '| Decision threshold | 0.001 |' in (Path(result['export']) / 'assets.extra' / 'model_card.md').read_text()
    assert run('--schedule=predict', '--hparams=decision_threshold=0.0')[0] == 0
    without, lines = f1_of(output)
    assert without == pytest.approx(float(metrics['f1']), abs=1e-4) and 'decision_threshold' not in lines[0]
    (output / 'metrics.csv').unlink()
    (output / 'best' / 'best.json').unlink()
    code, _, log = run('--schedule=predict')
    assert code != 0 and re.search(r'decision_threshold=best: the split eval has no evaluation at step \d+ in .*: run --s', log)


def test_a_threshold_for_ten_classes_is_refused_before_training(run):
    code, _, log = run('--model=alexnet', '--dataset=mnist', '--hparams=decision_threshold=0.3', '--train_steps=1')
    assert code != 0 and log.rstrip().endswith('decision_threshold=0.3 is for two classes, but there are 10: omit it')


def test_the_best_threshold_of_a_model_without_its_metric_is_refused_before_training(run, table):
    hparams = f'--hparams=table_file={table},decision_threshold=best'
    code, _, log = run('--model=linear', '--dataset=table', hparams, '--train_steps=1')
    assert code == 2 and 'decision_threshold=best: --model=linear makes its own training step, without the metric' in log


def test_the_figures_of_the_docs_are_those_of_their_table(run, tmp_path, monkeypatch):
    page, averages = (open(os.path.join(ROOT, 'docs', name)).read() for name in ('own_data.md', 'hparams.md'))
    monkeypatch.chdir(tmp_path)
    exec(re.search(r'```python\n(import numpy.*?)```', page, re.DOTALL)[1], {})
    flags = ('--model=mlp', '--dataset=table', '--save_checkpoints_steps=1000')

    def row(text, name):
        cells = re.search(rf'^\| {re.escape(name)} \| (.*) \|$', text, re.MULTILINE)[1]
        return [float(cell) for cell in cells.split(' | ')]

    code, result, _ = run(
        *flags, '--num_epochs=3', '--hparams=table_file=rare.csv,class_weights=balanced', output_dir='balanced'
    )
    names = ('recall', 'precision', 'f1', 'best_f1', 'best_f1_threshold')
    assert code == 0 and [result['eval'][name] for name in names] == pytest.approx(
        row(page, '`class_weights=balanced`'), abs=0.04
    )
    for name, weights in (('the last', ''), ('averaged with `swa_start=300,swa_every=10`', ',swa_start=300,swa_every=10')):
        hparams = f'--hparams=table_file=rare.csv,learning_rate=0.05{weights}'
        code, result, _ = run(*flags, '--num_epochs=5', hparams, output_dir=f'averaged{weights}')
        found = [result['eval'][metric] for metric in ('log_loss', 'average_precision', 'auc')]
        assert code == 0 and found == pytest.approx(row(averages, name), abs=0.02)

"""Labels changed at random: how many --schedule=suspects finds, beside cleanlab by the same predictions, and what it is worth.

    python -m benchmarks.suspects

MNIST with 1% and 5% of the training labels changed, and, with 5%, a table and texts, see peers/label_issues.py. The accuracy is
that of untouched examples. The first run creates the virtual environment in .venv-peers.
"""

import csv
import json
import os
import sys
import tempfile
from typing import Any, NamedTuple

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np

from benchmarks.noisy_mnist import changed
from benchmarks.processes import make_environments, run_peer, run_trainer
from estimator_trainer.datasets.mnist import read_idx

FOLDS = 3
_MNIST = ('--model=mlp', '--dataset=benchmarks.noisy_mnist', '--num_epochs=5')


class Case(NamedTuple):
    """Data with changed labels: its name, its flags, without and with the changes, and the right and the changed labels."""

    name: str
    clean: list[str]
    noisy: list[str]
    right: np.ndarray
    given: np.ndarray
    names: list[str]


def main() -> None:
    make_environments('cleanlab')
    with tempfile.TemporaryDirectory() as directory:
        run_peer('cleanlab', 'label_issues.py', 'data', directory)
        cases = [
            _lines(
                directory,
                'digits',
                'train.csv',
                ['--model=mlp', '--dataset=table', '--num_epochs=30', '--eval_splits=test'],
                'table_file',
                1,
            ),
            _lines(
                directory,
                'texts',
                'train.txt',
                ['--model=text_cnn', '--dataset=text', '--num_epochs=12', '--eval_splits=test'],
                'text_file',
                0,
            ),
            *(_mnist(share) for share in (0.01, 0.05)),
        ]
        results = [_measure(case, os.path.join(directory, f'case{i}')) for i, case in enumerate(cases)]
    _print_table('found', results)
    _print_table('accuracy', results)


def _print_table(key, results):
    columns = [*results[0][key]]
    print(f'\n| data | {" | ".join(columns)} |\n|{" --- |" * (len(columns) + 1)}')
    for result in results:
        print(f'| {result["name"]} | {" | ".join(str(result[key][column]) for column in columns)} |')


def _mnist(share):
    right = read_idx('train-labels-idx1-ubyte').astype(np.int64)
    names = [str(number) for number in range(10)]
    clean, noisy = ([*_MNIST, f'--hparams=changed_share={value}'] for value in (0.0, share))
    return Case(f'MNIST, {share:.0%}', clean, noisy, right, changed(right, 10, share), names)


def _lines(directory, name, file, flags, hparam, header):
    """Returns the case of a table or texts in a directory, of which it writes a copy with changed labels."""
    with open(os.path.join(directory, name, file), encoding='utf-8') as lines:
        rows = lines.read().splitlines()
    cells = [row.rsplit(',', 1)[::-1] if file.endswith('csv') else row.split('\t', 1) for row in rows[header:]]
    names = sorted({label for label, _ in cells})
    right = np.array([names.index(label) for label, _ in cells])
    given = changed(right, len(names), 0.05)
    noisy = [
        f'{text},{names[label]}' if file.endswith('csv') else f'{names[label]}\t{text}'
        for label, (_, text) in zip(given.tolist(), cells)
    ]
    os.makedirs(os.path.join(directory, f'noisy_{name}'))
    for target, content in ((file, [*rows[:header], *noisy]), (file.replace('train', 'test'), None)):
        if content is None:
            with open(os.path.join(directory, name, target), encoding='utf-8') as held_out:
                content = held_out.read().splitlines()
        with open(os.path.join(directory, f'noisy_{name}', target), 'w', encoding='utf-8') as out:
            out.writelines(f'{line}\n' for line in content)
    paths = (os.path.join(directory, prefix + name) for prefix in ('', 'noisy_'))
    clean, changed_flags = ([*flags, f'--hparams={hparam}={path}'] for path in paths)
    return Case(f'{name}, 5%', clean, changed_flags, right, given, names)


def _measure(case: Case, directory: str) -> dict[str, Any]:
    wrong = {*np.flatnonzero(case.right != case.given).tolist()}
    os.makedirs(directory)
    data = [f'--data_dir={directory}/data']
    run, folds = (f'--output_dir={directory}/{name}' for name in ('run', 'folds'))
    accuracy = {'right labels': _accuracy(*case.clean, *data)}
    accuracy['changed'] = _accuracy(*case.noisy, *data, run, '--record_margins')
    run_trainer(*(flag for flag in case.noisy if flag != '--eval_splits=test'), *data, folds, f'--folds={FOLDS}')
    found: dict[str, Any] = {'changed': len(wrong)}
    for name, where in (('margins', run), ('folds', folds)):
        listed = _suspects(where, 0)
        hits = len({*listed} & wrong)
        found[f'{name}, below 0'] = f'{hits / max(len(listed), 1):.3f}, {hits / len(wrong):.3f}'
        found[name] = _share(_suspects(where, len(wrong)), wrong)
    ranked = _cleanlab(folds, directory, len(case.given), len(wrong))
    issues = ranked.pop('find_label_issues')
    hits = len({*issues} & wrong)
    found['find_label_issues'] = f'{hits / max(len(issues), 1):.3f}, {hits / len(wrong):.3f}'
    found |= {method: _share(numbers, wrong) for method, numbers in ranked.items() if method != 'seconds'}
    _suspects(run, len(wrong))
    path = f'{directory}/run/suspects.csv'
    accuracy['excluded'] = _accuracy(*case.noisy, *data, f'--exclude={path}')
    accuracy['corrected'] = _accuracy(*case.noisy, *data, f'--exclude={_corrected(path)}')
    print(case.name, found, accuracy, file=sys.stderr)
    return {'name': case.name, 'found': found, 'accuracy': accuracy}


def _accuracy(*flags):
    result = run_trainer(*flags)['result']
    return result.get('test', result.get('eval'))['accuracy']


def _share(numbers, wrong):
    return f'{len({*numbers} & wrong) / len(wrong):.3f}'


def _suspects(where, top):
    """Returns the numbers of the suspects, in their order."""
    result = run_trainer(where, '--schedule=suspects', f'--top={top}')['result']
    with open(result['suspects'], encoding='utf-8') as file:
        return [_number(row, 0) for row in csv.DictReader(file)]


def _number(fields, unit_of_fold):
    """Returns the number of a training example; the first line of a table has the names of its columns."""
    if 'line' in fields:
        return int(fields['line']) - (2 if fields['file'].endswith('csv') else 1)
    number = int(fields['example'])
    return number * FOLDS + unit_of_fold - 1 if unit_of_fold else number


def _cleanlab(folds, directory, count, num_wrong):
    """Returns what cleanlab finds by the predictions of the folds, each for the examples that it has not trained on."""
    path = run_trainer(folds, '--schedule=predict')['result']['predictions']
    with open(path, encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    numbers = np.array([_number(line, line['fold']) for line in lines])
    assert sorted(numbers.tolist()) == [*range(count)]
    order = np.argsort(numbers)
    arrays = {
        name: np.array([line[key] for line in lines])[order] for name, key in (('labels', 'label'), ('probabilities',) * 2)
    }
    np.savez(f'{directory}/predictions.npz', **arrays)
    return run_peer('cleanlab', 'label_issues.py', 'rank', f'{directory}/predictions.npz', num_wrong)


def _corrected(path):
    """Writes a copy of suspects.csv whose labels are corrected to the predicted ones, and returns its path."""
    with open(path, encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    target = path.replace('suspects', 'corrected')
    with open(target, 'w', encoding='utf-8', newline='') as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows({**row, 'corrected': row['predicted']} for row in rows)
    return target


if __name__ == '__main__':
    main()

"""A table and texts with their classes, and cleanlab's ranking of labels by predictions.

python label_issues.py data DIRECTORY     writes DIRECTORY/digits/train.csv and test.csv, scikit-learn's 8x8 digits,
                                          and DIRECTORY/texts/train.txt and test.txt, paragraphs of the docs of four packages
python label_issues.py rank FILE COUNT    prints the numbers of the COUNT examples of the lowest label quality, by each of its
                                          scores, and those that find_label_issues finds; FILE has labels and probabilities
"""

import csv
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys

import numpy as np

PACKAGES = ('numpy', 'pandas', 'scipy', 'sklearn')
PARAGRAPHS = 1500  # Of each.
METHODS = ('self_confidence', 'normalized_margin', 'confidence_weighted_entropy')


def digits():
    from sklearn.datasets import load_digits

    found = load_digits()
    return [([*row.tolist()], int(label)) for row, label in zip(found.data, found.target)]


def paragraphs(package):
    """Returns paragraphs of the documentation of a package, in any order, without those that name it."""
    found = set()
    root = importlib.import_module(package)
    for module in [root, *_submodules(root)]:
        for _, member in inspect.getmembers(module, lambda one: inspect.isclass(one) or callable(one)):
            if str(getattr(member, '__module__', '')).startswith(package):
                for text in re.split(r'\n\s*\n', inspect.getdoc(member) or ''):
                    text = ' '.join(text.split())
                    if 80 < len(text) < 500 and '>>>' not in text and not any(name in text.lower() for name in PACKAGES):
                        found.add(text)
    return sorted(found)


def _submodules(root):
    for info in pkgutil.iter_modules(root.__path__):
        if not info.name.startswith('_') and info.name not in ('tests', 'conftest', 'f2py'):
            try:
                yield importlib.import_module(f'{root.__name__}.{info.name}')
            except Exception:  # Some need what is not installed.
                pass


def write_data(directory):
    random = np.random.default_rng(0)
    texts = []
    for package in PACKAGES:
        found = paragraphs(package)
        chosen = random.permutation(len(found))[:PARAGRAPHS]
        texts += [(found[i], package) for i in chosen]
    for name, rows, ending in (('digits', digits(), 'csv'), ('texts', texts, 'txt')):
        os.makedirs(os.path.join(directory, name), exist_ok=True)
        order = random.permutation(len(rows)).tolist()
        held_out = len(order) // 4
        for split, chosen in (('test', order[:held_out]), ('train', order[held_out:])):
            with open(os.path.join(directory, name, f'{split}.{ending}'), 'w', encoding='utf-8', newline='') as file:
                if name == 'texts':
                    file.writelines(f'{rows[i][1]}\t{rows[i][0]}\n' for i in chosen)
                    continue
                writer = csv.writer(file)
                writer.writerow([*(f'pixel{i}' for i in range(64)), 'target'])
                writer.writerows([*rows[i][0], f'd{rows[i][1]}'] for i in chosen)
    print(json.dumps({'texts': len(texts)}))


def rank(path, count):
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    found = np.load(path)
    labels, probabilities = found['labels'], found['probabilities'].astype(np.float64)
    probabilities /= probabilities.sum(1, keepdims=True)
    ranked = {
        method: np.argsort(get_label_quality_scores(labels, probabilities, method=method), kind='stable')[:count].tolist()
        for method in METHODS
    }
    issues = find_label_issues(labels, probabilities, return_indices_ranked_by='self_confidence').tolist()
    print(json.dumps({**ranked, 'find_label_issues': issues}))


if __name__ == '__main__':
    if sys.argv[1] == 'data':
        write_data(sys.argv[2])
    else:
        rank(sys.argv[2], int(sys.argv[3]))

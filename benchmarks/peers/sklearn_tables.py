"""Real tables from packages, and scikit-learn's HistGradientBoosting trained on them.

python sklearn_tables.py DIRECTORY    writes DIRECTORY/TABLE/train.csv and eval.csv, and prints {table: AUC}
"""

import csv
import json
import os
import sys

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
import statsmodels.api

TARGET = 'target'


def tables():
    """Yields (name, names of the columns, values [rows, columns], target [rows] of 0 and 1)."""
    cancer = load_breast_cancer()
    yield 'breast_cancer', list(cancer.feature_names), cancer.data, cancer.target
    # R. Fair: A Theory of Extramarital Affairs, 1978: 6,366 answers to a questionnaire.
    affairs = statsmodels.api.datasets.fair.load_pandas().data
    inputs = affairs.drop(columns='affairs')
    yield 'affairs', list(inputs.columns), inputs.to_numpy(), np.int64(affairs['affairs'] > 0)


def write(path, names, values, target):
    with open(path, 'w', encoding='utf-8', newline='') as file:
        writer = csv.writer(file)
        writer.writerow([*names, TARGET])
        writer.writerows([*row, label] for row, label in zip(values.tolist(), target.tolist()))


def main(directory):
    scores = {}
    for name, names, values, target in tables():
        split = train_test_split(values, target, test_size=0.25, random_state=0, stratify=target)
        train, held_out, train_target, held_out_target = split
        os.makedirs(os.path.join(directory, name), exist_ok=True)
        write(os.path.join(directory, name, 'train.csv'), names, train, train_target)
        write(os.path.join(directory, name, 'eval.csv'), names, held_out, held_out_target)
        model = HistGradientBoostingClassifier(random_state=0).fit(train, train_target)
        scores[name] = roc_auc_score(held_out_target, model.predict_proba(held_out)[:, 1])
    print(json.dumps(scores))


if __name__ == '__main__':
    main(sys.argv[1])

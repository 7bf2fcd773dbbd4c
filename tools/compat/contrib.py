"""Prints how many uses of tf.contrib in public programs `python -m tf_estimator --tf1` resolves, by package.

    python -m tools.compat.contrib [--absent]

contrib_uses.tsv has the uses: name, places in the code, and repositories. They were counted in November 2026 in 125 public
repositories that use an Estimator; those that have moved to TensorFlow 2 since were read as of 2018 to 2021.
"""

import collections
import csv
import pathlib
import sys

from tf_estimator.tf1.modules import Package, TensorFlow1, resolve

import tensorflow.compat.v1 as tf

USES = pathlib.Path(__file__).with_name('contrib_uses.tsv')


def is_there(root: TensorFlow1, name: str) -> bool:
    """Whether a name, such as tensorflow.contrib.slim.conv2d, can be imported and used."""
    try:
        found = resolve(root, name.split('.')[1:])
    except AttributeError as error:
        return 'pip install' in str(error)  # Of another package, which the error names.
    return not (isinstance(found, Package) and name.rpartition('.')[2][0].isupper())


def main(argv: list[str]) -> None:
    tf.disable_v2_behavior()
    root = TensorFlow1(tf)
    with USES.open(encoding='utf-8') as file:
        rows = [(row['name'], int(row['uses']), int(row['repositories'])) for row in csv.DictReader(file, delimiter='\t')]
    absent = [row for row in rows if not is_there(root, row[0])]
    if '--absent' in argv:
        for name, uses, repositories in sorted(absent, key=lambda row: -row[1]):
            print(f'{uses:5} {repositories:3} {name}')
        return
    used: collections.Counter[str] = collections.Counter()
    lacking: collections.Counter[str] = collections.Counter()
    for counter, found in ((used, rows), (lacking, absent)):
        for name, uses, _ in found:
            counter[name.split('.')[2] if name.count('.') > 1 else ''] += uses
    print('| package | uses | resolved |\n| --- | --- | --- |')
    for package, uses in [('all', used.total()), *used.most_common(20)]:
        there = uses - (lacking.total() if package == 'all' else lacking[package])
        print(f'| {package} | {uses:,} | {100 * there / uses:.1f} % |')


if __name__ == '__main__':
    main(sys.argv[1:])

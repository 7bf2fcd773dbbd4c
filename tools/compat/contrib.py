"""Prints how many uses of tf.contrib in public programs `python -m tf_estimator --tf1` resolves, by package.

    python -m tools.compat.contrib [--absent]

contrib_uses.tsv has the uses: name, places in the code, and repositories. They were counted in November 2026 in 125 public
repositories that use an Estimator; those that have moved to TensorFlow 2 since were read as of 2018 to 2021.
"""

import collections
import csv
import pathlib
import sys

from tf_estimator.check.names import Names, Verdict

import tensorflow.compat.v1 as tf

USES = pathlib.Path(__file__).with_name('contrib_uses.tsv')


def is_there(names: Names, name: str) -> bool:
    """Whether a name, such as tensorflow.contrib.slim.conv2d, can be imported and used."""
    found = names.find(name)
    return not isinstance(found, Verdict) or found.status == 'install'


def main(argv: list[str]) -> None:
    tf.disable_v2_behavior()
    names = Names(tf1=True)
    with USES.open(encoding='utf-8') as file:
        rows = [(row['name'], int(row['uses']), int(row['repositories'])) for row in csv.DictReader(file, delimiter='\t')]
    absent = [row for row in rows if not is_there(names, row[0])]
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

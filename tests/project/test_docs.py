"""The examples of docs/cookbook.md and docs/guide/ give what is written there, and the numbers of docs/scaling.md are right."""

import doctest
import os
import re

import pytest
import tensorflow.compat.v1 as tf

from tests.shared import ROOT

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
BLOCK = re.compile(r'```python\n(.*?)```', re.DOTALL)
INTERNAL = {'__init__', 'images', 'step_seed'}  # Parts of other ops, without a use of their own.


def read(*names):
    with open(os.path.join(ROOT, 'docs', *names), encoding='utf-8') as file:
        return file.read()


COOKBOOK, GUIDE, SCALING = read('cookbook.md'), read('guide', 'README.md'), read('scaling.md')
SECTIONS = dict(re.findall(r'^## (.*?)\n(.*?)(?=^## |\Z)', COOKBOOK, re.MULTILINE | re.DOTALL))
CHAPTERS = {name: read('guide', name) for name in re.findall(r'\]\((\w+\.md)\)', GUIDE)}
EXAMPLES = {**SECTIONS, **CHAPTERS}


@pytest.mark.parametrize('title', EXAMPLES)
def test_the_examples_give_what_is_written(monkeypatch, title):
    monkeypatch.setattr(tf, 'disable_eager_execution', lambda: None)  # A graph is as good, and leaves no trace.
    names = {}
    exec(BLOCK.search(GUIDE if title in CHAPTERS else COOKBOOK).group(1), names)
    test = doctest.DocTestParser().get_doctest('\n'.join(BLOCK.findall(EXAMPLES[title])), names, title, title, 0)
    assert len(test.examples) > (3 if title in CHAPTERS else 0)
    output = []
    with tf.Graph().as_default():
        doctest.DocTestRunner(optionflags=FLAGS if title in CHAPTERS else doctest.ELLIPSIS).run(test, out=output.append)
    assert not output, ''.join(output)


def test_every_op_has_an_example_and_every_chapter_is_listed_and_points_at_code_that_is_there():
    files = {name[:-3] for name in os.listdir(os.path.join(ROOT, 'common', 'ops')) if name.endswith('.py')}
    assert files - INTERNAL == set(re.findall(r'>>> from common\.ops\.(\w+) import', COOKBOOK))
    assert {*CHAPTERS, 'README.md'} == {*os.listdir(os.path.join(ROOT, 'docs', 'guide'))}
    for text in CHAPTERS.values():
        (use,) = re.findall(r'^\*In this project:\*.*\Z', text, re.MULTILINE | re.DOTALL)
        files = re.findall(r'\b(?:common|models)/[\w/]+\.py', use)
        assert files and all(os.path.exists(os.path.join(ROOT, path)) for path in files)


def test_the_throughput_of_clusters_follows_from_the_formula():
    rows = re.findall(r'^\| (\d+) (.B) \| (\S+) s \| (\S+) Gbit/s \| (\S+) ms \| (.*) \|$', SCALING, re.MULTILINE)
    # Three sizes of models, on two networks.
    assert len({row[:2] for row in rows}) == 3 and len({row[3] for row in rows}) == 2 and len(rows) == 6
    for number, unit, seconds, gigabits, milliseconds, values in rows:
        size, bandwidth = float(number) * {'KB': 1e3, 'MB': 1e6, 'GB': 1e9}[unit], float(gigabits) * 1e9 / 8
        assert float(milliseconds) == pytest.approx(2000 * size / bandwidth)
        for tasks, value in zip((2, 4, 8, 16, 64), values.split(' | '), strict=True):
            step = float(seconds) + 2 * (tasks - 1) / tasks * size / bandwidth
            assert float(value) == pytest.approx(tasks * float(seconds) / step, abs=0.051)

"""Every example of docs/guide/ gives what is written there, in a shell of its own for each page."""

import doctest
import os
import re

import pytest
import tensorflow.compat.v1 as tf

from tests.shared import ROOT

GUIDE = os.path.join(ROOT, 'docs', 'guide')
BLOCK = re.compile(r'```python\n(.*?)```', re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
CHAPTERS = re.findall(r'\]\((\w+\.md)\)', open(os.path.join(GUIDE, 'README.md')).read())


def read(name):
    with open(os.path.join(GUIDE, name), encoding='utf-8') as file:
        return file.read()


@pytest.mark.parametrize('name', CHAPTERS)
def test_the_examples_of_a_chapter_give_what_is_written(monkeypatch, name):
    monkeypatch.setattr(tf, 'disable_eager_execution', lambda: None)  # A graph is as good, and leaves no trace.
    names = {}
    exec(BLOCK.search(read('README.md')).group(1), names)  # What the guide says to begin with.
    test = doctest.DocTestParser().get_doctest('\n'.join(BLOCK.findall(read(name))), names, name, name, 0)
    assert len(test.examples) > 3
    output = []
    with tf.Graph().as_default():
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=output.append)
    assert not output, ''.join(output)


def test_the_chapters_are_the_files():
    assert sorted(CHAPTERS) == sorted(name for name in os.listdir(GUIDE) if name != 'README.md')


@pytest.mark.parametrize('name', CHAPTERS)
def test_a_chapter_points_at_code_that_is_there(name):
    (use,) = re.findall(r'^\*In this project:\*.*\Z', read(name), re.MULTILINE | re.DOTALL)
    files = re.findall(r'\b(?:common|models)/[\w/]+\.py', use)
    assert files and all(os.path.exists(os.path.join(ROOT, path)) for path in files)

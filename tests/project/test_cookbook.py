"""Every example of docs/cookbook.md gives what is written there, and every op has one."""

import doctest
import os
import re

import pytest
import tensorflow.compat.v1 as tf

from tests.shared import ROOT

TEXT = open(os.path.join(ROOT, 'docs', 'cookbook.md')).read()
SECTIONS = dict(re.findall(r'^## (.*?)\n(.*?)(?=^## |\Z)', TEXT, re.MULTILINE | re.DOTALL))
BLOCK = re.compile(r'```python\n(.*?)```', re.DOTALL)
# Parts of other ops, without a use of their own.
INTERNAL = {'__init__', 'images', 'step_seed'}


@pytest.mark.parametrize('title', SECTIONS)
def test_the_examples_give_what_is_written(monkeypatch, title):
    monkeypatch.setattr(tf, 'disable_eager_execution', lambda: None)  # A graph is as good, and leaves no trace.
    examples = '\n'.join(BLOCK.findall(SECTIONS[title]))
    names = {}
    exec(BLOCK.search(TEXT).group(1), names)  # What the page says to begin with.
    test = doctest.DocTestParser().get_doctest(examples, names, title, 'docs/cookbook.md', 0)
    assert test.examples
    output = []
    with tf.Graph().as_default():
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=output.append)
    assert not output, ''.join(output)


def test_every_op_has_an_example():
    files = {name[:-3] for name in os.listdir(os.path.join(ROOT, 'common', 'ops')) if name.endswith('.py')}
    assert files - INTERNAL == set(re.findall(r'>>> from common\.ops\.(\w+) import', TEXT))

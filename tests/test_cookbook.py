"""Every example of docs/cookbook.md gives what is written there, and every op has one."""

import doctest
import os
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.conftest import ROOT

TEXT = open(os.path.join(ROOT, 'docs', 'cookbook.md')).read()
SECTIONS = dict(re.findall(r'^## (.*?)\n(.*?)(?=^## |\Z)', TEXT, re.MULTILINE | re.DOTALL))
# Parts of other ops, without a use of their own.
INTERNAL = {'__init__', 'pictures', 'step_seed'}


def run(tensors, feed=None):
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session.run(tensors, feed)


@pytest.mark.parametrize('title', SECTIONS)
def test_the_examples_give_what_is_written(title):
    examples = '\n'.join(re.findall(r'```python\n(.*?)```', SECTIONS[title], re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {'np': np, 'tf': tf, 'run': run}, title, 'docs/cookbook.md', 0)
    assert test.examples
    output = []
    with tf.Graph().as_default():
        doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test, out=output.append)
    assert not output, ''.join(output)


def test_every_op_has_an_example():
    files = {name[:-3] for name in os.listdir(os.path.join(ROOT, 'common', 'ops')) if name.endswith('.py')}
    assert files - INTERNAL == set(re.findall(r'>>> from common\.ops\.(\w+) import', TEXT))

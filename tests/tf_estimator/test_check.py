"""The answers of --check, which reads a program without running it."""

import json
import operator
import re
import sys

import tf_estimator  # Before TensorFlow
from tf_estimator import check, command, replacements
from tf_estimator.check import source as check_source
from tf_estimator.tf1 import tables

import numpy as np
import pytest
import tensorflow as tf

HEAD = 'import tensorflow as tf\n'
OF_1 = HEAD + 'tf.placeholder\n'  # Then the rest is seen with --tf1.


def said(tmp_path, capsys, source, name='script.py'):
    """Returns the lines about a file, without its path, and whether it runs."""
    path = tmp_path / name
    path.write_text(source, encoding='utf-8')
    runs = check.check([str(path)])
    return [line.removeprefix(f'{path}') for line in capsys.readouterr().out.splitlines()], runs


IS_2_15 = tf.__version__.startswith('2.15')
AS_IT_IS = [
    (HEAD + 'tf.constant(1, name="x")', []),
    ('from tensorflow.python.tools.freeze_graph import freeze_graph as f\nf("a", variable_names_blacklist="b")', []),
    ('import tensorflow.compat.v1 as tf\ntf.Session()\nwith tf.variable_scope("a"): pass', []),
    (HEAD + 'tf.newaxis, tf.float32.as_numpy_dtype', []),
    ('from tensorflow.python.ops import array_ops\narray_ops.stack', [':2: tf.python.ops.array_ops.stack: bridged']),
    (HEAD + 'tf.estimator.Estimator', [] if IS_2_15 else [':2: tf.estimator.Estimator: bridged']),
    (HEAD + 'tf.GraphKeys.MINE = 1\nprint(tf.GraphKeys.MINE)', []),  # A name of its own.
    # What the program guards by itself.
    (HEAD + 'try:\n    tf.contrib\nexcept AttributeError:\n    pass', []),
    (HEAD + 'if tf.__version__ < "2":\n    tf.Session()', []),
    (HEAD + 'if hasattr(tf, "Session"):\n    tf.Session()', []),
    ('try:\n    import tensorflow.compat.v1 as tf\nexcept ImportError:\n    import tensorflow as tf\ntf.Session()', []),
    (HEAD + 'if tf.__version__ >= "2":\n    tf = tf.compat.v1\ntf.Session()', []),
    ('import sys\nsys.version_info[0] < 3 and unicode', []),
    (HEAD + 'def f():\n    try:\n        from tensorflow import mul\n    except Exception:\n        pass', []),
    (HEAD + 'if "concat_v2" in dir(tf):\n    tf.concat_v2([], 0)', []),
    (HEAD + 'try:\n    image = tf.image_summary\nexcept:\n    image = tf.summary.image', []),
    ('from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tensorflow import mul', []),
    # What has the same name.
    (HEAD + 'class A:\n    tf = None\n    def iteritems(self):\n        self.output_types = self.iteritems()', []),
    (HEAD + 'class A:\n    tf = tf.nn\n    def f(self):\n        return tf.zeros([1])', []),
    ('from six.moves import *\nxrange(3)', []),
    ('def f(tf):\n    tf.Session()', []),
    (HEAD + 'def f(tf):\n    tf.Session()', []),
    (HEAD + 'tf = object()\ntf.Session()', []),
    (HEAD + 'with open("a") as tf:\n    tf.Session()', []),
    ('import six\nsix.iteritems({})\nxrange = range\nxrange(3)', []),
]


@pytest.mark.parametrize('source, expected', AS_IT_IS)
def test_a_program_that_runs_as_it_is_has_no_lines_but_for_what_is_bridged(tmp_path, capsys, source, expected):
    assert said(tmp_path, capsys, source) == ([*expected, 'runs as it is'], True)


WITH_TF1 = [
    (OF_1, [':2: tf.placeholder: with --tf1']),
    (
        'from tensorflow.contrib import slim\nimport tensorflow.contrib.rnn as rnn\ndef f(x):\n    slim.conv2d(x, 3, 3)',
        [':1: tf.contrib.slim: with --tf1', ':2: tf.contrib.rnn: with --tf1', ':4: tf.contrib.slim.conv2d: with --tf1'],
    ),
    # A function sees what comes after it; an alias of an alias; several places.
    (
        'def f():\n    l.conv2d(x, 1, 1)\n    l.conv2d(x, 1, 1)\nimport tensorflow\nt = tensorflow\nl = t.layers',
        [':2: tf.layers.conv2d: with --tf1 (2 places)', ':6: tf.layers: with --tf1'],
    ),
    (HEAD + 'tf.reduce_sum([1], keep_dims=True)', [':2: tf.reduce_sum: with --tf1']),
    (
        '__import__("tensorflow").placeholder\nimport importlib\nt = importlib.import_module("tensorflow")\nt.Session',
        [':1: tf.placeholder: with --tf1', ':4: tf.Session: with --tf1'],
    ),
    (HEAD + 'FLAGS = tf.flags.FLAGS\nFLAGS.a + FLAGS.b', [':2: tf.flags.FLAGS: with --tf1 (3 places)']),
    (HEAD + 'a, b = tf.layers, 1\na.dense', [':2: tf.layers: with --tf1', ':3: tf.layers.dense: with --tf1']),
    (
        'from tensorflow.contrib.framework.python.ops import audio_ops\naudio_ops.decode_wav\n'
        'from tensorflow.contrib.metrics.python.ops import set_ops\nset_ops.set_size\n'
        'from tensorflow.contrib.eager.python import tfe\ntfe.defun',
        [
            ':1: tf.contrib.framework.python.ops.audio_ops: with --tf1',
            ':2: tf.contrib.framework.python.ops.audio_ops.decode_wav: with --tf1',
            ':3: tf.contrib.metrics.python.ops.set_ops: with --tf1',
            ':4: tf.contrib.metrics.python.ops.set_ops.set_size: with --tf1',
            ':5: tf.contrib.eager.python.tfe: with --tf1',
            ':6: tf.contrib.eager.python.tfe.defun: with --tf1',
        ],
    ),
    (HEAD + 'dataset.make_one_shot_iterator()', [':2: tf.data.Dataset.make_one_shot_iterator: with --tf1']),
]


@pytest.mark.parametrize('source, expected', WITH_TF1)
def test_a_program_of_tensorflow_1_runs_with_tf1(tmp_path, capsys, source, expected):
    assert said(tmp_path, capsys, source) == ([*expected, 'runs with --tf1'], True)


EDITS = [
    (OF_1 + 'tf.mul(1, 2)', 'tf.mul: needs an edit: tf.multiply'),
    (OF_1 + 'tf.contrib.kfac.optimizer.KfacOptimizer', 'tf.contrib.kfac.optimizer.KfacOptimizer: gone: use the package kfac'),
    (OF_1 + 'tf.contrib.slim.nothing', 'tf.contrib.slim.nothing: gone: TensorFlow '),
    (OF_1 + 'tf.contrib.verbs', 'tf.contrib.verbs: gone: nothing replaces it'),
    (
        OF_1 + 'tf.summary.create_file_writer("a"), tf.Session()',
        'tf.summary.create_file_writer: needs an edit: tf.compat.v2.summary.',
    ),
    (OF_1 + 'tf.reduce_sum([1], keep=True)', 'tf.reduce_sum: needs an edit: it takes no argument keep'),
    (OF_1 + 'tf.constant(1, 2, 3, 4, 5, 6)', 'tf.constant: needs an edit: it takes 5 positional arguments at most, not 6'),
    (OF_1 + 'if FLAGS.model_version == 2:\n    tf.mul(1, 2)', 'tf.mul: needs an edit: tf.multiply'),
    (OF_1 + 'try:\n    a = tf.mul(1, 2)\nexcept KeyError:\n    a = 2', 'tf.mul: needs an edit: tf.multiply'),
    (OF_1 + 'try:\n    a = tf.mul(1, 2)\nexcept:\n    a = 2', 'tf.mul: needs an edit: tf.multiply'),
    (OF_1 + 'try:\n    tf.mul(1, 2)\nexcept Exception as error:\n    stop(error)', 'tf.mul: needs an edit: tf.multiply'),
    (
        OF_1 + 'from tensorflow.contrib.rnn.python.ops.rnn_cell import _Other',
        'tf.contrib.rnn.python.ops.rnn_cell._Other: gone: Te',
    ),
    (
        OF_1 + 'tf.estimator.BoostedTreesClassifier([], 1)',
        'tf.estimator.BoostedTreesClassifier: gone: TensorFlow has dropped it',
    ),
    (OF_1 + 'tf.layers.dense(x, 3, foo=1)', 'tf.layers.dense: needs an edit: it takes no argument foo'),
    (OF_1 + 'xrange(3)', 'xrange: needs an edit: of Python 2: range'),
    (OF_1 + '{}.iteritems()', 'iteritems: needs an edit: of Python 2: items'),
    (OF_1 + 'import cPickle', 'cPickle: needs an edit: of Python 2: pickle'),
    (OF_1 + 'from urllib2 import urlopen', 'urllib2: needs an edit: of Python 2: urllib.request'),
]


@pytest.mark.parametrize('source, expected', EDITS)
def test_each_place_that_needs_an_edit_says_which(tmp_path, capsys, source, expected):
    lines, runs = said(tmp_path, capsys, source)
    assert lines[1].startswith((f':3: {expected}', f':4: {expected}'))
    assert (lines[-1], runs) == ('1 place needs an edit, the rest runs with --tf1', False)


def test_a_method_that_arrays_no_longer_have_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check_source, '_ARRAY_METHODS', {'tostring'})
    lines, _ = said(tmp_path, capsys, OF_1 + 'etree.tostring(root)\nx.copy().tostring()')
    assert lines[-2:] == [
        f':4: tostring: needs an edit: arrays of NumPy {np.__version__} have tobytes',
        '1 place needs an edit, the rest runs with --tf1',
    ]
    assert said(tmp_path, capsys, OF_1 + 'def tostring(self): self.tostring()')[1]


def test_a_file_of_python_2_and_a_missing_library_are_named(tmp_path, capsys):
    lines, runs = said(tmp_path, capsys, 'print "a"')
    assert lines[0].startswith(':1: syntax: needs an edit: not Python 3: Missing parentheses') and not runs
    lines, runs = said(tmp_path, capsys, 'import adanet\nadanet.Estimator')
    if not runs:
        pytest.skip('adanet is installed, and does not load')
    assert lines[-1] in ('runs as it is', 'runs as it is, after pip install adanet')


def test_arguments_that_stars_hide_and_calls_of_objects_are_not_judged(tmp_path, capsys):
    source = HEAD + 'tf.constant(*a, **b)\ntf.compat.v1.flags.FLAGS.size\ntf.compat.v1.flags.FLAGS(a, b, c)'
    assert said(tmp_path, capsys, source) == (['runs as it is'], True)


def test_names_of_compat_v1_are_replaced_as_those_of_tensorflow_1(tmp_path, capsys):
    lines, runs = said(tmp_path, capsys, 'import tensorflow.compat.v1 as tf\ntf.mul(1, 2)\ntf.contrib.kfac')
    assert lines[:2] == [
        ':2: tf.compat.v1.mul: needs an edit: tf.multiply',
        ':3: tf.compat.v1.contrib.kfac: gone: use the package kfac',
    ]


def test_a_notebook_is_read_by_cells(tmp_path, capsys):
    cells = [
        {'cell_type': 'markdown', 'source': ['tf.mul']},
        {'cell_type': 'code', 'source': ['%matplotlib inline\n', '!ls\n', 'import tensorflow as tf']},
        {'cell_type': 'code', 'source': '%%bash\nls -l'},
        {'cell_type': 'code', 'source': 'files = !ls \\\n  -l\ntf?\nprint(\n "%d"\n % 3)'},
        {'cell_type': 'code', 'source': 'x = ('},
        {'cell_type': 'code', 'source': 'x = 1\ntf.Session()'},
    ]
    lines, _ = said(tmp_path, capsys, json.dumps({'cells': cells}), 'book.ipynb')
    assert lines == [
        ", cell 5:1: syntax: needs an edit: not Python 3: '(' was never closed",
        ', cell 6:2: tf.Session: with --tf1',
        '1 place needs an edit, the rest runs with --tf1',
    ]
    old = {'worksheets': [{'cells': [{'cell_type': 'code', 'input': HEAD + 'tf.mul'}]}]}
    assert said(tmp_path, capsys, json.dumps(old), 'book.ipynb')[0][0] == ', cell 1:2: tf.mul: needs an edit: tf.multiply'
    other = {'cells': cells, 'metadata': {'kernelspec': {'language': 'R'}}}
    assert said(tmp_path, capsys, json.dumps(other), 'book.ipynb') == (['runs as it is'], True)
    for text in ('no JSON', '[]', '{}', '{"cells": [{"cell_type": "code", "source": null}]}'):
        lines, runs = said(tmp_path, capsys, text, 'book.ipynb')
        assert lines == [':1: syntax: needs an edit: not a notebook', '1 place needs an edit'] and not runs


def test_a_script_is_read_with_its_imports_and_a_folder_with_all_files_but_those_of_environments(tmp_path, capsys):
    for path, source in {
        'script.py': 'from package import module\nimport other',
        'other.py': '',
        'unused.py': HEAD + 'tf.mul',
        'package/__init__.py': HEAD + 'tf.neg',
        'package/module.py': 'from . import deeper\nfrom .sub.file import x',
        'package/deeper.py': HEAD + 'tf.sub',
        'package/sub/file.py': HEAD + 'tf.pack',
        'venv/pyvenv.cfg': '',
        'venv/lib/site.py': 'print "a"',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)

    def names(path):
        check.check([str(path)], as_json=True)
        found = json.loads(capsys.readouterr().out)
        assert found['edits'] == len(found['names']) and not found['tf1']
        return sorted(row['name'] for row in found['names']), found['files']

    assert names(tmp_path / 'script.py') == (['tf.neg', 'tf.pack', 'tf.sub'], 6)
    assert names(tmp_path) == (['tf.mul', 'tf.neg', 'tf.pack', 'tf.sub'], 7)


@pytest.mark.parametrize(
    'adds',
    [
        'import sys\nsys.path.append("../lib")',
        'import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))',
        'import os, sys\nsys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/lib")',
        'import os.path as osp, sys\ndef add(path):\n    sys.path.insert(0, path)\nhere = osp.dirname(__file__)\n'
        'add(osp.join(osp.join(here, ".."), "lib"))',
    ],
)
def test_a_script_is_read_with_what_it_imports_from_folders_that_it_adds(tmp_path, monkeypatch, capsys, adds):
    for path, source in {
        'tools/train.py': 'import paths\nfrom net import model\nimport absent',
        'tools/paths.py': adds,
        'lib/net/__init__.py': '',
        'lib/net/model.py': OF_1,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)
    monkeypatch.chdir(tmp_path)
    check.check(['tools/train.py'])
    assert capsys.readouterr().out == 'lib/net/model.py:2: tf.placeholder: with --tf1\nruns with --tf1\n'


def test_files_that_are_named_like_a_library_are_not_run_and_links_to_nothing_are_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend('')
    (tmp_path / 'tensorflow').mkdir()
    paths = []  # As TensorFlow is imported.
    monkeypatch.setattr(tf_estimator, 'install', lambda: paths.extend(sys.path))
    (tmp_path / 'link.py').symlink_to('nothing.py')
    (tmp_path / 'adanet.py').write_text('raise SystemExit(5)')
    (tmp_path / 'script.py').write_text('import adanet\nadanet.own\nimport tensorflow as tf\ntf.mul')
    for path in ('.', 'script.py'):
        assert not check.check([path])
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition(': ')[2] for line in lines[:-1]] == ['tf.mul: needs an edit: tf.multiply']
    assert paths and '' not in paths


def test_files_of_both_kinds_are_each_judged_by_their_own(tmp_path, capsys):
    (tmp_path / 'old.py').write_text(OF_1)
    (tmp_path / 'new.py').write_text(HEAD + 'tf.optimizers.Adam\ntf.random.Generator.from_seed')
    assert check.check([str(tmp_path)])
    lines = [line.removeprefix(f'{tmp_path}/') for line in capsys.readouterr().out.splitlines()]
    assert lines == ['old.py:2: tf.placeholder: with --tf1', 'runs with --tf1, but for 1 of TensorFlow 2']


@pytest.mark.parametrize(
    'arguments, code, error',
    [
        ([], 2, 'PATH is missing'),
        (['--json'], 2, 'PATH is missing'),
        (['--other', 'a'], 2, '--check does not take --other'),
        (['absent.py'], 2, 'absent.py: no such file or directory'),
        (['empty'], 2, 'empty: has no Python files'),
        (['good.py'], 0, ''),
        (['good.py', 'bad.py', '--json'], 1, ''),
    ],
)
def test_the_exit_code_says_whether_edits_are_needed(tmp_path, monkeypatch, capsys, arguments, code, error):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'good.py').write_text(OF_1)
    (tmp_path / 'bad.py').write_text('xrange')
    with pytest.raises(SystemExit) as exit_:
        command.main(['--check', *arguments])
    assert int(exit_.value.code) == code
    assert error in capsys.readouterr().err


_PARTLY = ('data', 'distributions', 'eager', 'factorization', 'gan', 'image', 'keras', 'learn', 'opt', 'tpu')


def test_what_replaces_names_is_there_and_only_of_packages_that_are_not():
    for name, cure in replacements.TABLE.items():
        if re.fullmatch(r'tf(\.\w+)+', cure) and 'contrib' not in cure:
            operator.attrgetter(cure.removeprefix('tf.'))(tf.compat.v1)
        assert f'tensorflow.{name}' not in tables.PACKAGES or name.partition('.')[2] in _PARTLY or name == 'examples', name

"""Warm starts from another run."""

import re

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.options.values import parse_names
from estimator_trainer.common.training.warm_start import start_from
from tests.linear import variables
from tests.shared import refused

SAVED = {'a/kernel': [1.0, 2.0], 'a/bias': [3.0], 'b/kernel': [4.0, 5.0], 'b/bias': [6.0]}


def save(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as session:
        saved = [tf.get_variable(name, initializer=value) for name, value in values.items()]
        session.run(tf.global_variables_initializer())
        tf.train.Saver(saved).save(session, str(path))
    return path


@pytest.fixture
def saved(tmp_path):
    return save(tmp_path / 'saved' / 'model.ckpt-5', SAVED)


@pytest.fixture
def started(caplog):
    """Starts variables, {name: length}, from a path: started(path, lengths, ...) -> ({name: values}, log lines)."""
    caplog.set_level('INFO')

    def call(path, lengths, *args):
        with tf.Graph().as_default(), tf.Session() as session:
            created = [tf.get_variable(name, [n], initializer=tf.zeros_initializer()) for name, n in lengths.items()]
            start_from(str(path), created, *args)
            session.run(tf.global_variables_initializer())
            return {name: list(value) for name, value in variables(session).items()}, caplog.messages

    return call


@pytest.mark.parametrize('path', ['', 'model.ckpt-5', 'model.ckpt-5.index', 'model.ckpt-5.data-00000-of-00001', '../exported'])
def test_a_checkpoint_is_found_by_its_directory_or_its_files_and_in_a_saved_model(started, saved, path):
    save(saved.parent.parent / 'exported' / 'variables' / 'variables', SAVED)
    found, log = started(saved.parent / path, {name: len(value) for name, value in SAVED.items()})
    assert found == SAVED
    where = saved.parent / path / 'variables' / 'variables' if 'exported' in path else saved
    assert log == [f'Starting from the weights in {where}:', *(f'  {name:40} loaded' for name in SAVED)]


def test_unmatched_or_excluded_variables_are_listed_and_initialized(started, saved):
    lengths = {'a/other': 3, 'a/bias': 1, 'b/kernel': 2, 'c/bias': 1, 'c/other': 1, 'other': 1}
    found, log = started(saved, lengths, ['b/bias:a/bias', 'a/kernel:a/other', 'a/:c/'], 'b/kern')
    assert found == {name: [0] * length for name, length in lengths.items()} | {'a/bias': [6], 'c/bias': [3]}
    outcomes = ['skipped: its shape is [2], not [3]', 'loaded from b/bias', 'skipped: excluded', 'loaded from a/bias']
    outcomes += ['skipped: a/other is missing', 'skipped: missing']
    assert log[1:] == [f'  {name:40} {outcome}' for name, outcome in zip(lengths, outcomes)]


def test_a_layer_is_loaded_as_a_whole_or_not_with_a_warning_that_says_how_to_load_a_part(started, tmp_path):
    norm = {f'norm/{name}': [2.0] for name in ('gamma', 'beta', 'moving_mean')}
    values = {
        **SAVED,
        **norm,
        'table/0': [7.0],
        'table/1': [8.0],
        'a/bias/Adam': [9.0],
        'b/bias/Adam': [9.0],
        'beta1_power': [5.0],
    }
    path = save(tmp_path / 'model.ckpt', values)
    lengths = {name: len(value) for name, value in values.items()} | {'a/kernel': 3, 'table/1': 3, 'norm/moving_variance': 1}
    found, log = started(path, lengths)
    # A layer whose kernel has another shape, and one without a variance, are left; tables of embeddings stand alone.
    skipped = {name for name in lengths if name.startswith(('a/', 'norm/')) or name == 'table/1'}
    assert found == {name: [0] * n if name in skipped else values[name] for name, n in lengths.items()}
    assert {f'  {name:40} skipped: a/kernel cannot be loaded' for name in ('a/bias', 'a/bias/Adam')} <= {*log}
    part = f'--warm_start_from={path}: the layer {{}} starts from scratch, as a part of it cannot be loaded: {{}}'
    assert log[-2:] == [
        part.format('a', "a/kernel (its shape is [2], not [3]): load the others with --warm_start_exclude='^a/kernel$'"),
        part.format(
            'norm',
            'norm/moving_variance (missing): map it with --warm_start_names=OLD:norm/moving_variance, or load the others with '
            "--warm_start_exclude='^norm/moving_variance$'",
        ),
    ]
    found, log = started(path, {'a/kernel': 3, 'a/bias': 1}, [], '^a/kernel$')  # As it says.
    assert found == {'a/kernel': [0, 0, 0], 'a/bias': [3]} and log[-1].endswith('loaded')
    assert 'the layer a starts from scratch' in refused(started, path, {'a/kernel': 3, 'a/bias': 1})  # As nothing is left.


def test_scopes_are_added_and_removed_and_a_variable_may_start_several(started, tmp_path):
    path = save(tmp_path / 'model.ckpt', {'a': [1.0], 'old/b': [2.0], 'c': [3.0], 'c/ExponentialMovingAverage': [4.0]})
    for names, expected in (
        ([':new/', 'old/:'], {'b': [2], 'new/a': [1], 'new/old/b': [2]}),  # The first that fits counts.
        (['a:x', 'a:y'], {'x': [1], 'y': [1], 'a': [1]}),
        (['c:d'], {'c': [4], 'd': [4]}),  # Averages are taken before the weights.
    ):
        found, log = started(path, dict.fromkeys(expected, 1), names)
        assert found == expected
    assert [line.split(maxsplit=1)[1] for line in log[-2:]] == ['loaded', 'loaded from c/ExponentialMovingAverage']


def test_mistakes_in_a_warm_start_are_refused(started, saved):
    saved.parent.with_name('many.keras').mkdir()
    save(saved.parent.parent / 'many', {f'v{i:02}': [1.0] for i in range(12)})
    for path, names, exclude, message in (
        ('nosuch', [], '', r'--warm_start_from=\S+/nosuch: is neither a checkpoint, nor a directory of checkpoints, nor a Sav'),
        ('no.h5', [], '', r'--warm_start_from=\S+/no.h5: there is no such file$'),
        ('../many.keras', [], '', r'--warm_start_from=\S+/many.keras: it is a directory$'),
        ('', ['a/bias:x'], '', '--warm_start_names: a/bias:x: the model has no x; it has: a/bias, a/kernel$'),
        ('', ['dens/:a/'], '', r'--warm_start_names: dens/:a/: \S+/model.ckpt-5 has no dens/ for a variable of the model$'),
        ('', [], 'nosuch', '--warm_start_exclude=nosuch: matches none of the variables: a/bias, a/kernel$'),
        ('', [], '.', r'--warm_start_from=\S+: no variable matches one of the model in name and shape; it has a/bias, a/kern'),
        ('../many', [], '', '.* it has v00, v01, .*, v09 and 2 more$'),
    ):
        assert re.match(message, refused(started, saved.parent / path, {'a/bias': 1, 'a/kernel': 2}, names, exclude))


def test_a_corrupt_checkpoint_is_named_and_one_before_it_taken_from_a_directory(started, saved):
    save(saved.parent / 'model.ckpt-4', {**SAVED, 'a/bias': [9.0]})
    (saved.parent / 'checkpoint').unlink()
    path = saved.parent / 'model.ckpt-5.data-00000-of-00001'
    path.write_bytes(path.read_bytes()[:-1] + b'!')
    with pytest.raises(RunError, match=rf'^--warm_start_from={path}: {saved} is corrupt: choose another checkpoint$'):
        started(path, {'a/bias': 1})
    found, log = started(saved.parent, {'a/bias': 1})
    assert found == {'a/bias': [9]} and f'Starting from the weights in {saved.parent}/model.ckpt-4:' in log
    assert any(f'{saved}: is corrupt' in line for line in log)


@pytest.mark.parametrize('item', ['a', 'a/:b', 'a:b/', 'a:b:c', ':', ':a', 'a:'])
def test_names_are_pairs_of_variables_or_of_scopes(item):
    assert parse_names(['a:b', 'a/:b/', ':b/', 'a/:']) == [('a', 'b'), ('a/', 'b/'), ('', 'b/'), ('a/', '')]
    with pytest.raises(UsageError, match=f'^--warm_start_names: {item} is not of the form OLD:NEW, names of variables, or of'):
        parse_names(['a:b', item])

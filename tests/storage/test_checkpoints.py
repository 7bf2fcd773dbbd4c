"""Checkpoints are found, awaited and loaded into a model; damaged ones are skipped or named."""

import itertools
import json
import os
import shutil
import tempfile
import types
from unittest import mock

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.storage.restore import CheckpointGone, restore, unknown_variables, without_suffix
from estimator_trainer.common.training.saving import CheckpointSaver
from tests.shared import DAMAGES, POLYNOMIAL, assert_equal, failed, read_weights
from tests.storage.test_best_checkpoint import keep, save

DATA = 'data-00000-of-00001'
DIGITS = '0123456789abcdef' * 2


@pytest.fixture(scope='module')
def saved_once(tmp_path_factory):
    directory = tmp_path_factory.mktemp('saved')
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable('w', initializer=tf.range(50))
        saver = tf.train.Saver(sharded=True, save_relative_paths=True)
        session.run(tf.global_variables_initializer())
        for step in (0, 4, 8, 10):
            saver.save(session, f'{directory}/model.ckpt', global_step=step)
    return directory


@pytest.fixture
def output(saved_once, tmp_path):
    return shutil.copytree(saved_once, tmp_path / 'output')


def test_a_lost_checkpoint_state_is_replaced(output):
    for content in ('garbage', 'model_checkpoint_path: "model.ckpt-99"', 'model_checkpoint_path: "model.ckpt-8"'):
        (output / 'checkpoint').write_text(content)
        checkpoints.recover(str(output))
        assert tf.train.latest_checkpoint(str(output)) == f'{output}/model.ckpt-10'


@pytest.mark.parametrize('damage', DAMAGES)
@pytest.mark.parametrize(
    'name, expected',
    [('checkpoint', 10), ('model.ckpt-10.index', 8), (f'model.ckpt-10.{DATA}', 8), (f'model.ckpt-8.{DATA}', 10)],
)
def test_the_last_checkpoint_that_is_intact_is_resumed_from(output, caplog, name, expected, damage):
    DAMAGES[damage](output / name)
    checkpoints.recover(str(output))
    found = [tf.train.latest_checkpoint(str(output)), checkpoints.latest_intact(str(output))]
    assert found == [f'{output}/model.ckpt-{expected}'] * 2
    assert (f'{output}/model.ckpt-10: is corrupt or incomplete.' in caplog.text) == (expected == 8)
    assert (f'The latest intact checkpoint is {output}/model.ckpt-8.' in caplog.text) == (expected == 8)
    assert name == 'checkpoint' or ('Resuming from' in caplog.text) == (expected == 8)
    # The others are to be deleted in their turn, first a damaged one.
    kept = [step for step in (0, 4, 8, 10) if step <= expected]
    if expected == 8 and (output / 'model.ckpt-10.index').exists():
        kept = [10, *kept]
    paths = tf.train.get_checkpoint_state(str(output)).all_model_checkpoint_paths
    assert [*paths] == [f'{output}/model.ckpt-{step}' for step in kept]


def test_a_run_resumes_from_it_exactly(run, tmp_path):
    def train(output, steps):
        flags = (*POLYNOMIAL, '--schedule=train', '--hparams=learning_rate_schedule=constant', '--save_checkpoints_steps=4')
        return run(*flags, f'--train_steps={steps}', output_dir=output)

    output, undisturbed = tmp_path / 'output', tmp_path / 'undisturbed'
    train(output, 10)
    shutil.copytree(output, undisturbed)
    DAMAGES['flipped'](output / f'model.ckpt-10.{DATA}')
    assert f'Restoring parameters from {output}/model.ckpt-8\n' in train(output, 12)[2]
    train(undisturbed, 12)
    assert_equal(read_weights(output), read_weights(undisturbed))
    (output / 'checkpoint').unlink()
    train(output, 20)
    assert {int(path.stem[11:]) for path in output.glob('*.index')} == {8, 10, 12, 16, 20}  # The last five.


def test_leftovers_of_an_interrupted_save_are_deleted_and_not_taken_for_checkpoints(output, tmp_path):
    before = {*output.iterdir()}
    (output / 'model.ckpt-8_temp').mkdir()
    leftovers = [
        *('model.ckpt-8_temp/part-00000-of-00001', 'model.ckpt-9.data-00000-of-00001', 'model.ckpt-9.meta'),
        *(f'{name}.tmp{DIGITS}' for name in ('model.ckpt-4.meta', 'checkpoint', 'graph.pbtxt')),
        *(f'model.ckpt-{name}.tempstate1234' for name in ('4.index', f'8.{DATA}')),
        *(f'{name}.{DIGITS}.part' for name in ('hparams.json', 'graph.pbtxt', 'report.html', 'data_summary.txt')),
    ]
    others = ['model.ckpt-4_temperature.txt', 'notes.json.old.part', 'checkpoint.tmp', 'model.ckpt-\udcff.index']
    for name in leftovers + others:
        (output / name).write_text('half')
    checkpoints.recover(str(output))
    assert {*output.iterdir()} == before | {output / name for name in others}
    (tmp_path / f'model.ckpt-0.{DATA}').write_text('whole, but its index was not written')
    assert checkpoints.latest_intact(str(tmp_path)) is None
    (tmp_path / f'model.ckpt-1.{DATA}').write_text('as well')
    with pytest.raises(RunError, match='all checkpoints are corrupt'):
        checkpoints.latest_intact(str(tmp_path))
    (tmp_path / 'new' / 'checkpoint').mkdir(parents=True)  # A folder of the user's.
    checkpoints.recover(str(tmp_path / 'new'))
    assert (tmp_path / 'new' / 'checkpoint').exists()


def test_the_best_checkpoint_is_named_if_it_alone_is_intact(tmp_path):
    output, best = tmp_path / 'run', tmp_path / 'run' / 'best'
    best.mkdir(parents=True)
    save(output, 1)
    save(best, 1)
    record = {'checkpoint': 'model.ckpt-1', 'split': 'eval', 'metric': 'loss', 'is_max': False, 'value': 1.0}
    (best / 'best.json').write_text(json.dumps(record))
    DAMAGES['emptied'](output / f'model.ckpt-1.{DATA}')
    message = f'{output}: all checkpoints are corrupt'
    assert failed(checkpoints.latest_intact, str(output)) == (
        f'{message}, but {best}/model.ckpt-1 is intact: use --checkpoint=best or --warm_start_from={best}/model.ckpt-1, or '
        f'copy {best}/model.ckpt-1.* to {output} to train on from there'
    )
    for path in best.glob('model.ckpt-1.*'):
        shutil.copy(path, output)
    assert checkpoints.latest_intact(str(output)) == f'{output}/model.ckpt-1'
    for damaged in (best / f'model.ckpt-1.{DATA}', best / 'best.json'):
        DAMAGES['emptied'](damaged)
        DAMAGES['emptied'](output / f'model.ckpt-1.{DATA}')
        assert failed(checkpoints.latest_intact, str(output)) == f'{message}: choose another directory'


@pytest.mark.parametrize('damage', DAMAGES)
@pytest.mark.parametrize('suffix', ['index', DATA])
def test_a_damaged_checkpoint_of_step_0_alone_is_as_none(tmp_path, suffix, damage):
    save(tmp_path, 0)
    DAMAGES[damage](tmp_path / f'model.ckpt-0.{suffix}')
    assert not checkpoints.has_checkpoint(str(tmp_path))
    checkpoints.recover(str(tmp_path))
    assert not [*tmp_path.iterdir()]


def test_the_next_checkpoint_is_used_if_a_run_deletes_the_latest_meanwhile(tmp_path):
    paths = [save(tmp_path, 1)]

    def use(path):
        if len(paths) < 3:
            paths.append(save(tmp_path, len(paths) + 1))
            tf.train.remove_checkpoint(path)
            raise CheckpointGone(path)
        return path

    assert checkpoints.use_checkpoint(str(tmp_path), 'latest', use) == paths[2] == f'{tmp_path}/model.ckpt-3'
    for which in ('latest', paths[2]):  # It is still there, or asked for by its name.
        with pytest.raises(CheckpointGone, match='model.ckpt-3: a file of it is missing'):
            checkpoints.use_checkpoint(str(tmp_path), which, mock.Mock(side_effect=CheckpointGone(paths[2])))


def test_a_run_that_deletes_each_checkpoint_before_it_is_loaded_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(checkpoints, 'find_checkpoint', mock.Mock(side_effect=map(str, range(1000))))
    with pytest.raises(RunError, match='^run: 20 checkpoints in succession were deleted before they could be loaded: '):
        checkpoints.use_checkpoint('run', 'latest', mock.Mock(side_effect=CheckpointGone('')))


def test_checkpoints_that_are_deleted_while_they_are_read_are_not_corrupt(output, monkeypatch, caplog):
    def is_intact(path):
        for file in output.glob('model.ckpt-10.*'):
            file.rename(str(file).replace('-10.', '-12.'))
        return path.endswith('-12')

    monkeypatch.setattr(checkpoints, 'is_intact', is_intact)
    assert checkpoints.latest_intact(str(output)) == f'{output}/model.ckpt-12' and 'ckpt-10' not in caplog.text


def test_a_checkpoint_is_known_by_any_path_that_leads_to_it(tmp_path, monkeypatch):
    (tmp_path / 'output' / 'best').mkdir(parents=True)
    (tmp_path / 'link').symlink_to('output')
    monkeypatch.chdir(tmp_path)
    for output_dir in ('output', './output/', str(tmp_path / 'output'), 'link'):
        for directory in ('output', str(tmp_path / 'output'), f'{tmp_path}/link', 'output/best', f'{tmp_path}/link/best'):
            assert checkpoints.is_of(output_dir, f'{directory}/model.ckpt-1')
        assert not checkpoints.is_of(output_dir, f'{tmp_path}/model.ckpt-1')
    for path, is_of in (('', True), ('/best', True), ('/other', False), ('/..', False)):
        assert checkpoints.is_of('gs://a/b/', f'gs://a/b{path}/model.ckpt-1') == is_of


def load(path, **shapes):
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {name: tf.get_variable(name, shape) for name, shape in shapes.items()}
        restore(tf.train.Saver(), session, str(path))
        return session.run(variables)


def test_a_checkpoint_is_restored_to_a_model_with_its_variables(tmp_path):
    path = save(tmp_path, 3, ['v', 'w', 'global_step'], 7)
    assert load(path, v=[], w=[]) == {'v': 7, 'w': 7} and load(path, w=[]) == {'w': 7} and checkpoints.global_step(path) == 7
    for shapes, message in (
        ({'v': [], 'w': [2]}, r'w has shape \[\] in the checkpoint, but \[2\] in the model'),
        ({'v': [], 'x': []}, 'it has no variable x'),
    ):
        with pytest.raises(RunError, match=f'^{path}: does not match the model: {message}$'):
            load(path, **shapes)
    with tf.Graph().as_default():
        tf.get_variable('v', [3])
        tf.get_variable('w', [], tf.float64)
        tf.train.create_global_step()
        message = 'v has shape .* in the model; w has type float32 in the checkpoint, but float64 in the model; global_step .*'
        with pytest.raises(RunError, match=f'^{path}: the code of the model has changed since .{message}'):
            CheckpointSaver(str(tmp_path), [1]).begin()
    with pytest.raises(RunError, match='model.ckpt-4: has no scalar global_step, so no run has saved it'):
        checkpoints.global_step(save(tmp_path, 4))


def test_variables_that_the_model_lacks_end_training_and_are_warned_of_by_others(tmp_path, caplog):
    names = ('w', 'w/Adam', 'w/ExponentialMovingAverage', 'Adam/w/m', 'p')
    with tf.Graph().as_default(), tf.Session() as session:
        for name in (*names, 'extra/kernel'):
            tf.get_variable(name, [2], partitioner=tf.fixed_size_partitioner(2) if name == 'p' else None)
        for name in ('beta1_power', 'scale'):
            tf.get_variable(name, [])
        tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name='table')
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / 'model.ckpt-1'))
    load(path, w=[2], p=[2])
    load(path, w=[2], p=[2])
    message = 'The checkpoint has variables that the model does not use outside of training: {}.'
    assert caplog.messages.count(message.format('extra/kernel, table-keys, table-values')) == 1

    lost, slots = 'Adam/w/m, extra/kernel, scale', 'w/Adam, w/ExponentialMovingAverage'

    def resume(**options):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name='table')
            step = tf.train.create_global_step()
            saver = CheckpointSaver(str(tmp_path), [1], **options)
            saver.begin()
            for name in ('w', 'p'):  # A hook that follows may make variables.
                tf.get_variable(name, [2])
            session.run(step.initializer)
            saver.after_create_session(session, None)

    with pytest.raises(RunError, match=f'^{path}: the code of the model has changed since .gone: {lost}, {slots}.$'):
        resume()
    with mock.patch.multiple(CheckpointSaver, _write_graph=mock.DEFAULT, _save=mock.DEFAULT):
        resume(may_drop_variables=True, may_drop_slots=True)
    assert f'{path}: variables that the model no longer has are dropped: {lost}.' in caplog.messages


@pytest.mark.parametrize('suffix', ['index', DATA])
def test_a_checkpoint_that_is_damaged_or_gone_is_named(tmp_path, suffix):
    path = save(tmp_path, 3)
    file = tmp_path / f'model.ckpt-3.{suffix}'
    DAMAGES['flipped'](file)
    with pytest.raises(RunError, match=f'^{path}: is corrupt: choose another checkpoint$'):
        load(path, w=[])
    file.unlink()
    with pytest.raises(CheckpointGone, match=f'^{path}: a file of it is missing: choose another checkpoint$'):
        load(path, w=[])


def test_a_directory_of_runs_names_one_of_them(tmp_path):
    for name in ('a', 'seed-1', 'seed-2'):
        (tmp_path / name).mkdir()
    for name in ('seed-1', 'seed-2'):
        (tmp_path / name / 'hparams.json').write_text('{}')
    with pytest.raises(UsageError, match=f'choose the directory of a run, such as {tmp_path}/seed-1$'):
        checkpoints.require_checkpoint(str(tmp_path))


def test_a_checkpoint_is_found_by_its_name_or_path(tmp_path):
    for find in (checkpoints.require_checkpoint, lambda path: checkpoints.find_checkpoint(path, 'latest')):
        with pytest.raises(UsageError, match=f'--output_dir={tmp_path}: contains no checkpoint'):
            find(str(tmp_path))
    keep(tmp_path, 0, accuracy=0.5)
    checkpoints.require_checkpoint(str(tmp_path))
    keep(tmp_path, 12, accuracy=0.4)
    first, last = (f'{tmp_path}/model.ckpt-{step}' for step in (0, 12))
    best = f'{tmp_path}/best/model.ckpt-0'
    for which, expected in {'latest': last, 'best': best, first: first, f'{last}.meta': last}.items():
        assert checkpoints.find_checkpoint(str(tmp_path), which) == expected
    with pytest.raises(UsageError, match=f'--checkpoint=7: no such checkpoint; available: best, latest, {first}, {last}$'):
        checkpoints.find_checkpoint(str(tmp_path), '7')
    shutil.rmtree(tmp_path / 'best')
    with pytest.raises(UsageError, match=f'available: latest, {first}, {last}$'):
        checkpoints.find_checkpoint(str(tmp_path), '7')
    with pytest.raises(UsageError, match=f'--checkpoint=best: there is none in {tmp_path}/no/best'):
        checkpoints.find_checkpoint(f'{tmp_path}/no', 'best')
    names = ('index', 'meta', 'data-00003-of-00012', 'txt')
    assert [without_suffix(f'a.index/b.{name}') for name in names] == ['a.index/b'] * 3 + ['a.index/b.txt']


def test_waiting_is_logged_each_minute_until_the_timeout(monkeypatch, caplog):
    def iterator(directory, timeout, timeout_fn):
        waits.append(timeout)
        timeout_fn()
        yield 'x/model.ckpt-3'
        timeout_fn()
        timeout_fn()

    waits, clock = [], itertools.count(0, 60)  # A minute passes between any two calls.
    monkeypatch.setattr(checkpoints, 'time', types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(tf.train, 'checkpoints_iterator', iterator)
    caplog.set_level('INFO', 'tensorflow')
    with pytest.raises(RunError, match='^x: no new checkpoint for 120 .* the last one was x/model.ckpt-3; .* step 5:'):
        list(checkpoints.new_checkpoints('x', 5, timeout=120))
    waiting = 'Still waiting for a checkpoint in x, for 60 seconds; {}, and training ends at step 5.'
    assert caplog.messages == [waiting.format(seen) for seen in ('there has been none', 'the last one was x/model.ckpt-3')]
    assert list(checkpoints.new_checkpoints('x', 5)) == ['x/model.ckpt-3']
    with pytest.raises(RunError, match='^x: no new checkpoint for 60 seconds, and there has been none; '):
        next(checkpoints.new_checkpoints('x', 5, timeout=7))
    assert waits == [60, 60, 7]


def test_the_slots_of_a_partitioned_variable_are_no_unknown_variables(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope('linear', partitioner=tf.fixed_size_partitioner(2)):
            weights = tf.convert_to_tensor(tf.get_variable('weights', [4, 1]))
        with tf.variable_scope('linear'):  # As canned linear Estimators do: the slots' ops begin with linear/linear.
            tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(weights))
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / 'model.ckpt'), global_step=1)
        assert unknown_variables(path, trains=True, with_slots=True) == []


@pytest.fixture
def as_another_user():
    """Takes root's rights, so that a file of mode 0 cannot be read."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    yield
    os.seteuid(user)


@pytest.mark.parametrize('name', ['model.ckpt-3.index', ''])
def test_files_that_this_user_may_not_read_are_an_error_instead_of_an_endless_wait(monkeypatch, as_another_user, name):
    def pass_a_minute(directory, timeout, timeout_fn):
        os.mkdir(directory)
        open(f'{directory}/model.ckpt-3.index', 'w').close()
        os.chmod(f'{directory}/{name}', 0)
        yield timeout_fn()

    monkeypatch.setattr(tf.train, 'checkpoints_iterator', pass_a_minute)
    with tempfile.TemporaryDirectory() as parent:  # pytest's is another user's.
        run, fix = f'{parent}/run', 'this user may not read it: use the user who trains, or train with umask 022'
        error = failed(checkpoints.new_checkpoints(run, 5).__next__)
        assert error == f'{run}{name and f"/{name}"}: Permission denied: {fix}'
        assert failed(checkpoints.new_checkpoints(run, 5).__next__) == error  # At once.
        os.chmod(run, 0o700)


def test_what_an_estimator_saves_between_its_iterations_is_not_awaited(monkeypatch):
    saved = ['x/model.ckpt-3', 'x/increment.ckpt-1', 'x/model.ckpt-5']
    monkeypatch.setattr(tf.train, 'checkpoints_iterator', lambda *args, **options: iter(saved))
    assert [*checkpoints.new_checkpoints('x', 5)] == saved[::2]

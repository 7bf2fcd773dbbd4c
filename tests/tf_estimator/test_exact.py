"""With --exact, a run that was killed or stopped ends like an undisturbed one, in every bit."""

import fcntl
import json
import os
import shutil
import subprocess
import sys

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator.exact import candidates, carried, checkpoints, datasets, inexact, keys, random_ops, repeats

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.python.framework.function import Defun
from tensorflow.python.ops import control_flow_util
from tensorflow.python.ops.random_ops import parameterized_truncated_normal

from tests.tf_estimator import exact_program
from tests.tf_estimator.programs import fresh_environment


@pytest.fixture(scope='module')
def run_program():
    """Runs exact_program.py: run_program(directory, run, ...) -> the exit codes of the runs, their warnings and errors."""
    command = [sys.executable, exact_program.__file__]
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}

    def call(directory, *runs):
        codes, texts = [], []
        for run in runs:
            log = directory / f'{run.split()[0]}.log'
            log.write_text('')
            print(f'{directory}/{run}', file=process.stdin, flush=True)
            codes.append(int(process.stdout.readline()))
            texts.append(log.read_text())
        lines = [line for line in ''.join(texts).splitlines() if 'global step' not in line]
        return codes, '\n'.join(line for line in lines if not line.startswith('INFO'))

    with subprocess.Popen(command, env=fresh_environment(), **pipes) as process:
        yield call


def values(directory):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(directory)))
    return {name: reader.get_tensor(name).tobytes() for name in reader.get_variable_to_shape_map()}


def test_a_killed_and_a_stopped_training_end_like_an_undisturbed_one(run_program, tmp_path):
    codes, err = run_program(tmp_path, 'whole 20 none', 'cut 20 SIGKILL', 'cut 20 SIGTERM', 'cut 20 none')
    assert codes == [0, -9, 143, 0], err
    assert 'SIGTERM: the training ends, and step 13 is saved.' in err
    named = 'This does not resume exactly: the hooks Fault, if they have a state or change variables. All else does.'
    assert err.count(named) == err.count('resume exactly') == 4 and 'begins anew' not in err
    assert values(tmp_path / 'cut') == values(tmp_path / 'whole')
    states = {name.partition('.')[0] for name in os.listdir(tmp_path / 'cut' / 'exact_state')}
    assert states == {'18', '20', 'lock'}  # Those of the checkpoints.


def test_a_training_with_a_saver_hook_of_its_own_ends_like_an_undisturbed_one(run_program, tmp_path):
    codes, err = run_program(tmp_path, 'whole 20 own-none', 'cut 20 own-SIGKILL', 'cut 20 own-none')
    assert codes == [0, -9, 0] and 'begins anew' not in err, err
    assert values(tmp_path / 'cut') == values(tmp_path / 'whole')
    states = {name.partition('.')[0] for name in os.listdir(tmp_path / 'cut' / 'exact_state')}
    assert states == {f'{step}' for step in checkpoints.steps(str(tmp_path / 'cut'))} | {'lock'}


def test_the_newest_whole_checkpoint_has_the_name_of_the_corrupt_one_or_the_usual_one(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable('x', [], initializer=tf.zeros_initializer())
        session.run(variable.initializer)
        saver = tf.train.Saver()
        for name, step in (('model.ckpt', 1), ('own.ckpt', 2), ('weights', 3), ('own.ckpt', 4)):
            saver.save(session, str(tmp_path / name), step)
    for step, left in ((4, 'own.ckpt-2'), (2, 'model.ckpt-1')):
        (tmp_path / f'own.ckpt-{step}.data-00000-of-00001').write_bytes(b'')
        checkpoints.use_newest_whole(str(tmp_path))
        assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / left)


def test_a_training_goes_on_from_a_checkpoint_that_the_program_names_itself(run_program, tmp_path):
    codes, err = run_program(tmp_path, 'whole 10 renamed')
    assert codes == [0] and 'begins anew' not in err, err
    states = [json.loads(path.read_text()) for path in sorted((tmp_path / 'whole' / 'exact_state').glob('*.json'))]
    assert {state['runs'] for state in states} >= {10, 15} and len({state['seed'] for state in states}) == 1
    index = (tmp_path / 'whole' / 'model.ckpt-10.index').stat(), (tmp_path / 'whole' / 'increment.ckpt-1.index').stat()
    assert index[0].st_mtime_ns < index[1].st_mtime_ns  # Not rewritten.


def test_candidates_train_again_that_ended_after_the_checkpoint(tmp_path):
    for name, time in {'model.ckpt-5.index': 2, 'train_manager/t0/old.json': 1, 'train_manager/t1/new.json': 3}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, ns=(time, time))  # In the same second.
    tf.train.update_checkpoint_state(str(tmp_path), str(tmp_path / 'model.ckpt-5'))
    candidates.train_again(str(tmp_path))
    assert [path.name for path in tmp_path.rglob('*.json')] == ['old.json']


def test_what_is_corrupt_locked_not_finite_or_without_state_is_said_and_costs_no_checkpoint(run_program, tmp_path):
    assert run_program(tmp_path, 'a 10 none')[0] == [0]
    shutil.copytree(tmp_path / 'a', tmp_path / 'g')
    last = tmp_path / 'a' / 'model.ckpt-10.data-00000-of-00001'
    last.write_bytes(last.read_bytes()[:-9])
    older = (tmp_path / 'a' / 'model.ckpt-5.index').stat()
    (tmp_path / 'g' / 'checkpoint').write_text('garbage')
    for path in (tmp_path / 'g' / 'exact_state').iterdir():
        path.unlink()
    codes, err = run_program(tmp_path, 'a 30 nan', 'g 15 none')
    assert codes == [1, 0], err
    assert 'model.ckpt-10 is corrupt: the training resumes from ' in err
    assert 'Training ends at step 15: not finite: ' in err and 'step 10 stays the last one saved' in err
    assert tf.train.latest_checkpoint(str(tmp_path / 'a')).endswith('-10') and checkpoints.is_whole(
        str(tmp_path / 'a/model.ckpt-10')
    )
    assert (tmp_path / 'a' / 'model.ckpt-5.index').stat().st_mtime_ns == older.st_mtime_ns  # Not rewritten.
    assert 'checkpoint names no checkpoint: the training resumes from ' in err
    assert f'{tmp_path}/g has no state of the input at step 10: the input begins anew.' in err
    assert checkpoints.steps(str(tmp_path / 'g')) == [10, 15]

    with open(tmp_path / 'a' / 'exact_state' / 'lock', 'r+') as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write('process 7 on here')
        file.flush()
        codes, err = run_program(tmp_path, 'a 30 none', 'g 20 generator')
    assert codes == [1, 0]
    assert f'{tmp_path}/a: process 7 on here is training in it.' in err
    assert 'This does not resume exactly: Dataset.from_generator, whose state cannot be saved: the input begins anew; ' in err


@pytest.fixture(scope='module')
def mended():
    for module in (random_ops, datasets, repeats):  # These leave graphs alone that are not for training.
        module.mend()


def draw(function, runs=20):
    """Returns what a function draws in the first runs of a session."""
    with tf.Graph().as_default() as graph:
        keys.begin(graph)
        graph.seed = 7
        drawn = function()
        with tf.Session() as session:
            return np.array([session.run(drawn, {'exact/key:0': number << 24}) for number in range(1, runs + 1)])


@pytest.mark.parametrize('is_v2', [False, True])
def test_local_variables_are_named_that_a_step_changes_and_weights_depend_on(monkeypatch, is_v2):
    monkeypatch.setattr(control_flow_util, 'ENABLE_CONTROL_FLOW_V2', is_v2)

    def local(name):
        collections = [tf.GraphKeys.LOCAL_VARIABLES]
        return tf.get_variable(name, [2], initializer=tf.zeros_initializer(), trainable=False, collections=collections)

    with tf.Graph().as_default() as graph, tf.variable_scope('', use_resource=is_v2):
        weights, step = tf.get_variable('weights', [2]), tf.train.get_or_create_global_step()
        net = tf.tanh(weights + local('state') + local('constant'))
        changes = [tf.metrics.mean(net)[1], local('last').assign(net)]
        with tf.variable_scope('', reuse=True, use_resource=is_v2):
            changes.append(local('state').assign(net))
        sums, read, nested = local('sums'), local('read'), local('nested')
        with tf.control_dependencies([*changes, sums.assign_add(tf.gradients(net, [weights])[0])]):
            tf.cond(step % 2 < 1, lambda: weights.assign_sub(sums.read_value() if is_v2 else sums + 0.0), lambda: weights + 0.0)

        def change(i, sums):
            return i + 1, tf.cond(i < 1, lambda: sums + nested.assign_add([1.0, 1.0]), lambda: sums + read)

        weights.assign_add(tf.while_loop(lambda i, sums: i < 2, change, (0, tf.zeros([2])))[1])
        assert carried.reasons(graph) == ['the local variables nested, state, sums, which are in no checkpoint and begin anew']


def test_branches_that_are_chosen_by_number_and_those_of_imported_graphs_are_looked_into(monkeypatch):
    monkeypatch.setattr(control_flow_util, 'ENABLE_CONTROL_FLOW_V2', True)

    def build():
        local = [
            tf.get_variable(
                name, [], initializer=tf.zeros_initializer(), collections=[tf.GraphKeys.LOCAL_VARIABLES], use_resource=True
            )
            for name in ('read', 'changed')
        ]
        step, weight = tf.train.get_or_create_global_step(), tf.get_variable('weight', [], use_resource=True)
        branches = [lambda: local[0].read_value(), lambda: local[1].assign_add(1.0)]
        weight.assign_add(tf.switch_case(tf.cast(step, tf.int32), branches))

    with tf.Graph().as_default() as graph:
        build()
        assert carried.reasons(graph) == ['the local variables changed, which are in no checkpoint and begin anew']
        meta_graph = tf.train.export_meta_graph()
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(meta_graph)
        assert 'the local variables changed, read, which' in carried.reasons(graph)[0]  # Its functions cannot be read.


def test_random_ops_have_their_distributions(mended):
    uniform = draw(lambda: tf.random.uniform([2000], -2.0, 3.0))
    assert -2 <= uniform.min() < -1.99 and 2.99 < uniform.max() < 3
    np.testing.assert_allclose([uniform.mean(), uniform.var()], [0.5, 25 / 12], atol=0.05)
    counts = np.bincount(draw(lambda: tf.random.uniform([2000], 3, 8, tf.int32)).ravel())
    np.testing.assert_allclose(counts, [0, 0, 0, 8000, 8000, 8000, 8000, 8000], rtol=0.05)
    normal = draw(lambda: tf.random.normal([2000], 1.0, 2.0))
    np.testing.assert_allclose([normal.mean(), normal.std()], [1, 2], rtol=0.03)
    truncated = draw(lambda: tf.random.truncated_normal([2000]))
    assert 1.99 < abs(truncated).max() <= 2
    np.testing.assert_allclose(truncated.std(), 0.8796, rtol=0.03)  # sqrt(1 - 4 * pdf(2) / (2 * cdf(2) - 1)).
    for drawn in (draw(lambda: tf.random.gamma([2000], [2.0, 5.0])), draw(lambda: tf.random.poisson([2.0, 5.0], [2000]))):
        assert drawn.shape == (20, 2000, 2)
        np.testing.assert_allclose([drawn.mean((0, 1)), drawn.var((0, 1))], [[2, 5], [2, 5]], rtol=0.06)
    chosen = draw(lambda: tf.random.categorical(tf.log([[0.1, 0.2, 0.7]]), 2000))
    np.testing.assert_allclose(np.bincount(chosen.ravel()) / chosen.size, [0.1, 0.2, 0.7], rtol=0.06)
    shuffled = draw(lambda: tf.stack([tf.random.shuffle(tf.range(4)) for _ in range(500)])).reshape(-1, 4)
    assert (np.sort(shuffled) == np.arange(4)).all()
    np.testing.assert_allclose([np.bincount(column) for column in shuffled.T], np.full([4, 4], 2500), rtol=0.1)
    dropped = draw(lambda: tf.nn.dropout(tf.ones([2000]), rate=0.5))
    assert {*np.unique(dropped)} == {0, 2} and abs(dropped.mean() - 1) < 0.03


def test_truncated_normals_of_rows_have_their_distributions(mended):
    drawn = draw(lambda: parameterized_truncated_normal([2, 2000], [0.0, 5.0], [1.0, 2.0], [0.0, 3.0], [9.0, 7.0]))
    half_normal = np.sqrt(2 / np.pi)
    np.testing.assert_allclose(drawn.mean((0, 2)), [half_normal, 5], rtol=0.02)
    np.testing.assert_allclose(drawn.std((0, 2)), [np.sqrt(1 - half_normal**2), 2 * 0.5396], rtol=0.03)  # Cut at 1 deviation.


def sampler(name, *arguments, **options):
    """Returns a function that samples with true classes 0 and 3: how often each of 10 was, and was expected to be, sampled."""

    def sample():
        function = getattr(tf.random, f'{name}_candidate_sampler')
        classes, expected, of_classes = function([[0, 3]], 2, 4, *arguments, range_max=10, seed=5, **options)
        return tf.concat([tf.cast(classes, tf.float32), expected[0], of_classes], 0)

    return sample


UNIGRAMS = dict(unigrams=[float(i) for i in range(2, 12)])


@pytest.mark.parametrize(
    'name, chances, options',
    [
        ('uniform', np.full(10, 0.1), {}),
        ('log_uniform', np.diff(np.log(np.arange(1, 12))) / np.log(11), {}),
        ('fixed_unigram', np.arange(2, 12) / np.arange(2, 12).sum(), UNIGRAMS),
        ('fixed_unigram', np.sqrt(np.arange(2, 12)) / np.sqrt(np.arange(2, 12)).sum(), {**UNIGRAMS, 'distortion': 0.5}),
    ],
)
def test_candidate_samplers_draw_by_their_chances_and_expect_what_they_draw(mended, name, chances, options):
    drawn = draw(sampler(name, False, **options), 3000)
    np.testing.assert_allclose(np.bincount(drawn[:, :4].astype(int).ravel()) / drawn[:, :4].size, chances, atol=0.015)
    np.testing.assert_allclose(drawn[:, 4:6], np.tile(4 * chances[[0, 3]], [3000, 1]), rtol=1e-5)
    drawn = draw(sampler(name, True, **options), 1000)
    assert all(len({*row}) == 4 for row in drawn[:, :4])
    for row in drawn[:20]:
        classes, expected = [0, 3, *row[:4].astype(int)], row[4:]
        # The number of tries follows from the first one; it is 4 if none was in vain.
        tries = np.log1p(-expected[0]) / np.log1p(-chances[0]) if not np.isclose(expected[0], 4 * chances[0]) else 4
        assert tries == pytest.approx(round(tries), abs=0.01) and tries >= 4
        of_tries = 4 * chances[classes] if tries == 4 else 1 - (1 - chances[classes]) ** round(tries)
        np.testing.assert_allclose(expected, of_tries, rtol=1e-3)
    with tf.Graph().as_default() as graph:
        plain = sampler(name, True, **options)()  # Of TensorFlow.
        assert not hasattr(graph, '_exact_key')
        with tf.Session() as session:
            own = np.array([session.run(plain) for _ in range(1000)])
    np.testing.assert_allclose(drawn[:, 4:6].mean(0), own[:, 4:6].mean(0), rtol=0.08)
    np.testing.assert_allclose(
        np.bincount(drawn[:, :4].astype(int).ravel()), np.bincount(own[:, :4].astype(int).ravel()), rtol=0.2
    )


def test_more_different_classes_than_there_are_cannot_be_sampled(mended):
    with pytest.raises(ValueError, match='num_sampled=4 different classes are more than range_max=3'):
        draw(lambda: tf.random.uniform_candidate_sampler([[0]], 1, 4, True, 3), 1)


def test_what_stays_inexact_is_named(mended):
    x = np.ones([1, 4, 4, 1], np.float32)
    for make, expected in (
        (
            lambda: tf.random.learned_unigram_candidate_sampler([[0]], 1, 3, True, 10),
            'the random ops LearnedUnigramCandidateSampler',
        ),
        (lambda: tf.nn.fractional_max_pool(x, [1, 1.4, 1.4, 1]), 'the random ops FractionalMaxPool'),
        (lambda: Defun(func_name='noise')(lambda: tf.random.normal([2]))(), 'the random ops RandomStandardNormal'),
        (lambda: tf2.data.Dataset.from_tensors(x).map(lambda _: tf.random.normal([2])), None),
        (
            lambda: (tf.queue.FIFOQueue(1, tf.float32), tf.ConditionalAccumulator(tf.float32)),
            'queues, staging areas and accumulators, which begin anew (FIFOQueueV2, ResourceConditionalAccumulator)',
        ),
        (lambda: tf.nn.fractional_avg_pool(x, [1, 1.4, 1.4, 1], seed=1, deterministic=True), None),
        (lambda: tf.random.all_candidate_sampler([[0]], 1, 3, True), None),
        (
            lambda: tf.nn.nce_loss(
                np.ones([9, 4], np.float32), np.ones(9, np.float32), tf.constant([[0]]), x[0, :1, :, 0], 3, 9
            ),
            None,
        ),
    ):
        with tf.Graph().as_default() as graph:
            keys.begin(graph)
            make()
            assert inexact.reasons(graph) == ([expected] if expected else [])


def test_hooks_of_the_program_and_early_stopping_are_named(tmp_path):
    class Rate(tf.train.SessionRunHook):
        pass

    stop = tf.estimator.experimental.make_early_stopping_hook(
        tf.estimator.Estimator(exact_program.model_fn, str(tmp_path)), bool
    )
    hooks = [tf.train.StepCounterHook(), Rate(), Rate(), exact_program.Fault('none')]
    named = 'the hooks Fault, Rate, if they have a state or change variables'
    assert inexact.reasons_of_hooks([]) == inexact.reasons_of_hooks(hooks[:1]) == []
    assert inexact.reasons_of_hooks(hooks) == [named]
    timer = 'early stopping, which asks at other steps, as its timer begins anew'
    assert inexact.reasons_of_hooks([*hooks, stop]) == [named, timer]


def in_loop():
    start, shapes = [0, tf.zeros([0, 900])], [tf.TensorShape([]), tf.TensorShape([None, 900])]
    return tf.while_loop(
        lambda i, _: i < 3, lambda i, x: (i + 1, tf.concat([x, tf.random.normal([1, 900])], 0)), start, shapes
    )[1]


def in_functions():
    function = tf2.function(lambda: tf.random.normal([900]))
    branch = tf.cond(tf.constant(True), lambda: tf.random.normal([900]), lambda: tf.zeros([900]))
    nested = tf.map_fn(lambda _: in_loop(), tf.zeros([2]))
    return tf.concat([[function(), function(), branch, tf.random.normal([900])], tf.reshape(nested, [-1, 900])], 0)


@pytest.mark.parametrize('is_v2', [False, True])
@pytest.mark.parametrize('function', [in_loop, in_functions])
def test_ops_iterations_calls_and_runs_draw_independent_numbers(mended, function, is_v2):
    (tf.enable_control_flow_v2 if is_v2 else tf.disable_control_flow_v2)()
    try:
        drawn = draw(function, 3).reshape(-1, 900)
    finally:
        tf.enable_control_flow_v2()
    assert abs(np.corrcoef(drawn) - np.eye(len(drawn))).max() < 0.2  # Six standard deviations.


def test_ops_of_the_same_seed_draw_the_same_numbers(mended):
    first, second = draw(lambda: tf.stack([tf.random.normal([9], seed=3), tf.random.normal([9], seed=3)]), 1)[0]
    assert (first == second).all()


def test_elements_of_all_epochs_draw_independent_numbers(mended):
    def read(i):
        return tf2.data.Dataset.range(2).map(lambda x: tf.random.normal([900]), num_parallel_calls=2).repeat(2)

    with tf.Graph().as_default() as graph:
        keys.begin(graph)
        graph.seed = 7
        data = tf2.data.Dataset.range(2).interleave(read, 2).map(lambda x: (x, tf.random.normal([900]))).repeat(2)
        iterator = tf.data.make_initializable_iterator(data)
        element = iterator.get_next()
        with tf.Session() as session:
            session.run(iterator.initializer)
            drawn = np.array([session.run(element) for _ in range(16)]).reshape(-1, 900)
    assert abs(np.corrcoef(drawn) - np.eye(len(drawn))).max() < 0.2

"""Python programs train, evaluate, predict and export as the command line does, and stay as they are otherwise."""

import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
import types

import numpy as np
from PIL import Image
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.runs import api
from models import alexnet
from tests.shared import SMALL, read_weights

pytestmark = pytest.mark.slow

X = np.linspace(-1, 1, 64, dtype=np.float32)
SLOPE = {'batch_size': 16, 'optimizer': 'sgd', 'learning_rate': 0.5}


class Line:
    """A model that is an object."""

    def get_params(self):
        return {'bias': True}

    def model(self, features, labels, mode, params):
        y = features['x'] * tf.get_variable('slope', [], initializer=tf.zeros_initializer())
        if params.bias:
            y += tf.get_variable('bias', [], initializer=tf.ones_initializer())
        return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def line_data(slope=3.0, at_step=None):
    """A dataset that is a namespace; at_step(step number) is called for each batch of the training."""

    def parse_batch(mode, params, record):
        x = record
        if at_step and mode == tf.estimator.ModeKeys.TRAIN:
            x = tf.ensure_shape(tf.py_func(lambda x: (at_step(), x)[1], [x], tf.float32), x.shape)
        return {'x': x}, {'y': slope * x}

    return types.SimpleNamespace(
        __name__='line_data',
        get_params=dict,
        prepare=lambda data_dir, params: None,
        read=lambda split, data_dir, params: tf.data.Dataset.from_tensor_slices(X if split == 'train' else -X),
        parse_batch=parse_batch,
    )


def train(output_dir, steps=100, dataset=None, **options):
    return api.train(Line(), dataset or line_data(), str(output_dir), hparams=SLOPE, train_steps=steps, **options)


def test_objects_of_a_program_train_and_are_asked(tmp_path):
    seen = []
    run = train(tmp_path / 'x', on_metrics=seen.append, save_summary_steps=50)
    weights = read_weights(tmp_path / 'x')
    np.testing.assert_allclose([weights['slope'], weights['bias']], [3, 0], atol=1e-3)
    assert [(metrics['global_step'], *metrics.keys() - {'global_step'}) for metrics in seen] == [
        (step, name) for start in range(0, 100, 4) for step, name in steps_of(start)
    ]
    losses = [metrics['train']['loss'] for metrics in seen if 'train' in metrics]
    assert losses[0] > 0.5 > 0.01 > losses[1] and seen[-1] == run.metrics
    assert run.metrics['eval']['loss'] < 1e-5 and run.output_dir == str(tmp_path / 'x')
    np.testing.assert_allclose(run.predict([2.0, -1.0])['y'], [6, -3], atol=1e-2)
    assert run.predict(np.float32(2))['y'] == pytest.approx(6, abs=1e-2)
    assert run.evaluate('test')['loss'] < 1e-5 and run.evaluate('eval', eval_steps=1)['global_step'] == 100
    assert [line['y'] for line in run.predict_split('eval')] == pytest.approx((-3 * X).tolist(), abs=1e-2)


def steps_of(start):
    """Yields what is reported from a step to the end of its epoch of four: each 50 steps, and the evaluation."""
    yield from ((step, 'train') for step in range(start + 1, start + 5) if step % 50 == 1)
    yield start + 4, 'eval'


def test_a_training_goes_on_and_its_predictions_follow(tmp_path):
    run = train(tmp_path, steps=4)
    before = run.predict(1.0)['y']
    train(tmp_path, steps=100)
    assert abs(run.predict(1.0)['y'] - 3) < 0.01 < abs(before - 3)


def test_a_training_whose_directory_was_deleted_writes_new_event_files(tmp_path):
    for _ in range(2):
        train(tmp_path / 'x', steps=4)
        events = [event for path in (tmp_path / 'x').glob('events*') for event in tf.train.summary_iterator(str(path))]
        assert 'learning_rate' in {value.tag for event in events for value in event.summary.value}
        shutil.rmtree(tmp_path / 'x')


def test_a_damaged_checkpoint_is_not_predicted_with(tmp_path):
    run = train(tmp_path, steps=8, save_checkpoints_steps=4)
    expected = 1.0 * read_weights(tmp_path / 'model.ckpt-4')['slope'] + read_weights(tmp_path / 'model.ckpt-4')['bias']
    (tmp_path / 'model.ckpt-8.index').write_bytes(b'')
    assert run.predict(1.0)['y'] == expected
    (tmp_path / 'checkpoint').write_bytes(b'')
    assert run.predict(1.0)['y'] == expected


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='needs fork')
def test_a_signal_ends_a_process_that_a_dataset_has_forked(tmp_path):
    codes = []

    def fork(metrics):
        if not codes:
            process = multiprocessing.get_context('fork').Process(target=time.sleep, args=[60])
            process.start()
            time.sleep(0.5)  # A signal that comes before Python has begun there is lost.
            process.terminate()
            process.join(30)
            codes.append(process.exitcode)

    train(tmp_path, steps=8, on_metrics=fork)
    assert codes == [-signal.SIGTERM]


def test_python_and_the_command_line_are_one(run, tmp_path, data_dir):
    flags = ('--train_steps=20', '--save_checkpoints_steps=10', '--precision=bfloat16')
    code, expected, log = run(*SMALL, *flags, output_dir=tmp_path / 'command')
    assert code == 0, log
    hparams = {'filters': [4, 8], 'dense_units': np.int64(16), 'batch_size': 32, 'drop_rate': np.float32(0)}
    found = api.train(
        alexnet,
        'mnist',
        str(tmp_path / 'python'),
        hparams={**hparams, 'augment_shift': 0, 'warmup_steps': 0},
        data_dir=data_dir,
        train_steps=20,
        save_checkpoints_steps=10,
        precision='bfloat16',
        eval_steps=1,
    )
    assert found.metrics == expected
    weights, others = read_weights(tmp_path / 'command'), read_weights(tmp_path / 'python')
    assert weights.keys() == others.keys() and all((weights[name] == others[name]).all() for name in weights)
    assert (tmp_path / 'command' / 'hparams.json').read_text() == (tmp_path / 'python' / 'hparams.json').read_text()
    code, result, log = run('--schedule=evaluate', '--eval_steps=1', output_dir=tmp_path / 'python')
    assert (code, {'global_step': 20, **result['eval']}) == (0, found.evaluate(eval_steps=1)), log

    images = np.random.RandomState(0).randint(0, 256, [3, 28, 28, 1], np.uint8)
    loaded = api.load(str(tmp_path / 'python'))
    exported = tf2.saved_model.load(loaded.export()).signatures['serving_default'](image=tf2.constant(images))
    answers = loaded.predict(images)
    assert answers.keys() == exported.keys()
    np.testing.assert_allclose(answers['probabilities'], exported['probabilities'], rtol=1e-4)
    single = loaded.predictor('best').predict({'image': images[1]})
    assert single['probabilities'].shape == (10,) and single['class'] == answers['class'][1]
    Image.fromarray(images[2, ..., 0]).save(tmp_path / 'digit.png')
    (line,) = loaded.predict_files(str(tmp_path / 'digit.png'))
    assert line['class'] == answers['class'][2] and line['input'] == str(tmp_path / 'digit.png')


def test_a_run_leaves_the_program_as_it_was(tmp_path):
    def state():
        logger = tf.get_logger()
        return (
            random.getstate(),
            np.random.get_state()[1].tolist(),
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
            (logger.level, list(logger.filters), list(logger.handlers)),
            tf2.executing_eagerly(),
            len(tf.get_default_graph().get_operations()),
        )

    random.seed(5)
    np.random.seed(5)
    before = state()
    train(tmp_path, steps=4).evaluate()
    assert state() == before


def test_trainings_in_threads_are_those_of_the_main_thread(tmp_path):
    train(tmp_path / 'expected')
    threads = [threading.Thread(target=train, args=[tmp_path / str(i)]) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = read_weights(tmp_path / 'expected')
    for i in range(2):
        found = read_weights(tmp_path / str(i))
        assert expected.keys() == found.keys() and all((expected[name] == found[name]).all() for name in expected)


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_training_saves_a_checkpoint_and_the_training_resumes(tmp_path, number):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # It is ignored where the tests run in the background.
    previous = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    train(tmp_path / 'expected', save_checkpoints_steps=50)

    def stop(metrics):
        if metrics['global_step'] == 21:
            os.kill(os.getpid(), number)

    stopped = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: SystemExit}[number]
    with pytest.raises(stopped):
        train(tmp_path / 'found', save_checkpoints_steps=50, save_summary_steps=10, on_metrics=stop)
    assert previous == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    step = read_weights(tmp_path / 'found')['global_step']
    assert 20 <= step < 50
    run = train(tmp_path / 'found', save_checkpoints_steps=50)
    assert run.metrics['global_step'] == 100
    expected, found = read_weights(tmp_path / 'expected'), read_weights(tmp_path / 'found')
    assert all((expected[name] == found[name]).all() for name in expected)


def test_a_program_keeps_its_own_signal_handlers(tmp_path):
    received = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        train(tmp_path, steps=8, on_metrics=lambda metrics: os.kill(os.getpid(), signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert received and int(read_weights(tmp_path)['global_step']) == 8


def test_an_exception_of_the_program_ends_the_training_and_is_not_changed(tmp_path):
    class Enough(Exception):
        pass

    # TensorFlow takes the latter ones for the end of the data, and for a lost session.
    for error in (Enough, FileNotFoundError(2, 'mine', '/nowhere'), StopIteration, tf.errors.AbortedError(None, None, '')):

        def end(metrics, error=error):
            raise error

        with pytest.raises(error if isinstance(error, type) else type(error)):
            train(tmp_path, on_metrics=end)
    assert train(tmp_path).metrics['global_step'] == 100


def test_an_exception_in_a_function_of_a_dataset_has_its_own_type(tmp_path):
    dataset = line_data()
    dataset.parse_batch = lambda mode, params, record: {}['nothing']
    with pytest.raises(KeyError, match='nothing'):
        train(tmp_path, dataset=dataset)


def test_a_seed_that_the_program_has_given_keras_does_not_change_a_run(tmp_path, data_dir):
    hparams = {'filters': [4], 'dense_units': 4, 'batch_size': 8}

    def weights(name):
        api.train('alexnet', 'mnist', tmp_path / name, hparams=hparams, train_steps=1, schedule='train', data_dir=data_dir)
        return read_weights(tmp_path / name)

    def draw():
        return tf2.keras.initializers.GlorotUniform()([2, 2]).numpy().tolist()

    expected = weights('before')
    tf2.keras.utils.set_random_seed(7)
    first, second = draw(), draw()
    tf2.keras.utils.set_random_seed(7)
    assert draw() == first
    found = weights('after')
    assert all((expected[name] == found[name]).all() for name in expected)
    assert draw() == second


def test_data_that_ends_too_early_is_no_result(tmp_path):
    """TensorFlow takes StopIteration for the end of the data."""

    def dataset(mode, calls):
        numbers = itertools.count(1)  # Threads of tf.data call at once.

        def next_one(x):
            if next(numbers) >= calls:
                raise StopIteration
            return x

        found = line_data()
        parse_batch = found.parse_batch

        def parse(of_mode, params, record):
            if of_mode == mode:
                record = tf.ensure_shape(tf.numpy_function(next_one, [record], tf.float32), record.shape)
            return parse_batch(of_mode, params, record)

        found.parse_batch = parse
        found.get_params = lambda: {'eval_batch_size': 16}
        return found

    with pytest.raises(api.RunError, match='the split eval ended after [0-2] of 4 batches: a Python function'):
        train(tmp_path / 'x', steps=4, dataset=dataset(tf.estimator.ModeKeys.EVAL, 3))
    with pytest.raises(api.RunError, match=r'the training data ended at step \d+, although it is repeated: a Python function'):
        train(tmp_path / 'y', steps=100, dataset=dataset(tf.estimator.ModeKeys.TRAIN, 20))


def test_a_run_stays_where_it_is_if_the_program_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'elsewhere').mkdir()
    run = train('here', steps=4, on_metrics=lambda metrics: os.chdir('elsewhere') if metrics['global_step'] == 1 else None)
    assert run.evaluate()['global_step'] == 4 == run.metrics['global_step'] and run.output_dir == str(tmp_path / 'here')


def test_a_model_that_was_trained_anew_in_its_directory_is_predicted_with(tmp_path):
    run = train(tmp_path / 'x', steps=4)
    first = run.predict(1.0)['y']
    shutil.rmtree(tmp_path / 'x')
    assert run.predict(1.0)['y'] == first  # It is in memory.
    train(tmp_path / 'x', steps=4, dataset=line_data(slope=-3.0))
    assert run.predict(tf2.constant(1.0))['y'] < first


@pytest.mark.parametrize(
    'options, message',
    [
        ({'train_stepps': 5}, 'there is no option train_stepps, did you mean train_steps?'),
        ({'steps_per_loop': 0}, 'flag --steps_per_loop=0: 0 is not an integer in the range [1, 2147483647]'),
        ({'xla': 'maybe'}, "flag --xla=maybe: ('Non-boolean argument to boolean flag', 'maybe')"),
        ({'local_cluster': 'worker:2'}, 'local_cluster is an option of trainer.py only'),
        ({'schedule': 'predict'}, 'schedule=predict: train() has train_and_evaluate and train'),
        ({'hparams': {'rate': 1.0}}, '--hparams: unknown hyper-parameter rate'),
        ({'hparams': {'batch_size': '8'}}, '--hparams: batch_size=8 must be an integer'),
        ({'hparams': {'seed': 8}}, '--hparams: seed has its own flag, --seed'),
        (
            {'model': types.SimpleNamespace()},
            '--model=SimpleNamespace: SimpleNamespace must define get_params, model; see README.md',
        ),
        ({'model': 'none'}, '--model=none: no module models.none; '),
        ({'eval_splits': ['eval', '']}, '--eval_splits=eval,: a name is empty'),
        ({'hparams': None}, 'hparams must be a dict of names and values, or text, not None'),
        ({'hparams': [('a', 1)]}, 'hparams must be a dict of names and values, or text, not a list of 1'),
        ({'on_metrics': 3}, 'on_metrics must be a function of a dict, not an int'),
        ({'output_dir': None}, 'output_dir is missing: objects that are not modules have no directory of their own'),
        ({'eval_splits': [5]}, 'eval_splits=[5] must be a list of strings'),
    ],
)
def test_a_mistake_is_one_line(tmp_path, options, message):
    options = {'model': Line(), 'dataset': line_data(), **options}
    with pytest.raises(api.UsageError) as raised:
        api.train(**{'output_dir': str(tmp_path / 'x'), **options})
    assert str(raised.value).startswith(message) and not (tmp_path / 'x').exists()


def test_arguments_may_be_paths_and_numbers_of_numpy(tmp_path):
    run = api.train(Line(), line_data(), tmp_path / 'x', hparams=SLOPE, train_steps=np.int64(4), data_dir=tmp_path)
    assert api.load(tmp_path / 'x', Line(), line_data()).evaluate(hparams={'eval_batch_size': 8}) == run.evaluate('eval')
    for name in ('schedule', 'eval_splits', 'model'):
        with pytest.raises(api.UsageError, match=f'{name} is not an option here'):
            run.evaluate('eval', **{name: 'train'})
    changed = train(tmp_path / 'x', steps=8, override_hparams={'learning_rate': 0.25, 'augment_flip': False})
    assert changed.metrics['global_step'] == 8
    assert json.loads((tmp_path / 'x' / 'hparams.json').read_text())['learning_rate'] == 0.25


def test_a_run_that_is_not_there_and_another_model_are_refused(tmp_path):
    with pytest.raises(api.UsageError, match='no checkpoint'):
        api.load(str(tmp_path / 'x'))
    train(tmp_path, steps=4)
    with pytest.raises(api.UsageError, match='--model=Line: no module models.Line'):
        api.load(str(tmp_path)).evaluate()
    assert api.load(str(tmp_path), Line(), line_data()).evaluate()['global_step'] == 4
    with pytest.raises(api.UsageError, match='learning_rate was 0.5, now it is 0.1'):
        api.train(Line(), line_data(), str(tmp_path), hparams={**SLOPE, 'learning_rate': 0.1}, train_steps=8)
    with pytest.raises(api.UsageError, match='unknown split'):
        api.train('polynomial', 'polynomial', str(tmp_path / 'y'), eval_splits=['none'], train_steps=1, data_dir=str(tmp_path))


def test_a_program_in_a_cluster_is_sent_to_the_trainer(tmp_path, monkeypatch):
    cluster = {'cluster': {'worker': ['127.0.0.1:1', '127.0.0.1:2']}, 'task': {'type': 'worker', 'index': 0}}
    monkeypatch.setenv('TF_CONFIG', json.dumps(cluster))
    with pytest.raises(api.UsageError, match='TF_CONFIG or Slurm names a cluster, and a Python program runs on one machine'):
        train(tmp_path)

"""The Python API trains, evaluates, predicts and exports like the command line, without side effects on the program."""

import concurrent.futures
import json
import math
import os
import pathlib
import random
import shutil
import signal
import sys
import types

import numpy as np
from PIL import Image
import pyarrow
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.records import records
from estimator_trainer.common.storage.metrics import add_metrics
from estimator_trainer.models import alexnet
from tests.cluster.tasks import tf_config
from tests.shared import SMALL, assert_equal, read_weights, refused

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


def line_data(slope=3.0):
    """A dataset that is a namespace."""
    return types.SimpleNamespace(
        __name__='line_data',
        get_params=dict,
        prepare=lambda data_dir, params: None,
        read=lambda split, data_dir, params: tf.data.Dataset.from_tensor_slices(X if split == 'train' else -X),
        parse_batch=lambda mode, params, record: ({'x': record}, {'y': slope * record}),
    )


def train(output_dir, steps=100, model=None, dataset=None, **options):
    model, dataset = model or Line(), dataset or line_data()
    return api.train(model, dataset, str(output_dir), hparams=SLOPE, train_steps=steps, **options)


def test_objects_of_a_program_train_and_predict(tmp_path):
    seen = []
    run = train(tmp_path / 'x', on_metrics=seen.append, save_summary_steps=50)
    weights = read_weights(tmp_path / 'x')
    np.testing.assert_allclose([weights['slope'], weights['bias']], [3, 0], atol=1e-3)
    # Evaluation follows each epoch of four steps; every 50th step is reported, too.
    expected = [(step, 'eval') for step in range(4, 101, 4)] + [(1, 'train'), (51, 'train')]
    assert [(metrics['global_step'], *metrics.keys() - {'global_step'}) for metrics in seen] == sorted(expected)
    losses = [metrics['train']['loss'] for metrics in seen if 'train' in metrics]
    assert losses[0] > 0.5 > 0.01 > losses[1] and seen[-1] == run.metrics
    training, evaluations = run.history
    assert (training['global_step'].tolist(), training['learning_rate'].tolist()) == ([1, 51], [0.5, 0.5])
    assert training['loss'][0] == pytest.approx(losses[0], rel=1e-5) and losses[1] < training['loss'][1] < losses[0]
    assert evaluations['eval']['loss'].tolist() == [metrics['eval']['loss'] for metrics in seen if 'eval' in metrics]
    assert run.metrics['eval']['loss'] < 1e-5 and run.output_dir == str(tmp_path / 'x')
    assert repr(run) == f'Run({run.output_dir!r})'
    np.testing.assert_allclose(run.predict([2.0, -1.0])['y'], [6, -3], atol=1e-2)
    assert run.predict(np.float32(2))['y'] == pytest.approx(6, abs=1e-2)
    with concurrent.futures.ThreadPoolExecutor() as executor:
        assert [metrics['loss'] < 1e-5 for metrics in executor.map(run.evaluate, ['test', 'eval'])] == [True, True]
    assert run.evaluate('eval', eval_steps=1)['global_step'] == 100
    assert [line['y'] for line in run.predict_split('eval')] == pytest.approx((-3 * X).tolist(), abs=1e-2)


def test_metrics_may_be_infinite_or_nan(tmp_path):
    add_metrics(str(tmp_path), {'global_step': 1, 'eval': {'loss': math.inf, 'auc': math.nan, 'both': [1, 2]}})
    found = api.Run(str(tmp_path), 'linear', 'csv').metrics['eval']
    assert found['loss'] == math.inf and math.isnan(found['auc']) and found['both'] == [1, 2]


def test_predictions_follow_training_even_after_a_restart_or_a_corrupt_checkpoint(tmp_path):
    output_dir = tmp_path / 'x'
    run = train(output_dir, steps=4)
    first = run.predict(1.0)['y']
    train(output_dir)
    last = run.predict(1.0)['y']
    assert abs(last - 3) < 0.01 < abs(first - 3)
    shutil.rmtree(output_dir)
    assert run.predict(1.0)['y'] == last  # From memory.
    assert run.metrics == {}
    train(output_dir, steps=8, dataset=line_data(slope=-3.0), save_checkpoints_steps=4)
    assert run.predict(tf2.constant(1.0))['y'] < first
    weights = read_weights(output_dir / 'model.ckpt-4')
    for name in ('model.ckpt-8.index', 'checkpoint'):
        (output_dir / name).write_bytes(b'')
        assert run.predict(1.0)['y'] == weights['slope'] + weights['bias']


def test_python_and_the_command_line_are_equivalent(run, tmp_path, data_dir):
    flags = ('--train_steps=20', '--save_checkpoints_steps=10', '--precision=bfloat16')
    code, expected, log = run(*SMALL, *flags, output_dir=tmp_path / 'command')
    assert code == 0, log
    hparams = {'filters': [4, 8], 'dense_units': np.int64(16), 'batch_size': 32, 'drop_rate': np.float32(0), 'augment_shift': 0}
    options = {'train_steps': 20, 'save_checkpoints_steps': 10, 'precision': 'bfloat16', 'eval_steps': 1, 'data_dir': data_dir}
    found = api.train(alexnet, 'mnist', str(tmp_path / 'python'), hparams={**hparams, 'warmup_steps': 0}, **options)
    assert found.metrics == expected
    assert_equal(read_weights(tmp_path / 'python'), read_weights(tmp_path / 'command'))
    assert (tmp_path / 'command' / 'hparams.json').read_text() == (tmp_path / 'python' / 'hparams.json').read_text()
    code, result, log = run('--schedule=evaluate', '--eval_steps=1', output_dir=tmp_path / 'python')
    assert (code, {'global_step': 20, **result['eval']}) == (0, found.evaluate(eval_steps=1)), log

    images = np.random.RandomState(0).randint(0, 256, [3, 28, 28, 1], np.uint8)
    loaded = api.load(str(tmp_path / 'python'))
    answers, exported = loaded.predict(images), tf2.saved_model.load(loaded.export(num_towers=2)).signatures
    serialized = tf2.constant([records.encode({'image': image.tobytes()}) for image in images])
    of_images = exported['serving_default'](image=tf2.constant(images))
    for found in (of_images, exported['examples:serving_default'](examples=serialized)):
        assert answers.keys() == found.keys()
        np.testing.assert_allclose(answers['probabilities'], found['probabilities'], rtol=1e-4)
    single = loaded.predictor('best').predict({'image': images[1]})
    assert single['probabilities'].shape == (10,) and single['class'] == answers['class'][1]
    Image.fromarray(images[2, ..., 0]).save(tmp_path / 'digit.png')
    (line,) = loaded.predict_files(tmp_path / 'digit.png', checkpoint=tmp_path / 'python' / 'model.ckpt-20')
    assert line['class'] == answers['class'][2] and line['input'] == str(tmp_path / 'digit.png')


def test_a_run_restores_the_program_and_does_not_depend_on_its_random_numbers(tmp_path):
    class Dense(Line):
        def model(self, features, labels, mode, params):
            y = tf.layers.dense(features['x'][:, None], 1)[:, 0]
            return {'y': y}, None if labels is None else tf.square(y - labels['y'])

    def weights(name, **options):
        train(tmp_path / name, steps=1, model=Dense(), **options).evaluate()
        return read_weights(tmp_path / name)

    def draw():
        return tf2.keras.initializers.GlorotUniform()([2, 2]).numpy().tolist()

    def state():
        logger = tf.get_logger()
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        log = logger.level, list(logger.filters), list(logger.handlers)
        is_eager, num_ops = tf2.executing_eagerly(), len(tf.get_default_graph().get_operations())
        return random.getstate(), np.random.get_state()[1].tolist(), handlers, log, is_eager, num_ops

    expected = weights('before')
    tf2.keras.utils.set_random_seed(7)  # Also of Python and NumPy.
    first, second = draw(), draw()
    tf2.keras.utils.set_random_seed(7)
    assert draw() == first
    before = state()
    assert_equal(weights('after'), expected)
    assert state() == before and draw() == second
    weights('other', seed=2)
    assert len({read_weights(tmp_path / name / 'model.ckpt-0')['dense/kernel'].item() for name in ('before', 'other')}) == 2


def test_a_signal_during_training_saves_a_checkpoint_and_the_run_resumes(tmp_path):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # It is ignored where the tests run in the background.
    previous = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    for number, at_step, stopped in ((signal.SIGINT, 10, KeyboardInterrupt), (signal.SIGTERM, 50, SystemExit)):

        def stop(metrics, number=number, at_step=at_step):
            if 'train' in metrics and metrics['global_step'] >= at_step:
                os.kill(os.getpid(), number)

        with pytest.raises(stopped):
            train(tmp_path / 'found', save_checkpoints_steps=40, save_summary_steps=10, on_metrics=stop)
        assert previous == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
        assert at_step <= read_weights(tmp_path / 'found')['global_step'] < at_step + 30
    for name in ('found', 'expected'):
        assert train(tmp_path / name, save_checkpoints_steps=40).metrics['global_step'] == 100
    assert_equal(read_weights(tmp_path / 'found'), read_weights(tmp_path / 'expected'))


def test_an_exception_of_the_program_ends_training_and_is_not_changed(tmp_path):
    class Enough(Exception):
        pass

    # TensorFlow mistakes the latter for the end of the data, and for a lost session.
    errors = (FileNotFoundError(2, 'mine', '/nowhere'), StopIteration(), tf.errors.AbortedError(None, None, ''))
    for error in (Enough(), SystemExit(), *errors):

        def end(metrics, error=error):
            raise error

        with pytest.raises(type(error)):
            train(tmp_path, on_metrics=end)
    dataset = line_data()
    dataset.parse_batch = lambda mode, params, record: {}['nothing']
    with pytest.raises(KeyError) as raised:
        train(tmp_path / 'other', dataset=dataset)
    assert raised.value.args == ('nothing',)
    dataset.parse_batch = lambda mode, params, record: sys.exit()
    with pytest.raises(api.RunError, match='the process was ended before its work was done, by SystemExit .*test_api.py, line'):
        train(tmp_path / 'other', dataset=dataset)
    assert train(tmp_path, steps=8).metrics['global_step'] == 8


def test_a_run_trains_on_and_other_hyper_parameters_start_over_or_count_from_here_on(tmp_path, caplog):
    hparams = {**SLOPE, 'learning_rate': 0.01}
    run = api.train(Line(), line_data(), tmp_path / 'x', hparams=hparams, train_steps=4, eval_every_steps=2)
    assert run.train(6) is run and run.metrics['global_step'] == 6
    run.train(num_epochs=2, on_metrics=(seen := []).append)
    assert [metrics['global_step'] for metrics in seen if 'eval' in metrics] == [8] and run.metrics['global_step'] == 8

    ways = "override_hparams={'learning_rate': 0.5}, or start over with overwrite=True, or choose another output_dir"
    with pytest.raises(api.UsageError, match=f'learning_rate was 0.01, now it is 0.5: omit .*, with {ways}'):
        train(tmp_path / 'x', 9)
    assert (
        train(tmp_path / 'x', 9, overwrite=True).metrics['global_step'] == 9 and len(os.listdir(tmp_path / 'x' / 'eval')) == 1
    )
    api.train(Line(), line_data(), tmp_path / 'x', train_steps=10)
    own = 'batch_size=16, learning_rate=0.5, optimizer="sgd"'
    assert f'goes on with its own {own}; the default now has' in caplog.text and '--' not in caplog.text
    for call, message in (
        (lambda: run.train(9, overwrite=True), 'overwrite is not an option here'),
        (lambda: run.train(9, schedule='predict'), 'schedule=predict: train.* has train_and_evaluate and train'),
        (lambda: run.train(9, on_metrics=3), 'on_metrics must be a function of a dict, not an int'),
        (
            lambda: run.train(9, hparams={'shuffle_buffer': 5}),
            r"now it is 5: omit what differs to go on with the run's own, or start over with overwrite=True",
        ),
        (lambda: run.train(9, train_steps=9), 'train_steps is not an option here'),
        (lambda: shutil.rmtree(tmp_path / 'x') or run.train(9), 'contains no checkpoint'),
    ):
        with pytest.raises(api.UsageError, match=message):
            call()


def test_layers_that_were_added_or_removed_in_the_code_are_named(tmp_path):
    class Changed(Line):
        __name__ = 'Line'

        def model(self, features, labels, mode, params):
            predictions, losses = super().model(features, labels, mode, params)
            for name in names:
                predictions['y'] *= tf.get_variable(name, shape)
            return predictions, None if labels is None else tf.square(predictions['y'] - labels['y'])

    def refusal(*given):
        nonlocal names, shape
        *names, shape = given
        with pytest.raises(api.RunError) as raised:
            train(tmp_path, 8, Changed())
        return str(raised.value)

    names, shape = ['a', 'b'], [1]
    train(tmp_path, 4, Changed())
    path = tmp_path / 'model.ckpt-4'
    cure = f"restore its code, continue in another output_dir with warm_start_from='{path}', or start over with overwrite=True"
    start = f'{path}: model=Line has changed since this run '
    assert refusal('a', 'b', 'c', 'd', [1]) == f'{start}(new: c, d): {cure}'
    assert refusal('a', [1]) == f'{start}(gone: b): {cure}'
    assert refusal('b', 'c', [1]) == f'{start}(new: c; gone: a): {cure}'
    shapes = (f'{name} has shape [1] in the checkpoint, but [16] in the model' for name in 'ab')
    assert refusal('a', 'b', [16]) == f'{start}({"; ".join(shapes)}): {cure}'


def test_lone_functions_of_an_estimator_program_train_and_predict(tmp_path):
    def model_fn(features, labels, mode, params):
        slope = tf.get_variable('slope', [], initializer=tf.zeros_initializer())
        y = slope * (features['x'] if isinstance(features, dict) else features)
        labels = labels['y'] if isinstance(labels, dict) else labels
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, y)
        loss = tf.reduce_mean(tf.square(y - labels))
        train_op = tf.train.GradientDescentOptimizer(params['learning_rate']).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, y, loss, train_op)

    def input_fn(split, params):
        dataset = tf.data.Dataset.from_tensor_slices((X, 3 * X)).batch(params['batch_size'])
        return dataset.repeat() if split == 'train' else dataset

    run = api.train(model_fn, input_fn, str(tmp_path), hparams={'batch_size': 16, 'learning_rate': 0.5}, train_steps=100)
    assert run.metrics['eval']['loss'] < 1e-6
    np.testing.assert_allclose(run.predict([2.0, -1.0])['predictions'], [6, -3], rtol=1e-3)
    loaded = api.load(str(tmp_path), model_fn, input_fn)
    np.testing.assert_allclose([line['predictions'] for line in loaded.predict_split()], 3 * X, atol=1e-3)

    def estimator(config, params):
        return tf.estimator.Estimator(model_fn, config=config, params={'learning_rate': params.learning_rate})

    rate = {'learning_rate': 0.5}
    own = api.train(estimator, line_data(), str(tmp_path / 'own'), hparams=rate, train_steps=1, schedule='train')
    assert own.metrics == {}


def test_a_mistake_is_one_line(tmp_path):
    for options, message in (
        ({'train_stepps': 5}, 'there is no option train_stepps, did you mean train_steps?'),
        (
            {'lr': 0.1, 'seed': -1},
            "there is no option lr, did you mean hparams={'learning_rate': 0.1}?\nseed=-1: -1 is not an integer in",
        ),
        ({'steps_per_loop': -1}, 'steps_per_loop=-1: -1 is not an integer in the range [0, 2147483647]'),
        ({'local_cluster': 'worker:2'}, 'local_cluster is an option of trainer.py only'),
        ({'schedule': 'predict'}, 'schedule=predict: train() has train_and_evaluate and train'),
        ({'hparams': {'batch_size': '8'}}, 'hparams: batch_size=8 must be an integer'),
        ({'model': types.SimpleNamespace()}, 'model=SimpleNamespace: SimpleNamespace must define model, or else model_fn or '),
        ({'eval_splits': [5]}, 'eval_splits=[5] must be a list of strings'),
        ({'hparams': None}, 'hparams must be a dict of names and values, or text, not None'),
        ({'hparams': {1: 2}}, 'hparams must be a dict of names and values, or text, not a dict'),
        ({'train_steps': 10**5000}, 'train_steps is out of range'),
        ({'freeze': '\udcff'}, '\\udcff: is not UTF-8'),
        ({'override_hparams': {'learning_rate': []}}, 'override_hparams: learning_rate=[] must be a number'),
        ({'override_hparams': {'learning_rate': object()}}, 'override_hparams: learning_rate=<object object at '),
        ({'output_dir': '~/\0'}, '~/\\x00: has a NUL character'),
        ({'output_dir': ''}, 'output_dir is empty'),
        ({'hparams': {'batch_size': 10**5000}}, 'hparams: batch_size=an int must be between -'),
        ({'override_hparams': {1: 2}}, 'override_hparams must be a dict of names and values, or text, not a dict'),
        ({'output_dir': 5}, 'output_dir must be a path, not an int'),
        ({'data_dir': 5}, 'data_dir must be a path, not an int'),
        ({'model': None}, 'model is None: give the name of a model, a module, or an object with its functions'),
        ({'dataset': {'x': [1]}}, 'dataset is a dict: give a DataFrame of pandas or polars, or a table of Arrow'),
        ({'on_metrics': 3}, 'on_metrics must be a function of a dict, not an int'),
        (
            {'train_stepps': 3, 'train_steps': 'x', 'eval_splits': []},
            'there is no option train_stepps, did you mean train_steps?\ntrain_steps=x: must be an integer\neval_splits is',
        ),
        ({'output_dir': None}, 'output_dir is missing: objects other than modules have no default directory'),
    ):
        with pytest.raises(api.UsageError) as raised:
            api.train(**{'model': Line(), 'dataset': line_data(), 'output_dir': str(tmp_path / 'x'), **options})
        assert str(raised.value).startswith(message) and not (tmp_path / 'x').exists()


def test_paths_and_numpy_numbers_are_accepted_and_arguments_that_do_not_fit_the_run_rejected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'elsewhere').mkdir()
    options = {'data_dir': tmp_path, 'train_steps': np.int64(4), 'hparams': SLOPE}
    options['on_metrics'] = lambda metrics: os.chdir('elsewhere') if metrics['global_step'] == 1 else None
    run = api.train(Line(), line_data(), pathlib.Path('x'), **options)
    assert run.output_dir == str(tmp_path / 'x') and run.metrics['global_step'] == 4  # It stays where it is.
    assert api.load(tmp_path / 'x', Line(), line_data()).evaluate(hparams={'eval_batch_size': 8}) == run.evaluate('eval')
    train(tmp_path / 'x', steps=8, override_hparams={'learning_rate': 0.25, 'augment_flip': False})
    hparams = tmp_path / 'x' / 'hparams.json'
    assert json.loads(hparams.read_text())['learning_rate'] == 0.25
    for function, message in (
        (lambda: run.evaluate(schedule='train'), 'schedule is not an option here'),
        (lambda: run.evaluate(eval_splits='train'), 'eval_splits is not an option here'),
        (lambda: run.evaluate(model='x'), 'model is not an option here'),
        (lambda: run.predict_files(''), 'pattern is empty'),
        (
            lambda: run.predict_files(['a.csv', 'b.csv']),
            'pattern is a list of 2, but must name files: give a file, a folder or a pattern',
        ),
        (lambda: api.load(tmp_path), 'contains no checkpoint'),
        (lambda: api.load(run.output_dir).evaluate(), '^model=Line: no module models.Line'),
        (lambda: train(run.output_dir), 'learning_rate was 0.25, now it is 0.5'),
        (lambda: hparams.unlink() or api.load(run.output_dir, Line()), 'no hparams.json that names the model and the dataset'),
    ):
        with pytest.raises(api.UsageError, match=message):
            function()
    monkeypatch.setenv('TF_CONFIG', tf_config({'worker': ['a:1', 'b:1']}, 'worker'))
    with pytest.raises(api.UsageError, match='Slurm describes a cluster, but a Python program runs on one machine'):
        run.evaluate()


def test_a_table_in_memory_is_a_dataset(tmp_path):
    columns = {'x': [i / 40 for i in range(40)], 'kind': [*'ab'] * 20, 'y': ['hi' if i > 20 else 'lo' for i in range(40)]}
    frame = pyarrow.table(columns)
    options = {'target': 'y', 'data_dir': str(tmp_path / 'data'), 'train_steps': 2, 'hparams': 'hidden_units=[4]'}
    run = api.train('mlp', frame, str(tmp_path / 'output'), **options)
    files = os.listdir(tmp_path / 'data')
    assert run.predict(frame)['class_name'].shape == (40,) and sum(name.endswith('.arrow') for name in files) == 1
    api.train('mlp', pyarrow.table(columns), str(tmp_path / 'output'), **options)  # Of the same content.
    assert os.listdir(tmp_path / 'data') == files
    assert 'give hparams={"target": ...}' in refused(api.train, 'mlp', 'table', target='y')

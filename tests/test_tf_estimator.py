"""tf.estimator is back, whole: what Estimator programs use, learns what it should and says what it cannot do."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import common.tf_estimator  # Before TensorFlow.
import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tests.conftest import ROOT

SCRIPTS = os.path.join(ROOT, 'tests', 'scripts')
RESTORED = not tf.__version__.startswith('2.15.')
X = np.float32([[-2], [-1], [0], [1], [2]])


def start(*command, cwd=ROOT, **environment):
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
                            env={**os.environ, 'PYTHONPATH': ROOT, **environment})


def finish(process, timeout=90):
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return process.returncode, out, err


def slope_model(features, labels, mode):
    """y = slope * x, by gradient descent."""
    slope = tf1.get_variable('slope', [], initializer=tf1.zeros_initializer())
    y = slope * features['x']
    outputs = {'predict': tf.estimator.export.PredictOutput({'y': y})}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'y': y}, export_outputs=outputs)
    loss = tf.reduce_mean(tf.square(y - labels))
    train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    metrics = {'error': tf1.metrics.mean_absolute_error(labels, y)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def slope_input(y=2.0):
    """One example, (1, y): the slope after n steps is y (1 - 0.8^n)."""
    return lambda: tf.data.Dataset.from_tensors(({'x': np.float32([1])}, np.float32([y]))).repeat()


def line_input(classes=False):
    """Examples of y = x > 0, or of y = 3x + 1."""
    labels = np.int32(X[:, 0] > 0) if classes else 3 * X[:, 0] + 1
    return lambda: tf.data.Dataset.from_tensors(({'x': X[:, 0]}, labels)).repeat()


def serving_input():
    return tf.estimator.export.ServingInputReceiver(
        *[{'x': tf1.placeholder(tf.float32, [None], 'x')}] * 2)


@pytest.mark.parametrize('api', [lambda: tf.estimator, lambda: tf1.estimator, lambda: tf.compat.v2.estimator,
                                 lambda: tf.compat.v1.estimator])
def test_an_estimator_trains_evaluates_predicts_and_exports(tmp_path, api):
    estimator = api().Estimator(slope_model, str(tmp_path))
    estimator.train(slope_input(), steps=2)
    estimator.train(slope_input(), max_steps=3)
    slope = 2 * (1 - 0.8**3)
    assert estimator.get_variable_value('slope') == pytest.approx(slope, rel=1e-6)
    metrics = estimator.evaluate(slope_input(), steps=2)
    assert metrics['global_step'] == 3
    assert metrics['error'] == pytest.approx(2 - slope, rel=1e-5)
    assert metrics['loss'] == pytest.approx((2 - slope)**2, rel=1e-5)
    prediction = next(estimator.predict(slope_input()))
    assert prediction['y'] == pytest.approx(slope, rel=1e-6)
    path = estimator.export_saved_model(str(tmp_path / 'export'), serving_input).decode()
    signature = tf.saved_model.load(path).signatures['serving_default']
    np.testing.assert_allclose(signature(x=tf.constant([1.0, -3.0]))['y'], [slope, -3 * slope], rtol=1e-6)


def test_every_way_to_import_it_gives_the_same():
    from tensorflow import estimator
    import tensorflow.compat.v1.estimator as v1
    from tensorflow.compat.v1 import estimator as from_v1
    assert estimator.Estimator is tf.estimator.Estimator
    assert v1.inputs.numpy_input_fn is from_v1.inputs.numpy_input_fn is tf1.estimator.inputs.numpy_input_fn


def test_hooks_and_run_config(tmp_path):
    seen = []

    class Listener(tf1.train.CheckpointSaverListener):
        def after_save(self, session, global_step):
            seen.append(int(global_step))

    class Hook(tf.estimator.SessionRunHook):
        def before_run(self, run_context):
            return tf.estimator.SessionRunArgs(tf1.train.get_global_step())

    config = tf.estimator.RunConfig(tf_random_seed=3, save_checkpoints_steps=5, keep_checkpoint_max=2)
    estimator = tf.estimator.Estimator(slope_model, str(tmp_path), config)
    estimator.train(slope_input(), hooks=[tf.estimator.StopAtStepHook(12), Hook()], saving_listeners=[Listener()])
    assert seen == [0, 5, 10, 12]
    assert len(list(tmp_path.glob('*.index'))) == 2


def test_stopping_early_when_the_metric_no_longer_decreases(tmp_path):
    estimator = tf.estimator.Estimator(slope_model, str(tmp_path), tf.estimator.RunConfig(save_checkpoints_steps=10))
    hook = tf.estimator.experimental.stop_if_no_decrease_hook(
        estimator, 'loss', max_steps_without_decrease=10, run_every_secs=None, run_every_steps=10)
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(slope_input(), max_steps=2000, hooks=[hook]),
        tf.estimator.EvalSpec(slope_input(), steps=1, start_delay_secs=0, throttle_secs=0))
    assert estimator.get_variable_value('slope') == pytest.approx(2, abs=1e-5)
    assert estimator.get_variable_value('global_step') < 500


def test_train_and_evaluate_with_every_exporter(tmp_path):
    estimator = tf.estimator.Estimator(slope_model, str(tmp_path), tf.estimator.RunConfig(save_checkpoints_steps=10))
    exporters = [tf.estimator.FinalExporter('final', serving_input), tf.estimator.LatestExporter('latest', serving_input),
                 tf.estimator.BestExporter('best', serving_input)]
    metrics, exported = tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(slope_input(), max_steps=30),
        tf.estimator.EvalSpec(slope_input(), steps=1, exporters=exporters, start_delay_secs=0, throttle_secs=0))
    assert metrics['global_step'] == 30
    assert metrics['loss'] == pytest.approx((2 * 0.8**30)**2, rel=1e-2)
    assert len([path for path in exported if path]) == 3
    for name in ('final', 'latest', 'best'):
        newest = sorted((tmp_path / 'export' / name).iterdir())[-1]
        y = tf.saved_model.load(str(newest)).signatures['serving_default'](x=tf.constant([1.0]))['y']
        assert y.numpy()[0] == pytest.approx(2 * (1 - 0.8**30), rel=1e-5)


def columns():
    return [tf.feature_column.numeric_column('x')]


@pytest.mark.parametrize('make', [
    lambda api, adam, **options: api.DNNClassifier([16], columns(), optimizer=adam, **options),
    lambda api, adam, **options: api.LinearClassifier(columns(), optimizer=adam, **options),
    lambda api, adam, **options: api.DNNLinearCombinedClassifier(
        linear_feature_columns=columns(), dnn_feature_columns=columns(), dnn_hidden_units=[16], dnn_optimizer=adam,
        linear_optimizer=adam, **options),
], ids=['DNNClassifier', 'LinearClassifier', 'DNNLinearCombinedClassifier'])
@pytest.mark.parametrize('api', ['v1', 'v2'])
def test_canned_classifiers_learn_a_threshold(tmp_path, make, api):
    config = tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1)
    if api == 'v1':
        estimator = make(tf1.estimator, lambda: tf1.train.AdamOptimizer(0.05), config=config)
    else:
        estimator = make(tf.estimator, lambda: tf.keras.optimizers.legacy.Adam(0.05), config=config)
    estimator.train(line_input(classes=True), steps=300)
    assert estimator.evaluate(line_input(classes=True), steps=1)['accuracy'] == 1


@pytest.mark.parametrize('make', [
    lambda **options: tf.estimator.DNNRegressor([16], columns(), **options),
    lambda **options: tf.estimator.LinearRegressor(columns(), **options),
], ids=['DNNRegressor', 'LinearRegressor'])
def test_canned_regressors_learn_a_line(tmp_path, make):
    estimator = make(optimizer=lambda: tf.keras.optimizers.legacy.Adam(0.05),
                     config=tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1))
    estimator.train(line_input(), steps=300)
    assert estimator.evaluate(line_input(), steps=1)['average_loss'] < 0.05


def test_a_baseline_learns_the_share_of_each_class(tmp_path):
    estimator = tf.estimator.BaselineClassifier(model_dir=str(tmp_path))
    estimator.train(line_input(classes=True), steps=300)
    probabilities = next(estimator.predict(line_input(classes=True)))['probabilities']
    np.testing.assert_allclose(probabilities, [0.6, 0.4], atol=0.02)


def test_warm_start_and_added_metrics(tmp_path):
    first = tf.estimator.Estimator(slope_model, str(tmp_path / 'first'))
    first.train(slope_input(), steps=5)
    second = tf.estimator.Estimator(slope_model, str(tmp_path / 'second'), warm_start_from=str(tmp_path / 'first'))
    second.train(slope_input(), steps=1)
    assert second.get_variable_value('slope') == pytest.approx(2 * (1 - 0.8**6), rel=1e-6)
    extended = tf.estimator.add_metrics(second, lambda labels, predictions, features: {
        'highest': tf1.metrics.mean(tf.reduce_max(labels))})
    assert extended.evaluate(slope_input(), steps=1)['highest'] == 2


def test_numpy_input_fn(tmp_path):
    input_fn = tf1.estimator.inputs.numpy_input_fn({'x': np.float32([1, 1])}, np.float32([2, 2]), 1, num_epochs=2, shuffle=False)
    estimator = tf1.estimator.Estimator(slope_model, str(tmp_path))
    estimator.train(input_fn)
    assert estimator.get_variable_value('global_step') == 4
    assert estimator.get_variable_value('slope') == pytest.approx(2 * (1 - 0.8**4), rel=1e-6)


def test_mirrored_strategy_learns_from_the_examples_of_all_devices(tmp_path):
    code, out, err = finish(start(os.path.join(SCRIPTS, 'mirrored.py'), str(tmp_path)))
    assert code == 0, err
    # The mean gradient of both examples is 5 (slope - 2), the rate 0.1: the distance to 2 halves.
    result = json.loads(out)
    assert [device[-5:] for device in result.pop('devices')] == ['CPU:0', 'CPU:1']
    assert result == {'slope': 1.75, 'loss': 0.15625, 'global_step': 3}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for unused in sockets:
            unused.bind(('127.0.0.1', 0))
        return [unused.getsockname()[1] for unused in sockets]
    finally:
        for unused in sockets:
            unused.close()


def test_a_tf_config_cluster_trains_on_its_parameter_server_and_evaluates(tmp_path):
    addresses = [f'127.0.0.1:{port}' for port in free_ports(3)]
    cluster = {job: [address] for job, address in zip(('chief', 'worker', 'ps'), addresses)}
    tasks = {job: start(os.path.join(SCRIPTS, 'cluster_task.py'), str(tmp_path),
                        TF_CONFIG=json.dumps({'cluster': cluster, 'task': {'type': job, 'index': 0}}))
             for job in ('ps', 'chief', 'worker', 'evaluator')}
    try:
        outputs = {job: finish(tasks[job], 120) for job in ('chief', 'worker', 'evaluator')}
        for job, (code, _, err) in outputs.items():
            assert code == 0, f'{job}: {err}'
        for job in ('chief', 'worker'):
            assert 'slope on /job:ps' in outputs[job][1]
        results = re.findall(r'Saving dict for global step (\d+):.*?loss = ([^,\s]+)', outputs['evaluator'][2])
        assert int(results[-1][0]) >= 200 and float(results[-1][1]) < 1e-3
    finally:
        for task in tasks.values():
            task.kill()
            task.communicate()
    assert tf.train.load_variable(str(tmp_path), 'slope') == pytest.approx(2, abs=0.01)


@pytest.mark.skipif(not RESTORED, reason='TensorFlow 2.15 has its own')
def test_what_is_not_restored_says_so(tmp_path, monkeypatch):
    config = tf1.estimator.tpu.RunConfig(model_dir=str(tmp_path))
    with pytest.raises(NotImplementedError, match='TPUs need TensorFlow 2.15 or older'):
        tf1.estimator.tpu.TPUEstimator(slope_model, config=config, train_batch_size=1)
    with pytest.raises(NotImplementedError, match='TPUs need TensorFlow 2.15 or older'):
        tf1.tpu.experimental.AdamParameters(0.1)
    with pytest.raises(NotImplementedError, match='make_saveable_from_iterator'):
        tf.data.experimental.CheckpointInputPipelineHook(None)
    with pytest.raises(ValueError, match='experimental_distribute needs TensorFlow 2.15'):
        tf.estimator.RunConfig(experimental_distribute=object())
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': {'chief': ['127.0.0.1:1'], 'worker': ['127.0.0.1:2']},
                                                'task': {'type': 'worker', 'index': 0}}))
    with pytest.raises(ValueError, match='train_distribute over the machines of TF_CONFIG needs TensorFlow 2.15'):
        tf.estimator.RunConfig(train_distribute=tf.distribute.OneDeviceStrategy('/cpu:0'))


def test_tpu_estimator_without_a_tpu(tmp_path):
    def model_fn(features, labels, mode, params):
        assert params['batch_size'] == 1
        spec = slope_model(features, labels, mode)
        return tf1.estimator.tpu.TPUEstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op)

    estimator = tf1.estimator.tpu.TPUEstimator(model_fn, use_tpu=False, train_batch_size=1,
                                               config=tf1.estimator.tpu.RunConfig(model_dir=str(tmp_path)))
    estimator.train(lambda params: slope_input()(), steps=3)
    assert estimator.get_variable_value('slope') == pytest.approx(2 * (1 - 0.8**3), rel=1e-6)


@pytest.fixture
def old_program(tmp_path):
    """An old program with a module beside it that has the name of this project's package."""
    program = tmp_path / 'program'
    program.mkdir()
    (program / 'common.py').write_text('STEPS = 3\n')
    (program / 'old_program.py').write_text(open(os.path.join(SCRIPTS, 'old_program.py')).read())
    return program / 'old_program.py'


def test_an_old_program_runs_unchanged_and_without_noise(old_program, tmp_path):
    (tmp_path / 'elsewhere').mkdir()
    code, out, err = finish(start('-m', 'common.tf_estimator', str(old_program), '--model_dir', str(tmp_path / 'model'), 'a',
                                  'b', cwd=tmp_path / 'elsewhere'))
    assert code == 7, err
    assert out == f"__main__ old_program.py {old_program} ['a', 'b'] {np.float32(1.75)}\n"
    assert len(list((tmp_path / 'model' / 'export').iterdir())) == 1
    # What the program itself says is there, each once; what TensorFlow says of its own build and age is not.
    for line in ('UserWarning: `my.layer` is deprecated', 'RuntimeWarning: A tensor of mine is large.',
                 'WARNING:tensorflow:From me: my flag is deprecated and will be removed.'):
        assert err.count(line) == 1, line
    assert len(re.findall('INFO:tensorflow:loss = 10.0, step = ', err)) == 1
    assert err.count('Saving dict for global step 3') == 1
    assert len(re.findall('is deprecated', err)) == 3  # Python shows the line that warns as well.
    assert 'keras' not in err.lower()
    if RESTORED and not tf.__version__.startswith(('2.18.', '2.19.', '2.20.')):
        assert not re.findall(r'^[IWE]\d{4} .*|.*oneDNN.*|.*cuda.*', err, re.MULTILINE)


@pytest.mark.parametrize('library', ['from absl import app, flags', 'app, flags = tf.app, tf.flags'])
def test_flags_and_app_run_log_each_line_once(tmp_path, library):
    script = tmp_path / 'script.py'
    script.write_text(f'''
import sys
import tensorflow.compat.v1 as tf
{library}
flags.DEFINE_integer('steps', 1, 'Steps.')
def main(argv):
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.logging.info('steps %d %s', flags.FLAGS.steps, argv[1:])
    sys.exit(flags.FLAGS.steps)
app.run(main)
''')
    code, out, err = finish(start('-m', 'common.tf_estimator', str(script), '--steps=3', 'x'))
    assert (code, out) == (3, '')
    assert err.count("steps 3 ['x']") == 1


@pytest.mark.parametrize('arguments, message', [
    ((), 'python -m common.tf_estimator: SCRIPT is missing'),
    (('nosuch.py',), 'python -m common.tf_estimator: nosuch.py: no such file'),
])
def test_a_missing_script_is_one_line(arguments, message):
    code, out, err = finish(start('-m', 'common.tf_estimator', *arguments))
    assert (code, out) == (2, '')
    assert len(err.splitlines()) == 1 and err.startswith(message)


def test_a_script_that_fails_shows_its_traceback_and_ctrl_c_ends_it(tmp_path):
    failing = tmp_path / 'failing.py'
    failing.write_text('raise KeyError("mine")\n')
    code, _, err = finish(start('-m', 'common.tf_estimator', str(failing)))
    assert code == 1 and "KeyError: 'mine'" in err
    waiting = tmp_path / 'waiting.py'
    waiting.write_text('import time; print("ready", flush=True); time.sleep(60)\n')
    process = start('-m', 'common.tf_estimator', str(waiting))
    assert process.stdout.readline() == 'ready\n'
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process, timeout=30)
    assert code in (-signal.SIGINT, 130) and 'KeyboardInterrupt' in err


@pytest.mark.skipif(not RESTORED, reason='on TensorFlow 2.15 nothing is restored')
def test_what_is_missing_is_named_with_the_versions_that_work():
    code, out, err = finish(start(os.path.join(SCRIPTS, 'broken_imports.py')))
    assert code == 0, err
    messages = json.loads(out)
    works = 'This needs TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0: pip install'
    for name, message in {
        'no TensorFlow': 'TensorFlow is not installed.',
        'no tf-keras': 'The package tf-keras is missing.',
        'no tensorflow-estimator': 'The package tensorflow-estimator is missing.',
        'other tensorflow-estimator': 'tensorflow-estimator is 2.14.0.',
        'no symbol': 'has no tensorflow.python.training.evaluation._evaluate_once.',
        'no module': 'has no module tensorflow.python.training.device_setter.',
        'old TensorFlow': 'TensorFlow 2.14.1 is too old.',
    }.items():
        assert message in messages[name] and works in messages[name], name
    assert works in messages['no symbol at import']
    assert 'pip install "protobuf<7"' in messages['protobuf 7']
    assert messages['nothing'] is None


@pytest.mark.skipif(not RESTORED, reason='on TensorFlow 2.15 there is only Keras 2')
def test_tensorflow_imported_first_is_named():
    code, _, err = finish(start('-c', 'import tensorflow\nimport common.tf_estimator', TF_USE_LEGACY_KERAS='0'))
    assert code == 1
    assert 'ImportError: TensorFlow was imported before common.tf_estimator' in err.splitlines()[-1]

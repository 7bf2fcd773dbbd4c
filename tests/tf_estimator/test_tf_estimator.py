"""tf.estimator is back, whole: what Estimator programs use learns what it should, and what cannot be given says so."""

import ast
import contextlib
import importlib
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import tf_estimator

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = os.path.join(ROOT, 'tests', 'scripts')
MINOR = int(tf.__version__.split('.')[1])
RESTORED = MINOR > 15
BOTH_APIS = pytest.mark.parametrize('api', [tf, tf1], ids=['tf', 'tf.compat.v1'])

# Of protobuf 6, about TensorFlow 2.20's own code.
pytestmark = pytest.mark.filterwarnings('ignore:float_format is deprecated')

# What the libraries of TensorFlow 2.17 to 2.20 write when a session or a server starts: no log level reaches it.
UNREACHABLE = (
    r'WARNING: All log messages before absl::InitializeLog\(\)|I0000 .*(MLIR V1|Started server with target)'
    if 17 <= MINOR <= 20
    else '$.'
)

# y = 2x by gradient descent from the slope 0, on the examples (1, 2) and (2, 4) at once. The gradient of the mean
# squared error is 5 (slope - 2), the rate 0.1: each step halves what is missing of the slope. The loss is 10 at first.
X, Y = np.float32([1, 2]), np.float32([2, 4])


def slope_after(steps):
    return 2 - 2 * 0.5**steps


def loss_after(steps):
    return 10 * 0.25**steps


def model_fn(features, labels, mode, params):
    slope = tf1.get_variable('slope', [], initializer=tf1.zeros_initializer())
    y = slope * features['x']
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {'y': y})
    loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = tf1.train.GradientDescentOptimizer(params.get('rate', 0.1))
    train_op = optimizer.minimize(loss, tf1.train.get_or_create_global_step())
    metrics = {'error': tf1.metrics.mean_absolute_error(labels, y)}
    return tf.estimator.EstimatorSpec(mode, {'y': y}, loss, train_op, metrics)


def input_fn():
    return tf.data.Dataset.from_tensors(({'x': X}, Y)).repeat()


def serving_input_fn():
    x = tf1.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


def make_estimator(model_dir, api=tf, rate=0.1, warm_start_from=None, **config):
    return api.estimator.Estimator(
        model_fn,
        config=api.estimator.RunConfig(str(model_dir), **config),
        params={'rate': rate},
        warm_start_from=warm_start_from,
    )


def slope_of(estimator):
    return pytest.approx(float(estimator.get_variable_value('slope')), abs=1e-6)


def step_of(estimator):
    return int(estimator.get_variable_value('global_step'))


def served(path, x):
    """Returns what the SavedModel at `path` answers."""
    return tf.saved_model.load(str(path)).signatures['serving_default'](x=tf.constant(x))['y'].numpy()


def losses_in(directory):
    """Returns {step: loss} of the event files of a directory."""
    events = [event for path in directory.glob('events*') for event in tf1.train.summary_iterator(str(path))]
    return {event.step: value.simple_value for event in events for value in event.summary.value if value.tag == 'loss'}


def train_and_evaluate(estimator, steps, hooks=(), exporters=()):
    return tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_fn, max_steps=steps, hooks=hooks),
        tf.estimator.EvalSpec(input_fn, steps=1, exporters=exporters, start_delay_secs=0, throttle_secs=0),
    )


@BOTH_APIS
def test_an_estimator_trains_evaluates_predicts_and_exports(api, tmp_path):
    estimator = make_estimator(tmp_path, api)
    estimator.train(input_fn, steps=2)
    estimator.train(input_fn, max_steps=3)
    assert slope_of(estimator) == slope_after(3)
    metrics = estimator.evaluate(input_fn, steps=2)
    assert metrics == {'global_step': 3, 'loss': pytest.approx(loss_after(3)), 'error': pytest.approx(0.25 * 1.5)}
    np.testing.assert_allclose([p['y'] for p, _ in zip(estimator.predict(input_fn), range(2))], [1.75, 3.5])
    path = estimator.export_saved_model(str(tmp_path / 'export'), serving_input_fn)
    np.testing.assert_allclose(served(path.decode(), [1.0, -4.0]), [1.75, -7])


def test_every_way_to_import_it_gives_the_same():
    from tensorflow import estimator
    from tensorflow.compat.v1 import estimator as estimator1
    import tensorflow.compat.v1.estimator as module1
    from tensorflow.compat.v1.estimator.inputs import numpy_input_fn
    import tensorflow.estimator as module
    from tensorflow.estimator import Estimator
    from tensorflow.estimator.export import ServingInputReceiver

    for same in (estimator, module, tf.compat.v2.estimator, tf1.compat.v2.estimator, tf.compat.v2.compat.v2.estimator):
        assert same.Estimator is Estimator is tf.estimator.Estimator
    for same in (estimator1, module1, tf.compat.v1.estimator, tf1.compat.v1.estimator, tf.compat.v2.compat.v1.estimator):
        assert same.Estimator is tf1.estimator.Estimator is not Estimator
    assert numpy_input_fn is tf1.estimator.inputs.numpy_input_fn
    assert ServingInputReceiver is tf.estimator.export.ServingInputReceiver
    assert 'estimator' in dir(tf) and 'estimator' in dir(tf1)


def test_tf_keras_is_keras_2_everywhere():
    from tensorflow.keras.layers import Dense

    assert Dense is tf.keras.layers.Dense is tf1.keras.layers.Dense
    assert Dense.__module__.startswith('tf_keras.' if RESTORED else 'keras.')


def test_run_config_decides_what_is_kept_and_when(tmp_path):
    estimator = make_estimator(
        tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=2, save_summary_steps=2, tf_random_seed=3
    )
    estimator.train(input_fn, steps=5)
    kept = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert [os.path.basename(path) for path in kept] == ['model.ckpt-4', 'model.ckpt-5']
    losses = {1: 10, 3: loss_after(2), 5: loss_after(4)}
    assert losses_in(tmp_path) == pytest.approx(losses)
    assert estimator.config.tf_random_seed == 3


def test_session_hooks_see_and_stop_the_training(tmp_path):
    class Hook(tf.estimator.SessionRunHook):
        losses = []

        def before_run(self, run_context):
            return tf.estimator.SessionRunArgs({'loss': 'Mean:0'})

        def after_run(self, run_context, run_values):
            self.losses.append(run_values.results['loss'])

    estimator = make_estimator(tmp_path)
    estimator.train(input_fn, hooks=[Hook(), tf.estimator.StopAtStepHook(last_step=3)])
    assert Hook.losses == [10, pytest.approx(loss_after(1)), pytest.approx(loss_after(2))]
    assert step_of(estimator) == 3


def test_saving_listeners_are_called_around_each_checkpoint(tmp_path):
    calls = []

    class Listener(tf.estimator.CheckpointSaverListener):
        def begin(self):
            calls.append('begin')

        def before_save(self, session, global_step):
            calls.append(('before', int(global_step)))

        def after_save(self, session, global_step):
            calls.append(('after', int(global_step)))

        def end(self, session, global_step):
            calls.append(('end', int(global_step)))

    make_estimator(tmp_path, save_checkpoints_steps=2).train(input_fn, steps=3, saving_listeners=[Listener()])
    saves = [(when, step) for step in (0, 2, 3) for when in ('before', 'after')]
    assert calls == ['begin', *saves, ('end', 3)]


@pytest.fixture
def info_lines():
    """The lines that TensorFlow logs during the test, INFO included."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger('tensorflow')
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_logging_tensor_hook_logs_a_tensor_every_so_many_steps(tmp_path, info_lines):
    hook = tf.estimator.LoggingTensorHook({'loss': 'Mean:0'}, every_n_iter=2, formatter=lambda v: str(v['loss']))
    make_estimator(tmp_path).train(input_fn, steps=3, hooks=[hook])
    logged = [line for line in info_lines if re.fullmatch(r'[\d.]+', line)]
    assert [float(line) for line in logged] == [10, pytest.approx(loss_after(2))]


def test_nan_tensor_hook_stops_the_training(tmp_path):
    def bad_input_fn():
        return tf.data.Dataset.from_tensors(({'x': X}, Y * np.nan)).repeat()

    with pytest.raises(tf.estimator.NanLossDuringTrainingError):
        make_estimator(tmp_path).train(bad_input_fn, steps=2)


def test_in_memory_evaluator_hook_evaluates_during_the_training(tmp_path, info_lines):
    estimator = make_estimator(tmp_path)
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, input_fn, steps=1, every_n_iter=2)
    estimator.train(input_fn, steps=2, hooks=[hook])
    errors = [float(found[1]) for line in info_lines if (found := re.search(r'Saving dict .* error = ([\d.]+)', line))]
    assert errors == [3, 0.75, 0.75]  # Before the training, after two steps, at the end.


def test_training_stops_early_at_a_good_loss(tmp_path):
    estimator = make_estimator(tmp_path, save_checkpoints_steps=1)
    hook = tf.estimator.experimental.stop_if_lower_hook(
        estimator, 'loss', loss_after(2) + 0.1, run_every_secs=None, run_every_steps=1
    )
    train_and_evaluate(estimator, 50, [hook])
    assert 2 <= step_of(estimator) < 5


def test_training_stops_early_when_the_loss_no_longer_decreases(tmp_path):
    estimator = make_estimator(tmp_path, rate=0, save_checkpoints_steps=1)
    hook = tf.estimator.experimental.stop_if_no_decrease_hook(
        estimator, 'loss', max_steps_without_decrease=2, run_every_secs=None, run_every_steps=1
    )
    train_and_evaluate(estimator, 50, [hook])
    assert 2 < step_of(estimator) < 8


def test_training_stops_early_when_a_function_says_so(tmp_path):
    estimator = make_estimator(tmp_path, save_checkpoints_steps=1)
    hook = tf.estimator.experimental.make_early_stopping_hook(
        estimator, lambda: step_of(estimator) >= 3, run_every_secs=None, run_every_steps=1
    )
    estimator.train(input_fn, max_steps=50, hooks=[hook])
    assert 3 <= step_of(estimator) < 6


def test_train_and_evaluate_evaluates_each_checkpoint_and_exports(tmp_path):
    estimator = make_estimator(tmp_path, save_checkpoints_steps=2)
    exporters = [
        tf.estimator.FinalExporter('final', serving_input_fn),
        tf.estimator.LatestExporter('latest', serving_input_fn, exports_to_keep=1),
        tf.estimator.BestExporter('best', serving_input_fn, exports_to_keep=2),
    ]
    metrics, exported = train_and_evaluate(estimator, 6, exporters=exporters)
    assert metrics['global_step'] == 6 and metrics['loss'] == pytest.approx(loss_after(6), rel=1e-4)
    assert len(exported) == 3
    losses = {step: loss_after(step) for step in (2, 4, 6)}
    assert losses_in(tmp_path / 'eval') == pytest.approx(losses, rel=1e-4)
    exports = {name: sorted((tmp_path / 'export' / name).iterdir()) for name in ('final', 'latest', 'best')}
    assert {name: len(paths) for name, paths in exports.items()} == {'final': 1, 'latest': 1, 'best': 2}
    for paths in exports.values():
        np.testing.assert_allclose(served(paths[-1], [1.0]), slope_after(6))


def test_a_warm_start_takes_over_the_variables_but_not_the_step(tmp_path):
    make_estimator(tmp_path / 'first').train(input_fn, steps=3)
    settings = tf.estimator.WarmStartSettings(str(tmp_path / 'first'), vars_to_warm_start='slope')
    second = make_estimator(tmp_path / 'second', warm_start_from=settings)
    second.train(input_fn, steps=1)
    assert slope_of(second) == slope_after(4)
    assert step_of(second) == 1


def test_metrics_are_added_to_an_estimator(tmp_path):
    estimator = make_estimator(tmp_path)
    estimator.train(input_fn, steps=1)
    extended = tf.estimator.add_metrics(
        estimator, lambda features, labels, predictions: {'mean': tf1.metrics.mean(features['x'] * predictions['y'])}
    )
    metrics = extended.evaluate(input_fn, steps=1)
    assert metrics['mean'] == (1 * 1 + 2 * 2) / 2 and metrics['error'] == 1.5


def test_numpy_input_fn_feeds_arrays_in_order(tmp_path):
    fn = tf1.estimator.inputs.numpy_input_fn({'x': X}, Y, batch_size=2, num_epochs=3, shuffle=False)
    estimator = make_estimator(tmp_path, tf1)
    estimator.train(fn)
    assert step_of(estimator) == 3 and slope_of(estimator) == slope_after(3)
    assert [prediction['y'] for prediction in estimator.predict(fn)] == [1.75, 3.5] * 3


# 40 examples: the class is 1 where `size` is above 0.5, which is where `word` is 'big'; the target is 3 size + 1.
SIZES = np.float32(np.arange(40) / 40)
COLUMNS = {'size': SIZES, 'word': np.where(SIZES > 0.5, 'big', 'small')}


def classes_input_fn():
    return tf.data.Dataset.from_tensors((COLUMNS, np.int32(SIZES > 0.5))).repeat()


def values_input_fn():
    return tf.data.Dataset.from_tensors((COLUMNS, 3 * SIZES + 1)).repeat()


def feature_columns():
    size = tf.feature_column.numeric_column('size')
    word = tf.feature_column.categorical_column_with_vocabulary_list('word', ['big', 'small'])
    linear = [tf.feature_column.bucketized_column(size, [0.25, 0.5, 0.75]), word]
    return linear, [size, tf.feature_column.embedding_column(word, 2), tf.feature_column.indicator_column(word)]


def adam(api, rate):
    return tf1.train.AdamOptimizer(rate) if api is tf1 else tf.keras.optimizers.legacy.Adam(rate)


@BOTH_APIS
@pytest.mark.parametrize('name', ['LinearClassifier', 'DNNClassifier', 'DNNLinearCombinedClassifier'])
def test_canned_classifiers_learn_the_classes_and_export(api, name, tmp_path):
    linear, deep = feature_columns()
    kwargs = {
        'LinearClassifier': lambda: dict(feature_columns=linear),
        'DNNClassifier': lambda: dict(feature_columns=deep, hidden_units=[8], optimizer=adam(api, 0.05)),
        'DNNLinearCombinedClassifier': lambda: dict(
            linear_feature_columns=linear, dnn_feature_columns=deep, dnn_hidden_units=[8], dnn_optimizer=adam(api, 0.05)
        ),
    }[name]()
    config = tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1)
    estimator = getattr(api.estimator, name)(config=config, **kwargs)
    estimator.train(classes_input_fn, steps=60)
    assert estimator.evaluate(classes_input_fn, steps=1)['accuracy'] == 1
    predictions = [next(iter(p['class_ids'])) for p, _ in zip(estimator.predict(classes_input_fn), SIZES)]
    assert predictions == list(SIZES > 0.5)
    spec = tf.feature_column.make_parse_example_spec(linear + deep)
    path = estimator.export_saved_model(
        str(tmp_path / 'export'), tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    )
    example = tf.train.Example()
    example.features.feature['size'].float_list.value.append(0.9)
    example.features.feature['word'].bytes_list.value.append(b'big')
    predict = tf.saved_model.load(path.decode()).signatures['predict']
    answer = predict(examples=tf.constant([example.SerializeToString()]))
    assert answer['class_ids'].numpy() == 1


@BOTH_APIS
@pytest.mark.parametrize('name', ['LinearRegressor', 'DNNRegressor', 'DNNLinearCombinedRegressor'])
def test_canned_regressors_learn_a_line(api, name, tmp_path):
    size = [tf.feature_column.numeric_column('size')]
    kwargs = {
        'LinearRegressor': lambda: dict(feature_columns=size, optimizer=adam(api, 0.1)),
        'DNNRegressor': lambda: dict(feature_columns=size, hidden_units=[16], optimizer=adam(api, 0.05)),
        'DNNLinearCombinedRegressor': lambda: dict(
            linear_feature_columns=size,
            linear_optimizer=adam(api, 0.1),
            dnn_feature_columns=size,
            dnn_hidden_units=[16],
            dnn_optimizer=adam(api, 0.02),
        ),
    }[name]()
    config = tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1)
    estimator = getattr(api.estimator, name)(config=config, **kwargs)
    estimator.train(values_input_fn, steps=150)
    # To answer the mean, whatever the input, would leave a loss of 0.75.
    assert estimator.evaluate(values_input_fn, steps=1)['average_loss'] < 0.05


@BOTH_APIS
def test_a_baseline_learns_the_share_of_the_classes(api, tmp_path):
    def one_in_four_input_fn():
        return tf.data.Dataset.from_tensors(({'x': np.zeros(4, np.float32)}, np.int32([0, 0, 0, 1]))).repeat()

    estimator = api.estimator.BaselineClassifier(model_dir=str(tmp_path))
    estimator.train(one_in_four_input_fn, steps=200)
    prediction = next(estimator.predict(one_in_four_input_fn))
    assert prediction['probabilities'] == pytest.approx([0.75, 0.25], abs=0.01)


@pytest.mark.filterwarnings('ignore:`Model.state_updates`')
def test_a_keras_model_becomes_an_estimator(tmp_path):
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer='zeros', input_shape=(1,))
    model = tf.keras.Sequential([layer])
    model.compile(tf.keras.optimizers.legacy.SGD(0.1), 'mse')
    estimator = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))

    def keras_input_fn():
        return tf.data.Dataset.from_tensors((X[:, None], Y[:, None])).repeat()

    estimator.train(keras_input_fn, steps=3)
    assert estimator.evaluate(keras_input_fn, steps=1)['loss'] == pytest.approx(loss_after(3))


def test_tpu_estimator_works_without_a_tpu(tmp_path):
    def tpu_model_fn(features, labels, mode, params):
        assert params['batch_size'] == 2
        spec = model_fn(features, labels, mode, {})
        return tf1.estimator.tpu.TPUEstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op)

    config = tf1.estimator.tpu.RunConfig(tf1.estimator.tpu.TPUConfig(iterations_per_loop=2), model_dir=str(tmp_path))
    estimator = tf1.estimator.tpu.TPUEstimator(
        tpu_model_fn, config=config, use_tpu=False, train_batch_size=2, eval_batch_size=2
    )
    estimator.train(lambda params: input_fn(), steps=3)
    assert slope_of(estimator) == slope_after(3)
    assert estimator.evaluate(lambda params: input_fn(), steps=1)['loss'] == pytest.approx(loss_after(3))


def test_tf_config_makes_a_run_config_of_a_cluster(monkeypatch):
    set_tf_config(monkeypatch, {'chief': ['a:1'], 'worker': ['b:1', 'c:1'], 'ps': ['d:1']}, 'worker', 1)
    config = tf.estimator.RunConfig()
    assert (config.task_type, config.task_id, config.is_chief) == ('worker', 1, False)
    assert (config.num_worker_replicas, config.num_ps_replicas, config.global_id_in_cluster) == (3, 1, 2)
    assert config.master == 'grpc://c:1'


def set_tf_config(monkeypatch, cluster, job, index=0):
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': cluster, 'task': {'type': job, 'index': index}}))


not_on_2_15 = pytest.mark.skipif(not RESTORED, reason='TensorFlow 2.15 has tf.estimator itself: nothing is restored')


@not_on_2_15
def test_a_tpu_is_refused_with_the_versions_that_have_it(tmp_path):
    advice = 'TPUs need TensorFlow 2.15 or older.*use_tpu=False'
    with pytest.raises(NotImplementedError, match=advice):
        tf1.estimator.tpu.TPUEstimator(model_fn, config=tf1.estimator.tpu.RunConfig(), train_batch_size=2)
    with pytest.raises(NotImplementedError, match=advice):
        tf1.tpu.experimental.AdamParameters(0.1)
    with pytest.raises(NotImplementedError, match=advice):
        from tensorflow.python.tpu import tpu_embedding

        tpu_embedding.TPUEmbedding()


@not_on_2_15
def test_the_input_pipeline_hook_is_refused_with_what_to_use():
    for api in (tf, tf1):
        with pytest.raises(NotImplementedError, match='CheckpointInputPipelineHook: .*make_saveable_from_iterator'):
            api.data.experimental.CheckpointInputPipelineHook(None)


@not_on_2_15
def test_a_strategy_over_machines_is_refused_with_the_cure(monkeypatch):
    strategy = tf.distribute.OneDeviceStrategy('/cpu:0')
    with pytest.raises(ValueError, match='experimental_distribute needs TensorFlow 2.15 or older'):
        tf.estimator.RunConfig(experimental_distribute=strategy)
    assert tf.estimator.RunConfig(train_distribute=strategy).train_distribute is strategy
    set_tf_config(monkeypatch, {'chief': ['a:1'], 'worker': ['b:1']}, 'chief')
    with pytest.raises(ValueError, match='needs TensorFlow 2.15 or older: use it on one machine without TF_CONFIG'):
        tf.estimator.RunConfig(train_distribute=strategy)


def private_names():
    """Returns what the modules of tensorflow-estimator look up in tensorflow.python's modules, TPU code aside."""
    importlib.import_module('tensorflow_estimator.python.estimator.keras_lib')
    names = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith('tensorflow_estimator.') or '.tpu' in name or not getattr(module, '__file__', None):
            continue
        with open(module.__file__, encoding='utf-8') as file:
            nodes = list(ast.walk(ast.parse(file.read())))
        imported = {
            alias.asname or alias.name: f'{node.module}.{alias.name}'
            for node in nodes
            if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('tensorflow.python')
            for alias in node.names
        }
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
                with contextlib.suppress(ImportError):
                    importlib.import_module(imported[node.value.id])
                    names.setdefault(imported[node.value.id][len('tensorflow.python.') :], set()).add(node.attr)
    return names


def test_the_list_of_what_is_checked_is_complete():
    wanted = private_names()
    del wanted['distribute.estimator_training']
    wanted['distribute'] = set()
    wanted['util.tf_export'] |= {'API_ATTRS', 'API_ATTRS_V1', '_Attributes'}
    wanted['util.tf_export'].remove('ESTIMATOR_API_NAME')
    assert {name: set(attributes.split()) for name, attributes in tf_estimator.requirements.PRIVATE_NAMES.items()} == wanted


# Below, each test starts processes of its own, in which nothing of this process's TensorFlow is set up.


def launch(*arguments, cwd=None, **environment):
    """Starts Python; PYTHONPATH has this project, and SIGINT does what it does at a terminal."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ('TF_CONFIG', 'TF_CPP_MIN_LOG_LEVEL', 'TF_USE_LEGACY_KERAS')
    }
    start = 'import os, signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nos.execv(sys.executable, sys.argv[1:])\n'
    return subprocess.Popen(
        [sys.executable, '-c', start, sys.executable, *arguments],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**kept, 'PYTHONPATH': ROOT, **environment},
    )


def finish(process, timeout=120):
    """Returns a process's exit code, stdout and stderr; ends it if it does not end in time."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


def run_script(script, *arguments, cwd=None):
    return finish(launch('-m', 'tf_estimator', str(script), *arguments, cwd=cwd))


def unlike_info(err):
    """Returns the lines of stderr that are not the Estimator's own."""
    err = re.sub("'_session_config': .*?, '_keep", "'_keep", err, flags=re.DOTALL)  # A protobuf, over several lines.
    return [line for line in err.splitlines() if not re.match(f'INFO:tensorflow:|{UNREACHABLE}', line)]


@pytest.fixture
def old_program(tmp_path):
    """A copy of an old program, beside a module of its own that is called as this project's package is."""
    program = tmp_path / 'program'
    program.mkdir()
    (program / 'common.py').write_text('STEPS = 3\n')
    return shutil.copy(os.path.join(SCRIPTS, 'old_program.py'), program)


def test_an_old_script_runs_unchanged_from_anywhere_and_without_noise(old_program, tmp_path):
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    script = os.path.relpath(old_program, elsewhere)
    code, out, err = run_script(script, '--model_dir', 'model', 'one', 'two words', cwd=elsewhere)
    assert code == 7, err
    assert out == f"__main__ old_program.py {script} ['one', 'two words'] 1.75\n"
    assert len(list((elsewhere / 'model' / 'export').iterdir())) == 1
    # A warning is its message and the line of code. Nothing else is there but the Estimator's own lines.
    first, _, second, _, logged = unlike_info(err)
    assert first.endswith('UserWarning: `my.layer` is deprecated and will be removed in a future version.')
    assert second.endswith('RuntimeWarning: A tensor of mine is large.')
    assert logged == (
        'WARNING:tensorflow:From me: my flag is deprecated and will be removed. Instructions for updating: drop it.'
    )
    assert err.count('Saving dict for global step 3: error = 0.375, global_step = 3, loss = 0.15625\n') == 1
    assert err.count('\nINFO:tensorflow:loss = 10.0, step = ') == 1


def test_flags_and_app_run_work_and_log_each_line_once(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text("""
import tensorflow.compat.v1 as tf
tf.flags.DEFINE_integer('code', 0, 'What to exit with.')
def main(argv):
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.logging.info('my info')
    tf.logging.warning('my deprecated warning')
    print(argv[1:], tf.estimator.ModeKeys.TRAIN)
    return tf.flags.FLAGS.code
if __name__ == '__main__':
    tf.app.run()
""")
    code, out, err = run_script(script, '--code=3', 'x')
    assert (code, out) == (3, "['x'] train\n")
    assert [line.split('] ')[-1] for line in err.splitlines()] == ['my info', 'my deprecated warning']


def test_a_script_that_raises_shows_its_traceback(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text('def fail():\n    raise KeyError("mine")\n\nfail()\n')
    code, out, err = run_script(script)
    assert (code, out) == (1, '')
    assert err.endswith(f"""File "{script}", line 2, in fail\n    raise KeyError("mine")\nKeyError: 'mine'\n""")


def test_ctrl_c_ends_a_script_as_it_ends_python(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text('import time\nprint("ready", flush=True)\ntime.sleep(60)\n')
    process = launch('-m', 'tf_estimator', str(script))
    assert process.stdout.readline() == 'ready\n'
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process, timeout=30)
    assert code == -signal.SIGINT
    assert err.endswith('KeyboardInterrupt\n')


@pytest.mark.parametrize(
    'arguments, problem',
    [
        ([], 'SCRIPT is missing: python -m tf_estimator SCRIPT ARGS...'),
        (['none.py', '--flag'], 'none.py: no such file'),
        ([ROOT], f'{ROOT}: no such file'),
    ],
)
def test_a_missing_script_is_one_line_and_exit_code_2(arguments, problem):
    code, out, err = finish(launch('-m', 'tf_estimator', *arguments))
    assert (code, out, err) == (2, '', f'python -m tf_estimator: {problem}\n')


def test_a_mirrored_strategy_learns_from_the_examples_of_all_devices(tmp_path):
    code, out, err = finish(launch(os.path.join(SCRIPTS, 'mirrored.py'), str(tmp_path)))
    assert code == 0, err
    learned = {'slope': slope_after(3), 'loss': loss_after(3), 'global_step': 3}
    assert json.loads(out) == {'devices': ['CPU:0', 'CPU:1'], **learned}
    assert not unlike_info(err)


def wait_for(path, process):
    """Waits until a file is there, or a process has ended, or a minute is over."""
    for _ in range(600):
        if path.exists() or process.poll() is not None:
            return
        time.sleep(0.1)


@contextlib.contextmanager
def cluster(model_dir):
    """Starts a cluster of one task a job, and ends what is left of it; yields {job: process}."""
    jobs = ['ps', 'chief', 'evaluator', 'worker']
    with contextlib.ExitStack() as stack:
        sockets = {job: stack.enter_context(socket.socket()) for job in jobs if job != 'evaluator'}
        for unused in sockets.values():
            unused.bind(('127.0.0.1', 0))
        addresses = {job: [f'127.0.0.1:{unused.getsockname()[1]}'] for job, unused in sockets.items()}
    tasks = {}
    try:
        for job in jobs:
            if job == 'worker':  # If it comes before the chief is ready, it tries again only after 30 seconds.
                wait_for(model_dir / 'checkpoint', tasks['chief'])
            tf_config = json.dumps({'cluster': addresses, 'task': {'type': job, 'index': 0}})
            tasks[job] = launch(os.path.join(SCRIPTS, 'cluster_task.py'), str(model_dir), TF_CONFIG=tf_config)
        yield tasks
    finally:
        for task in tasks.values():
            task.kill()
            task.communicate()


def test_a_cluster_trains_on_its_parameter_server_and_evaluates(tmp_path):
    with cluster(tmp_path) as tasks:
        ended = {job: finish(tasks[job]) for job in ('chief', 'worker', 'evaluator')}
        assert tasks['ps'].poll() is None  # A parameter server of tf.estimator does not end by itself.
    for job, (code, out, err) in ended.items():
        assert code == 0, f'{job}: {err}'
        # The Estimator itself warns: of an evaluation before the first checkpoint, of a step that others have not left.
        assert all(re.match('WARNING:tensorflow:(?!From )', line) for line in unlike_info(err)), err
        assert out == ('slope on \n' * out.count('\n') if job == 'evaluator' else 'slope on /job:ps/task:0\n')
    evaluations = re.findall(r'Saving dict for global step (\d+): .*loss = ([-.e\d]+)', ended['evaluator'][2])
    assert int(evaluations[-1][0]) >= 200
    assert float(evaluations[-1][1]) < 1e-4
    assert tf.train.load_variable(str(tmp_path), 'slope') == pytest.approx(2, abs=0.01)


@not_on_2_15
def test_what_is_missing_is_named_with_the_versions_that_work():
    code, out, err = finish(launch(os.path.join(SCRIPTS, 'broken_imports.py')))
    assert code == 0, err
    messages = json.loads(out)
    cure = (
        'This needs TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0: pip install "tensorflow>=2.15,<2.22" '
        '"tf-keras>=2.15,<2.22" tensorflow-estimator==2.15.0'
    )
    here = f'TensorFlow {tf.__version__} has no'
    assert messages == {
        'no TensorFlow': f'TensorFlow is not installed. {cure}',
        'no tf-keras': f'The package tf-keras is missing. {cure}',
        'no tensorflow-estimator': f'The package tensorflow-estimator is missing. {cure}',
        'other tensorflow-estimator': f'tensorflow-estimator is 2.14.0. {cure}',
        'no symbol': f'{here} tensorflow.python.training.evaluation._evaluate_once. {cure}',
        'no module': f'{here} module tensorflow.python.training.device_setter. {cure}',
        'protobuf 7': 'TensorFlow 2.20 does not work with protobuf 7: pip install "protobuf<7"',
        'old TensorFlow': f'TensorFlow 2.14.1 is too old. {cure}',
        'nothing': None,
    }


@not_on_2_15
def test_what_tensorflow_estimator_cannot_import_is_named_with_the_versions_that_work():
    code, _, err = finish(
        launch(
            '-c',
            """
import tensorflow
from tensorflow.python.training import saver
del saver.BaseSaverBuilder
import tf_estimator
""",
            TF_USE_LEGACY_KERAS='1',
        )
    )
    assert code == 1
    assert re.match(
        r"ImportError: tensorflow-estimator does not load on TensorFlow .*'BaseSaverBuilder'.* This needs "
        'TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0: pip install',
        err.splitlines()[-1],
    )


@not_on_2_15
def test_keras_3_loaded_first_is_named():
    code, out, err = finish(launch('-c', 'import keras\nimport tf_estimator'))
    assert (code, out) == (1, '')
    assert err.endswith(
        'ImportError: TensorFlow was imported before tf_estimator, and with it Keras 3: import tf_estimator first.\n'
    )


@not_on_2_15
def test_the_script_runner_says_in_one_line_what_is_missing(tmp_path):
    (tmp_path / 'tf_keras.py').write_text('')
    (tmp_path / 'sitecustomize.py').write_text(
        'import importlib.util\n'
        'find = importlib.util.find_spec\n'
        'importlib.util.find_spec = lambda name, package=None: None if name == "tf_keras" else find(name, package)\n'
    )
    code, _, err = finish(launch('-m', 'tf_estimator', __file__, PYTHONPATH=f'{tmp_path}{os.pathsep}{ROOT}'))
    assert code == 1
    assert len(err.splitlines()) == 1
    assert err.startswith('python -m tf_estimator: The package tf-keras is missing. This needs TensorFlow 2.15')


def test_a_second_import_changes_nothing_and_the_native_log_can_be_had_back():
    code, out, err = finish(
        launch(
            '-c',
            """
import sys
import tf_estimator
import tensorflow as tf
before = tf.estimator, tf.compat.v1.estimator.tpu.TPUEstimator.__init__
del sys.modules['tf_estimator']
import tf_estimator
assert (tf.estimator, tf.compat.v1.estimator.tpu.TPUEstimator.__init__) == before
""",
            TF_CPP_MIN_LOG_LEVEL='0',
        )
    )
    assert (code, out) == (0, ''), err
    assert 'oneDNN' in err or 'cuda' in err

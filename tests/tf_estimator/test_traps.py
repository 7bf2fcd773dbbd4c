"""Estimator's traps are said, or do what the program meant."""

import contextlib
import gc
import os
import types

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator.traps import inputs

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import early_stopping, training

from tests.tf_estimator.programs import run_fresh

est = tf.estimator


def model_fn(features, labels, mode, params):
    y = tf.layers.dense(tf.layers.dense(features['x'], 2, name='hidden'), 1, name=params.get('name', 'last'))
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, {'y': y})
    loss = tf.losses.mean_squared_error(labels, y)
    optimizer = params.get('optimizer') or tf.train.GradientDescentOptimizer(0.0)
    return est.EstimatorSpec(mode, {'y': y}, loss, optimizer.minimize(loss, tf.train.get_global_step()))


def make(directory, warm_start=None, keep=5, **params):
    config = est.RunConfig(str(directory), save_checkpoints_steps=2, keep_checkpoint_max=keep)
    return est.Estimator(model_fn, config=config, params=params, warm_start_from=warm_start)


def data(rows=4, repeats=None):
    tensors = ({'x': np.ones([4, 3], np.float32)}, np.ones([4, 1], np.float32))
    return lambda: tf.data.Dataset.from_tensors(tensors).take(rows).repeat(repeats)


def serving():
    x = tf.placeholder(tf.float32, [None, 3])
    return est.export.ServingInputReceiver({'x': x}, x)


def test_training_that_ends_early_or_does_nothing_says_why(tmp_path, caplog):
    make(tmp_path).train(data(repeats=3), max_steps=10)
    assert 'The training input has ended at step 3, and so has the training. Dataset.repeat() goes on.' in caplog.messages
    make(tmp_path).train(data(), max_steps=2)
    assert f'{tmp_path} is at step 3: nothing is trained up to max_steps=2. Raise it to go on.' in caplog.messages
    make(tmp_path).train(data(rows=0), steps=2)
    assert 'The training input is empty: nothing was trained.' in caplog.messages
    caplog.clear()
    make(tmp_path).train(data(), max_steps=5)
    make(tmp_path).train(data(repeats=2))  # Until its input ends, as is meant.
    assert [record for record in caplog.records if 'traps' in record.pathname] == []
    make(tmp_path).train(data(rows=0))
    assert caplog.messages[-1] == 'The training input is empty: nothing was trained.'


def test_an_empty_evaluation_and_predictions_without_weights_are_errors(tmp_path):
    estimator = make(tmp_path / 'none')
    message = 'none has no checkpoint: its predictions would be random. Train first, or mend the path'
    with pytest.raises(ValueError, match=message):
        next(estimator.predict(data(repeats=1)))

    make(tmp_path / 'other').train(data(), steps=1)
    with pytest.raises(ValueError, match='The evaluation input is empty: there is nothing to evaluate'):
        make(tmp_path / 'other').evaluate(data(rows=0))
    assert len([*make(tmp_path / 'other').predict(data(repeats=1))]) == 4


class Restore(tf.train.SessionRunHook):
    def __init__(self, checkpoint):
        self._checkpoint = checkpoint

    def begin(self):
        self._saver = tf.train.Saver(tf.trainable_variables())

    def after_create_session(self, session, coord):
        self._saver.restore(session, self._checkpoint)


@pytest.mark.parametrize('way', ['init_from_checkpoint', 'warm_start', 'init_fn', 'local_init_op', 'hook', 'constant'])
def test_predictions_of_a_model_that_sets_its_weights_need_no_checkpoint(tmp_path, caplog, way):
    trained = make(tmp_path / 'trained').train(data(), steps=1)
    checkpoint = trained.latest_checkpoint()

    def weights_of_its_own(features, labels, mode, params):
        if way == 'constant':
            return est.EstimatorSpec(mode, {'y': tf.layers.dense(features['x'], 1, kernel_initializer=tf.ones_initializer())})
        spec = model_fn(features, labels, mode, params)
        if way == 'init_from_checkpoint':
            tf.train.init_from_checkpoint(checkpoint, {'hidden/': 'hidden/', 'last/': 'last/'})
        elif way == 'hook':
            spec = spec._replace(prediction_hooks=[Restore(checkpoint)])
        else:
            values = {variable: trained.get_variable_value(variable.op.name) for variable in tf.trainable_variables()}
            if way == 'init_fn':
                init = {'init_fn': lambda _, session: [variable.load(value, session) for variable, value in values.items()]}
            else:
                init = {'local_init_op': tf.group(*(variable.assign(value) for variable, value in values.items()))}
            spec = spec._replace(scaffold=tf.train.Scaffold(**init))
        return spec

    own = est.Estimator(weights_of_its_own, str(tmp_path / 'own'), params={})
    own = make(tmp_path / 'own', str(tmp_path / 'trained')) if way == 'warm_start' else own
    predictions = own.predict(data(repeats=1))
    expected = [[3.0]] * 4 if way == 'constant' else [found['y'] for found in trained.predict(data(repeats=1))]
    np.testing.assert_allclose([found['y'] for found in predictions], expected)
    warning = 'own has no checkpoint: predictions are random, unless a hook sets the weights.'
    assert (warning in caplog.text) == (way == 'hook')


def test_a_warm_start_initializes_new_variables_and_names_them(tmp_path, caplog):
    old = make(tmp_path / 'old').train(data(), steps=1)
    new = make(tmp_path / 'new', est.WarmStartSettings(str(tmp_path / 'old')), name='other').train(data(), steps=1)
    np.testing.assert_array_equal(*(each.get_variable_value('hidden/kernel') for each in (old, new)))
    assert f'{tmp_path}/old lacks other/bias, other/kernel: their initializers are used.' in caplog.messages


@pytest.mark.parametrize('throttle, every', [(0, None), (600, None), (0, 100)])
def test_early_stopping_joins_an_old_run_exports_at_its_end_and_names_missed_evaluations(tmp_path, caplog, throttle, every):
    make(tmp_path).train(data(), max_steps=2)
    estimator = make(tmp_path)
    hook = est.experimental.stop_if_no_decrease_hook(estimator, 'loss', 3, run_every_secs=None, run_every_steps=1)
    train = est.TrainSpec(data(), 12, [hook])
    exporter = est.FinalExporter('final', serving)
    by_steps = {'every_steps': every} if every else {'throttle_secs': throttle}
    evaluate = est.EvalSpec(data(repeats=1), exporters=exporter, start_delay_secs=0, **by_steps)
    est.train_and_evaluate(estimator, train, evaluate)
    step = estimator.get_variable_value('global_step')
    assert len(os.listdir(tmp_path / 'export' / 'final')) == 1
    count, pause, cure = (5, '100 steps', 'every_steps=1') if every else (4, '600 seconds', 'throttle_secs=0')
    missed = f'Early stopping has not seen {count} of 5 checkpoints, as they are evaluated every {pause} at most.'
    said = f'Training has ended at step {step}, before max_steps=12: FinalExporter exports it.'
    found = [message for message in caplog.messages if message.startswith(('Early stopping has', 'Training has ended'))]
    assert (step == 12, found) == (
        (True, [f'{missed} EvalSpec({cure}) evaluates each.']) if throttle or every else (False, [said])
    )


@pytest.mark.parametrize('is_distributed', [False, True])
def test_early_stopping_takes_a_scaffold_with_ops_of_its_own_and_starts_anew_each_time(tmp_path, is_distributed):
    def own_ops(features, labels, mode, params):
        tf.get_variable('count', [], initializer=tf.zeros_initializer(), collections=[tf.GraphKeys.LOCAL_VARIABLES])
        spec = model_fn(features, labels, mode, params)
        return spec._replace(scaffold=tf.train.Scaffold(local_init_op=tf.local_variables_initializer()))

    strategy = tf.distribute.MirroredStrategy(['/cpu:0']) if is_distributed else None
    config = est.RunConfig(str(tmp_path), train_distribute=strategy)
    estimator = est.Estimator(own_ops, config=config, params={})
    steps = []
    for _ in range(2):
        answers = iter([False, True]).__next__
        hook = est.experimental.make_early_stopping_hook(estimator, answers, None, 1)
        estimator.train(data(), hooks=[hook], max_steps=20)
        steps.append(estimator.get_variable_value('global_step'))
        assert not [name for name in estimator.get_variable_names() if 'STOP' in name]
    assert steps == ([3, 6] if is_distributed else [2, 4])


def test_a_task_beside_the_chief_reads_that_training_goes_on_until_the_chief_says_otherwise():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.create_global_step()
        chief, other = early_stopping._StopOnPredicateHook(bool), early_stopping._CheckForStoppingHook()
        chief.begin()
        other.begin()
        read = lambda: session.run(other.before_run(None).fetches)  # noqa: E731
        assert not read()
        chief.after_create_session(session, None)
        assert not read()
        session.run(chief._stop_op)
        assert read()


@pytest.mark.parametrize('when, end', [('before the evaluation', ''), ('before the export', ''), ('before the export', '/')])
def test_an_evaluator_goes_on_if_the_training_deletes_its_checkpoint(tmp_path, caplog, when, end):
    class Train(tf.train.SessionRunHook):  # As the chief does meanwhile, which keeps one checkpoint.
        def begin(self):
            if when == 'before the evaluation':
                make(tmp_path, keep=1).train(data(), max_steps=4)

        def end(self, session):
            make(tmp_path, keep=1).train(data(), max_steps=4)

    best = est.BestExporter('best', serving, compare_fn=lambda best_eval_result, current_eval_result: False)
    make(tmp_path, keep=1).train(data(), max_steps=2)
    spec = est.EvalSpec(data(), steps=1, hooks=[Train()], exporters=best, start_delay_secs=0, throttle_secs=0)
    training._TrainingExecutor(make(f'{tmp_path}{end}'), est.TrainSpec(data(), 4), spec).run_evaluator()
    assert len(list(tmp_path.glob('export/best/*/saved_model.pb'))) == 1
    warning = f'{tmp_path}/model.ckpt-2 has been deleted while it was evaluated or exported'
    assert [message.partition(':')[0] for message in caplog.messages if 'has been deleted' in message] == [warning]


@pytest.mark.parametrize('message', ['The export is wrong', 'The export of {0} is wrong', 'The export to {1}/temp-1 is wrong'])
def test_an_error_of_an_export_whose_checkpoint_is_there_ends_an_evaluator(tmp_path, message):
    class Wrong(est.Exporter):
        name = 'wrong'

        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
            raise ValueError(message.format(checkpoint_path, export_path))

    make(tmp_path).train(data(), max_steps=2)
    spec = est.EvalSpec(data(), steps=1, exporters=[Wrong()], start_delay_secs=0, throttle_secs=0)
    with pytest.raises(ValueError, match='^The export'):
        training._TrainingExecutor(make(tmp_path), est.TrainSpec(data(), 4), spec).run_evaluator()


def test_a_best_exporter_compares_with_its_last_export_not_with_one_that_failed(tmp_path):
    estimator = make(tmp_path)
    estimator.train(data(), max_steps=2)
    best = est.BestExporter('best', serving)

    def export(loss, checkpoint):
        return best.export(estimator, str(tmp_path / 'best'), str(tmp_path / checkpoint), {'loss': loss}, False)

    assert export(3.0, 'model.ckpt-2')
    with pytest.raises(ValueError, match='not a valid checkpoint'):
        export(1.0, 'deleted')
    assert export(2.0, 'model.ckpt-2')
    assert not export(2.5, 'model.ckpt-2')


def test_a_training_without_max_steps_exports_at_the_end_of_its_input(tmp_path, caplog):
    spec = est.EvalSpec(data(), steps=1, exporters=est.FinalExporter('final', serving), throttle_secs=0)
    est.train_and_evaluate(make(tmp_path), est.TrainSpec(data(repeats=3)), spec)
    assert len(os.listdir(tmp_path / 'export' / 'final')) == 1
    assert 'Training has ended at step 3: FinalExporter exports it.' in caplog.messages


def test_several_evaluations_each_have_a_name_metrics_and_exports(tmp_path):
    estimator = make(tmp_path)
    specs = [
        est.EvalSpec(data(rows), name=name, steps=1, throttle_secs=0, exporters=est.FinalExporter(name, serving))
        for name, rows in (('all', 4), ('few', 1))
    ]
    metrics, exports = est.train_and_evaluate(estimator, est.TrainSpec(data(), 2), specs)
    assert {*metrics} == {'loss', 'global_step', 'few/loss', 'few/global_step'} and metrics['loss'] == metrics['few/loss']
    assert [path.split(b'/')[-2] for path in exports] == [b'all', b'few']
    assert all((tmp_path / f'eval_{name}').is_dir() for name in ('all', 'few'))
    est.train_and_evaluate(estimator, est.TrainSpec(data(repeats=1), 9), specs)  # Ends early.
    assert [len(os.listdir(tmp_path / 'export' / name)) for name in ('all', 'few')] == [2, 2]
    with pytest.raises(ValueError, match="Each of several EvalSpecs needs a name of its own, not \\['all', 'all'\\]"):
        est.train_and_evaluate(estimator, est.TrainSpec(data(), 2), [specs[0]] * 2)
    with pytest.raises(ValueError, match="Each of several exporters needs a name of its own, not \\['all', 'all'\\]"):
        est.train_and_evaluate(estimator, est.TrainSpec(data(), 2), [specs[0], specs[0]._replace(name='other')])


@pytest.mark.parametrize('kind, way', [('today', 'minimize'), ('today', 'apply'), ('legacy', 'get_updates')])
def test_an_optimizer_of_keras_that_would_train_nothing_in_a_graph_says_what_to_use(kind, way, tmp_path):
    def own(features, labels, mode):
        w = tf.get_variable('w', [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean((features * w - 1) ** 2)
        optimizer = (tf2.keras.optimizers.legacy if kind == 'legacy' else tf2.keras.optimizers).SGD(0.1)
        optimizer.iterations = tf.train.get_global_step()
        if way == 'apply':
            op = optimizer.apply_gradients([(tf.gradients(loss, w)[0], w)])
        else:
            op = optimizer.minimize(loss, [w]) if way == 'minimize' else optimizer.get_updates(loss, [w])[0]
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    estimator = est.Estimator(own, str(tmp_path))
    works = contextlib.nullcontext()
    refused = pytest.raises(
        ValueError, match='SGD does not train in a model_fn. Use that of tf.compat.v1.train, or optimizer ='
    )
    with works if kind == 'legacy' else refused:
        estimator.train(lambda: tf.data.Dataset.from_tensors(np.float32([1, 2])).repeat(), max_steps=5)
        # Each step is w -= 0.1 * (5 w - 3).
        np.testing.assert_allclose(estimator.get_variable_value('w'), 0.6 * (1 - 0.5**5), rtol=1e-6)


def make_of_keras(directory):
    layers = [tf2.keras.layers.Dense(2, activation='swish'), tf2.keras.layers.Dense(1)]  # With a gradient of its own.
    model = tf2.keras.Sequential([tf2.keras.layers.InputLayer([3], name='x'), *layers])
    model.compile(tf2.keras.optimizers.legacy.Adam(), 'mse')
    return tf2.keras.estimator.model_to_estimator(model, model_dir=str(directory))


@pytest.mark.parametrize('is_of_keras', [False, True])
def test_optimizers_and_gradients_that_outlive_graphs_do_not_keep_them(tmp_path, is_of_keras):
    estimator = make_of_keras(tmp_path) if is_of_keras else make(tmp_path, optimizer=tf.train.AdamOptimizer())
    counts = []
    for _ in range(4):
        estimator.train(data(), steps=1)
        estimator.evaluate(data(), steps=1)
        assert len([*estimator.predict(data(repeats=1, rows=1))]) == 4
        gc.collect()
        counts.append(sum(isinstance(found, tf.Graph) for found in gc.get_objects()))
    assert counts[3] <= counts[1]  # From the second evaluation on, its graph is kept.


def test_a_gradient_that_a_program_registers_once_stays(tmp_path):
    registered = []

    def own(features, labels, mode, params):
        if not registered:
            registered.append(tf.RegisterGradient('Doubled')(lambda op, gradient: 2 * gradient))
        w = tf.get_variable('w', initializer=1.0)
        with tf.get_default_graph().gradient_override_map({'Identity': 'Doubled'}):
            loss = tf.identity(w)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train)

    estimator = est.Estimator(own, str(tmp_path), params={})
    for _ in range(2):
        estimator.train(data(), steps=1)
    assert estimator.get_variable_value('w') == pytest.approx(1 - 2 * 0.2)


def test_what_is_gone_says_what_replaces_it_and_as_it_was_keeps_all(tmp_path):
    with pytest.raises(NotImplementedError, match='tf.estimator.BoostedTreesClassifier: .* tensorflow_decision_forests has'):
        tf.estimator.BoostedTreesClassifier([], 1)
    script = tmp_path / 'script.py'
    script.write_text("""
import numpy as np, sys, tensorflow as tf
v1 = tf.compat.v1
def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode, {'y': v1.layers.dense(features, 1)})
estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
print(len(list(estimator.predict(lambda: tf.data.Dataset.from_tensors(np.ones([2, 3], np.float32))))))
""")
    code, out, _ = run_fresh('-m', 'tf_estimator', '--exact', '--as_it_was', script, tmp_path / 'none')
    assert (code, out) == (0, '2\n')


class StringDtype:
    """That of pandas, which is no package of the tests."""


class Strings:
    """A column of pandas."""

    dtype, shape = StringDtype(), (3,)

    def astype(self, kind):
        return np.array(['b', 'a', 'b'], kind)


def test_strings_as_pandas_has_them_since_3_0_are_fed():
    input_fn = tf.estimator.inputs.numpy_input_fn({'s': Strings(), 'x': np.arange(3)}, np.arange(3), shuffle=False)
    with tf.Graph().as_default():
        batch = input_fn()
        with tf.train.MonitoredSession() as session:
            features, labels = session.run(batch)
    assert features['s'].tolist() == [b'b', b'a', b'b'] and features['x'].tolist() == labels.tolist() == [0, 1, 2]


def test_a_table_of_pandas_is_enqueued_with_objects_in_place_of_strings():
    table, found = types.SimpleNamespace(index=Strings(), dtypes={'s': StringDtype(), 'x': np.dtype(int)}), []
    table.astype = lambda kinds: found.append(kinds) or table
    table.set_axis = lambda index: found.append(index.tolist()) or 'the table'
    assert inputs.with_objects(table) == 'the table' and found == [{'s': object}, ['b', 'a', 'b']]

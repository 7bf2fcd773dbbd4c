"""An Estimator with a `train` of its own, which trains others, each with another graph, from command lines to results."""

import contextlib
import json
import textwrap
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.plugins import own_train
from tests import own_module
from tests.shared import assert_equal, read_weights

# Like adanet's, it trains one layer more in each iteration, by hooks, and writes the checkpoint again for the next one.
PROGRAM = textwrap.dedent("""
    import tempfile

    import numpy as np
    import tensorflow.compat.v1 as tf

    fails = False

    def points(seed):
        x = np.random.RandomState(seed).uniform(-1, 1, [40, 2]).astype(np.float32)
        return {'x': x}, x @ np.array([[1], [2]], np.float32)

    def input_fn(split, params):
        dataset = tf.data.Dataset.from_tensor_slices(points(split == 'eval'))
        return dataset.shuffle(30).repeat().batch(8) if split == 'train' else dataset.batch(16)

    class Train(tf.train.SessionRunHook):
        def __init__(self, op):
            self._op = op

        def before_run(self, run_context):
            return tf.train.SessionRunArgs(self._op)

    class Count(tf.train.SessionRunHook):
        def begin(self):
            self._op = tf.train.get_global_step().assign_add(1).op

        def after_run(self, run_context, run_values):
            run_context.session.run(self._op)

    def network(iteration):
        def model_fn(features, labels, mode):
            y = tf.add_n([tf.layers.dense(features['x'], 1, name=f'layer{i}') for i in range(iteration + 1)])
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, {'y': y})
            loss = tf.losses.mean_squared_error(labels, y, features.get('weight', 1.0))
            newest = tf.trainable_variables(f'layer{iteration}/')
            hooks = {}
            if mode == tf.estimator.ModeKeys.TRAIN:
                op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=newest)
                hooks = {'training_hooks': [Train(op)], 'training_chief_hooks': [Count()]}
            metrics = {'error': tf.metrics.mean_absolute_error(labels, y)}
            local = tf.train.Scaffold(local_init_op=tf.local_variables_initializer())
            return tf.estimator.EstimatorSpec(
                mode, {'y': y}, loss, tf.no_op(), eval_metric_ops=metrics, scaffold=local, **hooks
            )

        return model_fn

    class InTurns(tf.estimator.Estimator):
        def train(self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
            while True:
                iteration = iteration_of(self.latest_checkpoint())
                end = min(6 * (iteration + 1), max_steps)
                alone = tf.estimator.Estimator(network(iteration), config=self.config)
                alone.train(input_fn, hooks, max_steps=end, saving_listeners=saving_listeners)
                if end == max_steps:
                    return self
                self._grow(iteration + 1, input_fn)

        def predict(self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None, yield_single_examples=True):
            alone = tf.estimator.Estimator(network(iteration_of(checkpoint_path)), config=self.config)
            return alone.predict(input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples)

        def _grow(self, iteration, input_fn):
            def model_fn(features, labels, mode):
                network(iteration)(features, labels, tf.estimator.ModeKeys.EVAL)
                step, hooks = tf.train.get_global_step().assign_add(1).op, [Grow(self, iteration)]
                return tf.estimator.EstimatorSpec(mode, loss=tf.zeros([]), train_op=step, training_hooks=hooks)

            config = tf.estimator.RunConfig(tempfile.mkdtemp(), tf_random_seed=1)
            tf.estimator.Estimator(model_fn, config=config).train(input_fn, max_steps=1)
            if fails:
                raise RuntimeError('as if it was killed here')

    class Grow(tf.train.SessionRunHook):
        def __init__(self, estimator, iteration):
            self._estimator, self._iteration = estimator, iteration

        def begin(self):
            known = dict(tf.train.list_variables(self._estimator.latest_checkpoint()))
            self._old = tf.train.Saver([each for each in tf.global_variables() if each.op.name in known])
            self._all = tf.train.Saver()

        def after_create_session(self, session, coord):
            self._old.restore(session, self._estimator.latest_checkpoint())
            self._all.save(session, self._estimator.model_dir + '/increment.ckpt', self._iteration)

    def iteration_of(checkpoint):
        return sum(name.endswith('kernel') for name, _ in tf.train.list_variables(checkpoint)) - 1 if checkpoint else 0

    def estimator(config, params):
        return InTurns(network(0), config=config)
""")
FLAGS = ('--model=turns.program', '--dataset=turns.program', '--save_checkpoints_steps=4', '--eval_every_steps=4')


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Returns the imported PROGRAM, which --model and --dataset name program."""
    monkeypatch.setattr(tf.estimator.Estimator, '_assert_members_are_not_overridden', staticmethod(lambda self: None))
    return own_module.imported(PROGRAM, 'turns', tmp_path, monkeypatch)


def test_one_thread_at_a_time_replaces_a_method_of_all_estimators(tmp_path):
    def predict(input_fn, checkpoint_path):
        assert own_train._AT.locked()
        trained.predict(input_fn, checkpoint_path=checkpoint_path)

    trained = tf.estimator.Estimator(lambda features: None, str(tmp_path))
    given = own_train.OwnTrain(mock.Mock(predict=predict), '', lambda model_fn: model_fn, contextlib.nullcontext)
    assert given.at('checkpoint').model_dir == str(tmp_path)


def output(weights, iterations):
    """Returns what the first layers predict for the evaluated points."""
    x = np.random.RandomState(1).uniform(-1, 1, [40, 2]).astype(np.float32)
    return sum(x @ weights[f'layer{i}/kernel'] + weights[f'layer{i}/bias'] for i in range(iterations)), x


def test_it_trains_evaluates_predicts_exports_and_resumes_exactly(run, program, tmp_path):
    flags = (*FLAGS, '--train_steps=14', '--best_metric=error:min')
    code, expected, err = run(*flags, output_dir=tmp_path / 'whole')
    assert code == 0, err
    program.fails = True
    assert run(*flags)[0] == 1
    program.fails = False
    assert run(*FLAGS, '--train_steps=9')[0] == 0
    code, result, err = run(*flags)
    assert code == 0 and 'anew' not in err, err
    weights = read_weights(tmp_path / 'output' / 'model.ckpt-14')
    assert_equal(weights, read_weights(tmp_path / 'whole' / 'model.ckpt-14'))
    assert {f'layer{i}/kernel' for i in range(3)} <= weights.keys() and result['eval'] == expected['eval']

    y, x = output(weights, 3)
    error = np.abs(y - x @ [[1], [2]]).mean()
    assert result['eval']['error'] == pytest.approx(error, rel=1e-4)
    early = tmp_path / 'output' / 'model.ckpt-4'
    assert run(*FLAGS, '--schedule=train', '--train_steps=4', output_dir=tmp_path / 'short')[0] == 0
    assert_equal(read_weights(early), read_weights(tmp_path / 'short'))  # It was saved once its step was counted.
    code, result, err = run('--schedule=evaluate', f'--checkpoint={early}')
    assert code == 0, err
    y, _ = output(read_weights(early), 1)
    assert result['eval']['error'] == pytest.approx(np.abs(y - x @ [[1], [2]]).mean(), rel=1e-4)
    code, result, err = run('--schedule=predict', f'--checkpoint={early}')
    assert code == 0, err
    with open(result['predictions']) as file:
        np.testing.assert_allclose([json.loads(line)['y'] for line in file], y, rtol=1e-4)

    predictor = api.load(tmp_path / 'output').predictor(str(early))
    np.testing.assert_allclose(predictor.predict({'x': x})['y'], y, rtol=1e-4)
    predictor.reload()  # It has two layers more.
    np.testing.assert_allclose(predictor.predict({'x': x})['y'], output(weights, 3)[0], rtol=1e-4)

    code, result, err = run('--schedule=export', '--checkpoint=latest')
    assert code == 0, err
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], result['export']).signature_def['serving_default']
        found = session.run(signature.outputs['y'].name, {signature.inputs['x'].name: x})
    np.testing.assert_allclose(found, output(weights, 3)[0], rtol=1e-4)

    code, _, err = run('--schedule=verify')
    assert code == 2 and 'estimator() has a train() of its own, which excludes this command' in err.splitlines()[-1], err


# The same points, as records with an identity and a weight.
RECORDS = """
    import tensorflow.compat.v1 as tf

    from turns import program

    def prepare(data_dir, params):
        pass

    def read(split, data_dir, params):
        return tf.data.Dataset.from_tensor_slices(program.points(split == 'eval'))

    def parse(mode, params, record):
        features, y = record
        return {**features, 'example_id': tf.constant(7)}, {'y': y, 'weight': tf.abs(y)}
"""


def test_batches_of_the_framework_are_those_of_the_program_wherever_it_reads_them(run, program, tmp_path):
    (tmp_path / 'turns' / 'records.py').write_text(textwrap.dedent(RECORDS))
    flags = ('--model=turns.program', '--dataset=turns.records', '--hparams=batch_size=8', '--save_checkpoints_steps=4')
    flags = (*flags, '--schedule=train', '--train_steps=9')
    code, _, err = run(*flags, output_dir=tmp_path / 'whole')
    assert code == 0 and 'resumes trains on other' not in err and 'has no effect' not in err, err
    program.fails = True
    assert run(*flags)[0] == 1
    program.fails = False
    assert run(*flags)[0] == 0
    assert_equal(read_weights(tmp_path / 'output'), read_weights(tmp_path / 'whole'))


@pytest.mark.parametrize(
    'flag',
    [
        '--num_towers=2',
        '--steps_per_loop=2',
        '--keep_checkpoint_max=1',
        '--warm_start_from=m',
        '--overwrite',
        '--debug_numerics',
    ],
)
def test_what_needs_its_graphs_is_refused(run, program, flag):
    code, _, err = run(*FLAGS, '--train_steps=4', flag)
    assert code == 2 and 'estimator() has a train() of its own, which excludes --' in err.splitlines()[-1], err

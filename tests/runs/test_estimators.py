"""Model modules with a model_fn or an Estimator, and dataset modules with an input_fn, from command lines to results."""

import json
import textwrap

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests import own_module
from tests.shared import assert_equal, read_weights

PROGRAM = textwrap.dedent("""
    import numpy as np
    import tensorflow.compat.v1 as tf

    def points(seed):
        x = np.random.RandomState(seed).uniform(-1, 1, [40, 2]).astype(np.float32)
        return {'x': x}, x @ np.array([[1], [2]], np.float32)

    def input_fn(split, params):
        if split not in ('train', 'eval'):
            raise KeyError(split)
        dataset = tf.data.Dataset.from_tensor_slices(points(split == 'eval'))
        return dataset.repeat().batch(8) if split == 'train' else dataset.batch(16)

    def model_fn(features, labels, mode):
        y = tf.layers.dense(features['x'], 1, kernel_initializer=tf.zeros_initializer())
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {'y': y})
        loss = tf.losses.mean_squared_error(labels, y)
        metrics = {'error': tf.metrics.mean_absolute_error(labels, y)}
        train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, {'y': y}, loss, train_op, eval_metric_ops=metrics)
""")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Returns the imported PROGRAM, which --model and --dataset name program."""
    return own_module.imported(PROGRAM, 'own', tmp_path, monkeypatch)


def test_a_model_fn_trains_and_evaluates_as_in_its_own_program_resumes_predicts_and_exports(run, program, tmp_path):
    flags = ('--model=own.program', '--dataset=own.program')
    code, _, err = run(*flags, '--train_steps=10')
    assert code == 0, err
    code, result, err = run(*flags, '--train_steps=20', '--best_metric=error:min')
    assert code == 0, err

    config = tf.estimator.RunConfig(str(tmp_path / 'alone'), tf_random_seed=1)
    alone = tf.estimator.Estimator(program.model_fn, config=config)
    alone.train(lambda: program.input_fn('train', None), max_steps=20)
    weights = read_weights(tmp_path / 'output')
    assert_equal(weights, read_weights(tmp_path / 'alone'))
    metrics = alone.evaluate(lambda: program.input_fn('eval', None))
    assert result['eval'] == pytest.approx({name: metrics[name] for name in ('error', 'loss')}, rel=1e-5)
    assert (tmp_path / 'output' / 'best' / 'best.json').exists()

    code, result, err = run(*flags, '--schedule=predict')
    assert code == 0, err
    expected = program.points(1)[0]['x'] @ weights['dense/kernel'] + weights['dense/bias']
    with open(result['predictions']) as file:
        found = [json.loads(line) for line in file]
    assert [line['example'] for line in found] == [*range(40)]
    np.testing.assert_allclose([line['y'] for line in found], expected, rtol=1e-4)

    code, result, err = run(*flags, '--schedule=export')
    assert code == 0, err
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], result['export']).signature_def['serving_default']
        y = session.run(signature.outputs['y'].name, {signature.inputs['x'].name: program.points(1)[0]['x']})
    np.testing.assert_allclose(y, expected, rtol=1e-4)


def test_shuffles_and_random_ops_of_a_program_resume_exactly_also_in_loops(run, program, monkeypatch, tmp_path):
    def input_fn(split, params):
        dataset = tf.data.Dataset.from_tensor_slices(program.points(0)).shuffle(30)
        noisy = dataset.map(lambda x, y: ({'x': x['x'] + tf.random.normal([2])}, y), num_parallel_calls=2)
        return noisy.repeat().batch(8).prefetch(2)

    def model_fn(features, labels, mode):
        noisy = {'x': tf.nn.dropout(tf.layers.dense(features['x'], 2), rate=0.5) + tf.random.uniform([1, 2])}
        return plain(noisy, labels, mode)

    def carrying_model_fn(features, labels, mode):
        mean = tf.Variable([0.0, 0.0], trainable=False, collections=['local_variables'], name='mean')
        return model_fn({'x': features['x'] - tf.assign(mean, 0.9 * mean + tf.reduce_mean(features['x'], 0))}, labels, mode)

    plain = program.model_fn
    monkeypatch.setattr(program, 'input_fn', input_fn)
    monkeypatch.setattr(program, 'model_fn', model_fn)
    flags = ('--model=own.program', '--dataset=own.program', '--schedule=train')
    assert run(*flags, '--train_steps=20', output_dir=tmp_path / 'whole')[0] == 0
    for steps in (7, 13, 20):
        kept = ('--keep_checkpoint_max=1', '--keep_checkpoint_every=10')
        code, _, err = run(*flags, f'--train_steps={steps}', '--steps_per_loop=4', *kept)
        assert code == 0 and 'anew' not in err, err
    assert_equal(read_weights(tmp_path / 'output'), read_weights(tmp_path / 'whole'))
    state = tmp_path / 'output' / 'input_state'
    assert {path.name for path in (tmp_path / 'output').glob('*.index')} == {f'model.ckpt-{i}.index' for i in (0, 10, 20)}
    assert {path.name.partition('.')[0] for path in state.iterdir()} == {'10', '20'}
    for path in state.iterdir():
        path.unlink()
    monkeypatch.setattr(program, 'model_fn', carrying_model_fn)
    code, _, err = run(*flags, '--train_steps=24', '--steps_per_loop=4')
    assert code == 0 and 'WARNING The input starts anew at step 20, since its state there cannot be restored: ' in err
    assert 'not resume exactly: the local variables mean, which are in no checkpoint and begin anew. All else does.' in err


def test_towers_of_a_program_train_as_one_process_and_resume_exactly(run, program, tmp_path):
    flags = ('--model=own.program', '--dataset=own.program')
    for towers, steps, name in (
        ((), 12, 'plain'),
        (['--num_towers=2'], 12, 'whole'),
        (['--num_towers=2', '--steps_per_loop=3'], 7, 'output'),
        (['--num_towers=2', '--best_metric=error:min'], 12, 'output'),
    ):
        code, result, err = run(*flags, *towers, f'--train_steps={steps}', output_dir=tmp_path / name)
        assert code == 0, err
    assert 'its model_fn gets each batch in 2 parts, and a step takes the means' in err and 'error' in result['eval']
    found, plain = read_weights(tmp_path / 'output'), read_weights(tmp_path / 'plain')
    assert_equal(found, read_weights(tmp_path / 'whole'))
    assert found.keys() == plain.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4)


def test_an_estimator_learns_from_the_columns_of_a_table_and_takes_its_rows(run, tmp_path):
    ages = np.arange(100)
    rows = [f'{age},{"A" if age % 2 else "B"},{"old" if age > 50 else "young"}' for age in ages]
    (tmp_path / 'people.csv').write_text('\n'.join(['age in years,group,target', *rows]))
    flags = ('--model=wide_deep', '--dataset=table', f'--hparams=table_file={tmp_path / "people.csv"},hidden_units=[4]')
    code, _, err = run(*flags, '--train_steps=200', '--save_checkpoints_steps=200', '--schedule=train')
    assert code == 0, err
    names = {*read_weights(tmp_path / 'output')}
    assert {'linear/linear_model/age_in_years/weights', 'linear/linear_model/group/weights'} <= names
    (tmp_path / 'new.csv').write_text('age in years,group\n5,A\n95,B\n')
    code, result, err = run('--schedule=predict', f'--input={tmp_path / "new.csv"}')
    assert code == 0, err
    with open(result['predictions']) as file:
        assert [json.loads(line)['class_name'] for line in file] == ['young', 'old']


def test_what_needs_the_framework_to_make_the_step_or_the_batches_is_refused(run, program):
    flags = ('--model=own.program', '--dataset=own.program')
    for given, message in (
        ([], '--dataset=own.program has input_fn(), so epochs are undefined: set --train_steps'),
        (['--train_steps=5', '--freeze=dense'], '--model=own.program makes its own training step, which excludes --freeze'),
        (['--train_steps=5', '--eval_splits=test'], '--dataset=own.program: unknown split test'),
        (['--train_steps=5', '--eval_splits=train'], 'the split train is infinite: set --eval_steps'),
    ):
        code, _, err = run(*flags, *given)
        assert code == 2 and message in err.splitlines()[-1], err


def test_a_model_of_the_framework_takes_the_batches_of_an_input_fn(run, program, monkeypatch):
    flags = ('--model=mlp', '--dataset=own.program', '--train_steps=3', '--eval_steps=1')
    # Tensors, as programs had before tf.data.
    monkeypatch.setattr(program, 'input_fn', lambda split, params: (tf.ones([2, 3]), tf.constant([0, 1])))
    code, _, err = run(*flags, '--hparams=hidden_units=[2]')
    assert code == 0, err
    code, _, err = run(*flags, '--hparams=hidden_units=[2],batch_size=7', '--schedule=dry_run')
    assert code == 2 and '--dataset=own.program: batch_size=7 has no effect, as the module makes the batches' in err


def test_a_warm_start_of_an_estimator_needs_its_checkpoint_until_the_run_has_its_own(run, tmp_path, monkeypatch):
    (tmp_path / 'warm').mkdir()
    (tmp_path / 'warm' / 'program.py').write_text(
        PROGRAM
        + textwrap.dedent(f"""
            network = model_fn
            del model_fn

            def estimator(config, params):
                return tf.estimator.Estimator(network, config=config, warm_start_from={str(tmp_path / 'old')!r})
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    flags = ('--model=warm.program', '--dataset=warm.program', '--schedule=train')
    code, _, err = run(*flags, '--train_steps=1')
    assert code == 2 and f'estimator(): warm_start_from={tmp_path}/old: is no checkpoint' in err
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable('dense/kernel', initializer=[[5.0], [6.0]])
        tf.get_variable('dense/bias', initializer=[7.0])
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / 'old' / 'model.ckpt'))
    assert run(*flags, '--train_steps=1')[0] == 0
    (path,) = tmp_path.glob('**/model.ckpt-1.index')
    np.testing.assert_allclose(read_weights(path.parent)['dense/kernel'], [[5], [6]], atol=0.11)  # One step of Adam.
    (tmp_path / 'old').rename(tmp_path / 'gone')
    assert run(*flags, '--train_steps=2')[0] == 0

"""--debug_numerics: the first op that made a NaN or an infinity is named."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

pytestmark = pytest.mark.slow

POLYNOMIAL = ('--model=polynomial', '--dataset=polynomial')

# Trains on an expression of x [batch] with `fuse`, which is 5 at step 0 and counts down to 0.
MODEL = """
import tensorflow.compat.v1 as tf

def get_params():
    return {}

def model(features, labels, mode, params):
    w = tf.get_variable('w', initializer=1.0)
    x = features['x']
    fuse = tf.maximum(5 - tf.cast(tf.train.get_or_create_global_step(), tf.float32), 0)
    y = %s
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])
"""
IMPORTS = """
import numpy as np
from common.ops.asserts import assert_finite
"""
DATASET = """
import numpy as np
import tensorflow.compat.v1 as tf

def get_params():
    return {}

def prepare(data_dir, params):
    pass

def read(split, data_dir, params):
    return tf.data.Dataset.from_tensor_slices({'x': np.float32([1, 2, np.nan, 4]), 'y': np.float32([1, 2, 3, 4])})

def parse(mode, params, record):
    return {'x': record['x']}, {'y': record['y']}
"""


def write_module(tmp_path, monkeypatch, text):
    """Writes a module and returns its dotted path, another one in each test: Python keeps what it has imported."""
    package = tmp_path / f'package_of_{tmp_path.name}'
    package.mkdir()
    (package / 'module.py').write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return f'{package.name}.module'


@pytest.fixture
def fails(run, tmp_path, monkeypatch):
    """Trains a model with this expression and returns the error's line."""

    def call(expression, *flags):
        module = write_module(tmp_path, monkeypatch, MODEL % expression)
        code, result, err = run(
            f'--model={module}',
            '--dataset=polynomial',
            '--schedule=train',
            '--train_steps=20',
            '--save_checkpoints_steps=2',
            '--debug_numerics',
            *flags,
        )
        assert (code, result) == (1, None)
        assert 'Traceback' not in err and 'check-numerics' not in err
        return err.splitlines()[-1]

    return call


def test_debug_numerics_names_the_op_its_type_its_values_and_its_line(fails, tmp_path):
    place = f'{tmp_path}/package_of_{tmp_path.name}/module.py:11'
    assert fails("w * x + 1e-3 * tf.log(fuse, name='risky')") == (
        f'trainer.py: --debug_numerics: the op model/risky (Log) produced -Inf values, made at {place}'
    )


def test_debug_numerics_leaves_a_checkpoint_from_before_the_op_failed(fails, tmp_path):
    fails("w * x + 1e-3 * tf.log(fuse, name='risky')")
    reader = tf.train.load_checkpoint(str(tmp_path / 'output'))
    assert reader.get_tensor('global_step') == 4
    assert np.isfinite(reader.get_tensor('w'))


def test_debug_numerics_names_an_op_in_the_body_of_a_loop(fails):
    line = fails('tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + w / fuse), [0, x])[1]')
    assert '(RealDiv) produced +Inf values, made at ' in line


def test_debug_numerics_names_the_gradient_of_an_op(fails):
    line = fails("w * x + tf.sqrt(w * fuse, name='root')")
    assert line.startswith('trainer.py: --debug_numerics: the op gradients/model/root_grad/SqrtGrad (SqrtGrad) produced')
    assert 'made at' not in line


def test_debug_numerics_names_an_op_of_one_tower(fails):
    line = fails("w * x / tf.maximum(x - x[:1], 1 - fuse, name='m')", '--num_towers=2')
    assert 'the op model/tower_' in line and '(RealDiv) produced' in line


def test_debug_numerics_names_the_first_of_several_ops(fails):
    assert 'the op model/first (Log)' in fails("tf.exp(tf.square(tf.log(w * fuse, name='first'))) + w * x")


def test_debug_numerics_names_an_input(run, tmp_path, monkeypatch):
    both = MODEL % "w * x + features['petal length (cm)']" + DATASET.replace(
        "return {'x': record['x']}", "return {'x': record['y'], 'petal length (cm)': record['x']}"
    )
    module = write_module(tmp_path, monkeypatch, both)
    code, _, err = run(
        f'--model={module}',
        f'--dataset={module}',
        '--schedule=train',
        '--train_steps=2',
        '--hparams=batch_size=4',
        '--debug_numerics',
    )
    assert code == 1
    assert err.splitlines()[-1] == 'trainer.py: --debug_numerics: the input petal length (cm): NaN values'


@pytest.mark.parametrize('flag', ['--debug_numerics', '--nodebug_numerics'])
def test_a_check_of_the_models_own_says_what_it_was_reported_to_with_debug_numerics_too(run, tmp_path, monkeypatch, flag):
    nan = "tf.ensure_shape(tf.py_func(lambda x: x * np.float32('nan'), [x], tf.float32), [None])"
    expression = f"w * assert_finite({nan}, 'layer 3 is off')"
    model = write_module(tmp_path, monkeypatch, f'{IMPORTS}{MODEL % expression}')
    code, _, err = run(f'--model={model}', '--dataset=polynomial', '--schedule=train', '--train_steps=2', flag)
    assert code == 1
    line = err.splitlines()[-1]
    if flag == '--nodebug_numerics':
        assert line == 'trainer.py: layer 3 is off: NaN values'
    else:
        assert line.startswith('trainer.py: --debug_numerics: the op model/PyFunc') and 'produced NaN values' in line


def test_debug_numerics_names_an_op_of_an_evaluation(run, tmp_path, monkeypatch):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=2')[0] == 0
    monkeypatch.setattr(
        'models.polynomial.eval_metrics',
        lambda features, labels, predictions, params: {'bad': tf.metrics.mean(tf.log(-tf.abs(predictions['y'])))},
    )
    code, _, err = run(*POLYNOMIAL, '--schedule=evaluate', '--debug_numerics')
    assert code == 1
    assert 'the op metrics/Log (Log) produced NaN values' in err.splitlines()[-1]


@pytest.mark.parametrize(
    'flags',
    [
        POLYNOMIAL,
        ('--hparams=filters=[4],dense_units=8,batch_norm=true,weight_decay=0.01',),
        ('--model=seq2seq', '--dataset=addition', '--hparams=rnn_units=8,beam_width=2,num_examples=200'),
    ],
)
def test_debug_numerics_leaves_the_weights_of_a_sound_run_alone(run, tmp_path, flags):
    weights = []
    for debug in ('--debug_numerics', '--nodebug_numerics'):
        output_dir = str(tmp_path / debug)
        code, result, _ = run(*flags, debug, '--train_steps=3', '--eval_steps=1', output_dir=output_dir)
        assert code == 0 and result['global_step'] == 3
        reader = tf.train.load_checkpoint(output_dir)
        weights.append({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()})
    assert weights[0].keys() == weights[1].keys()
    for name in weights[0]:
        np.testing.assert_allclose(weights[0][name], weights[1][name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_debug_numerics_is_not_exported(run):
    code, _, err = run(*POLYNOMIAL, '--schedule=export', '--debug_numerics')
    assert code == 2 and '--debug_numerics does not go with --schedule=export' in err

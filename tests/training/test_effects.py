"""Hyper-parameters that have no effect are named."""

import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training import effects, learning_rate, model_fn, optimizer
from estimator_trainer.common.training.training import Training
from estimator_trainer.hparams import build
from estimator_trainer.hparams.defaults import TABLE
from estimator_trainer.hparams.text import parse
from tests.linear import input_fn, linear


def train(directory, text='', module=None, given='--hparams'):
    """Builds the training step of a model with hyper-parameters from a place; returns those that it does not use."""
    params, names_read = build.make_hparams('m', {'decay': 0.0}, 'd', {}, '', text), set()
    training = Training(Options(), total_steps=5, given=dict.fromkeys(parse(text), given))
    fn = model_fn.ModelFn(types.SimpleNamespace(model=linear, **module or {}), (), training, names_read)
    params = build.ReadHParams(params, names_read)
    with tf.Graph().as_default():
        batch = tf.data.make_one_shot_iterator(input_fn()()).get_next()
        fn(*batch, tf.estimator.ModeKeys.TRAIN, params, tf.estimator.RunConfig(str(directory)))
    return effects.unused(names_read, makes_batches=False)


@pytest.mark.parametrize('choice', ['learning_rate_schedule', 'optimizer'])
def test_the_table_says_with_which_optimizers_and_schedules_a_hyper_parameter_counts(choice):
    names = {name for name, entry in TABLE.items() if entry.only_with[1:] and entry.only_with[0] == choice}
    for value in learning_rate.RATE_SCHEDULES if choice == 'learning_rate_schedule' else optimizer.OPTIMIZERS:
        names_read = set()
        params = build.ReadHParams(build.make_hparams('m', {}, 'd', {}, '', f'{choice}={value}'), names_read)
        with tf.Graph().as_default():
            rate = learning_rate.learning_rate(tf.constant(3), 9, params)
            optimizer.by_name(rate, params)
        assert names_read & names == {name for name in names if value in TABLE[name].only_with}


@pytest.mark.parametrize(
    'text, functions, lines',
    [
        (
            'rmsprop_decay=0.5,decay_steps=9',
            {},
            [
                'decay_steps=9 has no effect with learning_rate_schedule=constant: omit it, or give learning_rate_sch',
                'rmsprop_decay=0.5 has no effect with optimizer=adam: omit it, or give optimizer=rmsprop',
            ],
        ),
        ('swa_every=3', {}, ['swa_every=3 has no effect without swa_start: give that, or omit it']),
        (
            'adam_beta1=0.8,optimizer=sgd',
            {},
            ['adam_beta1=0.8 has no effect with optimizer=sgd: omit it, or give optimizer=adam or'],
        ),
        (
            'optimizer=adam,momentum=0.9,adam_beta1=0.5',
            {'optimizer': lambda rate, params: tf.train.MomentumOptimizer(rate, params.momentum)},
            [
                f'{text} has no effect, as --model=m has its own optimizer(), which does'
                for text in ('optimizer=adam', 'adam_beta1=0.5')
            ],
        ),
        (
            'learning_rate=1,learning_rate_schedule=cosine,decay_steps=9,warmup_steps=3',
            {'learning_rate': lambda step, total_steps, params: 0.1 / params['decay_steps']},
            [
                f'{text} has no effect, as --model=m has its own learning_rate(), which does not read it: omit it'
                for text in ('learning_rate=1.0', 'learning_rate_schedule=cosine')
            ],
        ),
        (
            'weight_decay=0.1,gradient_clip_norm=1,ema_decay=0.5,class_weights=[2],learning_rate_factors=[w:2],cache=false',
            {},
            [],
        ),
    ],
)
def test_a_given_hyper_parameter_that_nothing_reads_is_refused_and_one_of_a_set_warned_of(
    tmp_path, caplog, text, functions, lines
):
    caplog.set_level('WARNING')
    train(tmp_path, text, functions, '--hparams_set=x')
    assert len(caplog.messages) == len(lines)
    for found, line in zip(caplog.messages, lines):
        assert found.startswith(f'--hparams_set=x: {line}')
    for given in ('--hparams', '--override_hparams') if lines else ():
        with pytest.raises(UsageError) as error:
            train(tmp_path, text, functions, given)
        assert str(error.value).replace(given, '--hparams_set=x').splitlines() == caplog.messages[: len(lines)]


def test_what_has_an_effect_is_shown_and_all_of_the_modules():
    params, names_read = build.make_hparams('m', {'own': 1}, 'd', {}), {'optimizer'}
    assert [*effects.used(params, names_read, makes_batches=True)] == (
        'model dataset seed train_steps num_epochs min_steps train_split eval_batch_size optimizer own'.split()
    )
    assert {'batch_size', 'cache'} < {*effects.used(params, names_read, makes_batches=False)}


def test_a_run_that_began_with_a_value_without_effect_resumes_with_a_warning_of_a_flag_that_gives_it(caplog):
    params = build.make_hparams('m', {}, 'd', {}, '', 'momentum=0.5')

    def check(given):
        caplog.clear()
        effects.check_effects(
            types.SimpleNamespace(), params, {*TABLE} - {'momentum'}, False, {'momentum': given}, has_begun=True
        )
        return caplog.text

    assert 'momentum=0.5 has no effect' in check('--hparams') and not check('--hparams_set=x')
    with pytest.raises(UsageError, match='^--override_hparams: momentum=0.5 has no effect with optimizer=adam'):
        check('--override_hparams')


def test_what_was_given_is_known_by_its_place_and_the_hparams_of_a_run_give_nothing(tmp_path):
    params = build.make_hparams('resnet', {}, 'cifar10', {})
    (tmp_path / 'own.json').write_text('{"momentum": 0.5, "max_shift": 3}')
    build.save(params, str(tmp_path / 'hparams.json'))
    assert build.origins(params, f'{tmp_path}/own.json', 'seed=1,momentum=0.3', ['cache'], 'batch_size=3') == {
        'momentum': '--hparams',
        'augment_shift': f'--hparams_set={tmp_path}/own.json',
        'seed': '--hparams',
        'cache': '--hparams',
        'batch_size': '--override_hparams',
    }
    assert build.origins(params, 'resnet_cifar10', '', [], '')['piecewise_factors'] == '--hparams_set=resnet_cifar10'
    assert build.origins(params, f'{tmp_path}/hparams.json', '', [], '') == {}


def test_only_given_hyper_parameters_of_modules_that_nothing_has_read_are_named(caplog):
    model = types.SimpleNamespace(INFERENCE_HPARAMS=('beam',))
    params = build.make_hparams('m', {'beam': 1, 'lost': 2, 'used': 3, 'other': 4}, 'd', {})
    given = {'lost': '--hparams', 'used': '--hparams', 'beam': '--hparams', 'momentum': '--hparams_set=x'}
    effects.warn_of_unread(model, params, {'used'}, False, given)
    assert caplog.messages == ['--hparams: lost=2 has had no effect: neither training nor evaluation has read it.']
    caplog.clear()
    for makes_batches, read in ((False, set()), (True, {'eval_batch_size'}), (True, set())):
        effects.warn_of_unread(model, params, read, makes_batches, {'eval_batch_size': '--hparams'})
    assert caplog.messages == [
        '--hparams: eval_batch_size=1000 has had no effect: neither training nor evaluation has read it.'
    ]


def test_the_check_is_no_reading_of_hyper_parameters():
    names_read = {'seed'}
    params = build.ReadHParams(build.make_hparams('m', {}, 'd', {}), names_read)
    effects.check_effects(None, params, names_read, True, {})
    assert names_read == {'seed'}

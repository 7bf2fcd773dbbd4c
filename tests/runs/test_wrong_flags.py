"""Values of flags that are refused in one line, before anything is made, and the largest that are not."""

from absl import flags as absl_flags
import pytest

from common.runs import flags as run_flags
from tests.shared import POLYNOMIAL, without_log

STEPS, INT32 = 2**63 - 1, 2**31 - 1
RANGES = {
    'train_steps': (1, INT32),
    'seed': (0, INT32),
    'save_checkpoints_steps': (1, STEPS),
    'save_summary_steps': (1, STEPS),
    'keep_checkpoint_max': (0, INT32),
    'num_gpus': (0, 1024),
    'num_towers': (1, 1024),
    'steps_per_loop': (1, INT32),
    'inter_op_threads': (0, 1024),
    'intra_op_threads': (0, 1024),
    'overfit_batches': (0, STEPS),
    'restarts': (0, INT32),
    'eval_every_steps': (1, STEPS),
    'eval_steps': (0, STEPS),
    'eval_timeout': (0, INT32),
    'early_stopping_patience': (0, STEPS),
}


@pytest.mark.parametrize('name', RANGES)
def test_an_integer_out_of_its_range_is_refused(name):
    flag = run_flags.define()[name]
    for value in RANGES[name]:
        flag.parse(str(value))
        assert flag.value == value
    for value in (RANGES[name][0] - 1, RANGES[name][1] + 1):
        with pytest.raises(absl_flags.Error, match=rf'--{name}={value}: {value} is not an integer in the range \[\d, \d+\]'):
            flag.parse(str(value))


@pytest.mark.parametrize('name, lowest', [('num_epochs', 0), ('early_stopping_min_delta', 0), ('cluster_timeout', 1)])
def test_a_number_must_be_finite_and_not_too_small(run, name, lowest):
    run_flags.from_values({name: float(lowest)})
    for value, message in ((lowest - 0.5, f'--{name}={lowest - 0.5}'), ('nan', 'finite number'), ('inf', 'finite number')):
        code, _, err = run(f'--{name}={value}')
        assert code == 2 and f'--{name}={value}' in err and message in err


WRONG = [
    # The parser refuses these.
    (['--modle=alexnet'], "Unknown command line flag 'modle'. Did you mean: model"),
    (['--schedule=nosuch'], '--schedule=nosuch: value should be one of <train_and_evaluate|train|evaluate'),
    (['--precision=float8'], '--precision=float8: value should be one of <float32|bfloat16|float16>'),
    (['--train_steps=x'], "flag --train_steps=x: invalid literal for int() with base 10: 'x'"),
    (['nonsense'], 'nonsense: every argument is a flag'),
    # Flags that are empty, malformed, or do not go together.
    *(([f'--{name}=', '--schedule=predict'], f'--{name} is empty') for name in ('model', 'dataset', 'data_dir', 'output_dir')),
    (['--predict_split=', '--schedule=predict'], '--predict_split is empty'),
    (['--eval_splits='], '--eval_splits=: a name is empty'),
    (['--eval_splits=eval,'], '--eval_splits=eval,: a name is empty'),
    (['--input=x', '--schedule=train'], '--input requires --schedule=predict, not train'),
    (['--predict_split=train', '--schedule=train'], '--predict_split requires --schedule=predict, not train'),
    (['--visualize=x.png'], '--visualize requires --schedule=predict, not train_and_evaluate'),
    (['--checkpoint=best'], '--checkpoint requires --schedule=evaluate or predict or export, not train_and_evaluate'),
    (['--eval_timeout=1'], '--eval_timeout requires --schedule=continuous_eval, not train_and_evaluate'),
    (
        ['--best_metric=loss:min', '--schedule=train'],
        '--best_metric requires --schedule=train_and_evaluate or continuous_eval or dry_run, not train',
    ),
    *(
        ([f'--early_stopping_{name}=1', '--schedule=train'], f'{name} requires --schedule=train_and_evaluate or dry_run, not')
        for name in ('patience', 'min_delta')
    ),
    *(
        ([f'--{name}=batch_size=1', '--schedule=evaluate'], f'--{name} requires --schedule=train_and_evaluate or train, not')
        for name in ('local_cluster', 'override_hparams')
    ),
    (
        ['--schedule=predict', '--input=a.png', '--predict_split=eval'],
        '--input=a.png does not go with --predict_split=eval: give one of the two',
    ),
    (['--debug_numerics', '--schedule=export'], '--debug_numerics does not go with --schedule=export: the checks would'),
    (['--visualize=x.jpg', '--schedule=predict'], '--visualize=x.jpg must be the name of a PNG file, such as predictions.png'),
    (['--local_cluster=worker:2', '--output_dir=gs://x/y'], '--output_dir=gs://x/y: --local_cluster needs a local directory'),
    (['--restarts=1'], '--restarts requires --local_cluster'),
    (['--profile_steps=10'], '--profile_steps=10 is not of the form FIRST:END, FIRST < END, such as 100:110'),
    (['--profile_steps=10:10'], '--profile_steps=10:10 is not of the form'),
    ([f'--profile_steps=1:{STEPS + 1}'], f'--profile_steps=1:{STEPS + 1}: there are at most {STEPS} steps'),
    ([f'--profile_steps={"9" * 5000}:1'], f': there are at most {STEPS} steps'),
    (['--freeze=('], '--freeze=( is not a regular expression: missing )'),
    (['--warm_start_from=x', '--warm_start_exclude=)'], '--warm_start_exclude=) is not a regular expression: unbalanced'),
    *(([f'--{name}=a:b'], f'--{name} requires --warm_start_from') for name in ('warm_start_names', 'warm_start_exclude')),
    (['--output_dir=a[1]'], '--output_dir=a[1]: TensorFlow reads * ? [ ] \\ as glob patterns'),
    # What they name is not there, or a hyper-parameter is wrong.
    (['--model=nosuch'], '--model=nosuch: no module models.nosuch; the models are: alexnet, '),
    (['--dataset=nosuch'], '--dataset=nosuch: no module datasets.nosuch; the datasets are: '),
    (['--hparams_set=nosuch'], '--hparams_set=nosuch: no file'),
    (['--hparams=batch_sise=3'], '--hparams: unknown hyper-parameter batch_sise, did you mean batch_size?'),
    (['--override_hparams=x'], "--override_hparams: 'x' is not of the form name=value"),
    (['--hparams=optimizer=lion'], 'optimizer=lion is not one of adam, adamw, adagrad, ftrl, momentum, rmsprop, sgd'),
    (['--hparams=optimizer=ftrl'], 'optimizer=ftrl needs a constant learning rate'),
    (['--hparams=learning_rate_schedule=up'], 'learning_rate_schedule=up is not one of constant'),
    (['--hparams=piecewise_boundaries=[5]'], 'piecewise_boundaries=[5] must be steps in ascending order'),
    (['--hparams=drop_rate=1.0', '--schedule=dry_run'], 'drop_rate=1.0 must be at least 0 and less than 1'),
    (['--hparams=image_size=14'], '--dataset=mnist has image_size=28'),
    ([*POLYNOMIAL, '--hparams=num_samples=9'], 'num_samples=9 must be from 10 to 10000000'),
    ([*POLYNOMIAL, '--eval_splits=test', '--schedule=dry_run'], '--dataset=polynomial: unknown split test'),
    (['--best_metric=accuracy'], '--best_metric=accuracy is not of the form METRIC:min or METRIC:max'),
    (['--num_gpus=99'], '--num_gpus=99: this machine has '),
    (['--xla'], '--xla requires a GPU; none is visible'),
    # Nothing can be read or written there.
    *(([f'--schedule={name}'], 'contains no checkpoint: train first') for name in ('evaluate', 'predict', 'export')),
    (['--output_dir=/dev/null'], '--output_dir=/dev/null: cannot be written'),
    (['--output_dir=/proc/output'], '--output_dir=/proc/output: cannot be written'),
]


@pytest.mark.parametrize('argv, message', WRONG, ids=[' '.join(row[0])[:80] for row in WRONG])
def test_wrong_usage_is_one_line_that_names_it(run, tmp_path, argv, message):
    code, result, err = run(*argv)
    lines = without_log(err)
    assert (code, result, len(lines)) == (2, None, 1)
    assert lines[0].startswith('trainer.py: ') and message in lines[0]
    assert not list(tmp_path.glob('**/model.ckpt*'))
    if argv[0] in ('--schedule=evaluate', '--schedule=predict', '--schedule=export'):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('flags', [['--eval_steps'], ['--steps_per_loop', '--inter_op_threads', '--intra_op_threads']])
def test_the_largest_numbers_that_flags_take_are_no_mistake(run, flags):
    names = ['save_checkpoints_steps', 'save_summary_steps', 'keep_checkpoint_max', 'eval_every_steps']
    names += ['overfit_batches', 'early_stopping_patience', *(flag[2:] for flag in flags)]
    code, result, _ = run(*POLYNOMIAL, '--train_steps=3', *(f'--{name}={RANGES[name][1]}' for name in names))
    assert code == 0 and result['global_step'] == 3
    assert result == run(*POLYNOMIAL, '--train_steps=3', '--schedule=evaluate')[1]


def test_a_training_of_nearly_as_many_steps_as_there_are_numbers_can_begin(run):
    code, result, _ = run(
        *POLYNOMIAL,
        '--num_epochs=9.2e15',
        '--eval_steps=1',
        '--eval_every_steps=2',
        '--early_stopping_patience=1',
        '--early_stopping_min_delta=1e308',
    )
    assert code == 0 and result['global_step'] == 4

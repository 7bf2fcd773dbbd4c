"""Values of flags that are refused in one line, and the largest that are not."""

import pytest

from datasets import polynomial as polynomial_dataset
from tests.shared import POLYNOMIAL, without_log

STEPS, INT32 = 2**63 - 1, 2**31 - 1


LARGEST = {
    'train_steps': INT32,
    'save_checkpoints_steps': STEPS,
    'save_summary_steps': STEPS,
    'keep_checkpoint_max': INT32,
    'num_gpus': 1024,
    'num_towers': 1024,
    'steps_per_loop': INT32,
    'inter_op_threads': 1024,
    'intra_op_threads': 1024,
    'overfit_batches': STEPS,
    'eval_every_steps': STEPS,
    'eval_steps': STEPS,
    'early_stopping_patience': STEPS,
}


ZERO_IS_ALLOWED = (
    'keep_checkpoint_max',
    'num_gpus',
    'inter_op_threads',
    'intra_op_threads',
    'overfit_batches',
    'eval_steps',
    'early_stopping_patience',
)


WRONG = [
    (['--model=nosuch'], 2, '--model=nosuch: no module models.nosuch; the models are: alexnet, '),
    (['--dataset=nosuch'], 2, '--dataset=nosuch: no module datasets.nosuch; the datasets are: '),
    (['--modle=alexnet'], 2, "Unknown command line flag 'modle'. Did you mean: model"),
    (['--hparams=batch_sise=3'], 2, '--hparams: unknown hyper-parameter batch_sise, did you mean batch_size?'),
    (['--hparams=batch_size=x'], 2, '--hparams: batch_size=x must be an integer'),
    (['--hparams=optimizer=ftrl'], 2, 'optimizer=ftrl needs a constant learning rate'),
    (['--hparams=optimizer=lion'], 2, 'optimizer=lion is not one of adam, adamw, adagrad, ftrl, momentum, rmsprop, sgd'),
    (['--hparams=learning_rate_schedule=up'], 2, 'learning_rate_schedule=up is not one of constant'),
    (['--hparams_set=nosuch'], 2, '--hparams_set=nosuch: no file'),
    (['--schedule=nosuch'], 2, '--schedule=nosuch: value should be one of <train_and_evaluate|train|evaluate'),
    (['--train_steps=x'], 2, "flag --train_steps=x: invalid literal for int() with base 10: 'x'"),
    (['--train_steps=0'], 2, 'flag --train_steps=0'),
    (['--num_epochs=-1'], 2, 'flag --num_epochs=-1'),
    (['--eval_steps=-1'], 2, 'flag --eval_steps=-1'),
    (['--eval_every_steps=0'], 2, 'flag --eval_every_steps=0'),
    (['--eval_splits='], 2, '--eval_splits=: a name is empty'),
    (['--eval_splits=eval,'], 2, '--eval_splits=eval,: a name is empty'),
    ([*POLYNOMIAL, '--eval_splits=test', '--eval_steps=1'], 2, '--dataset=polynomial: unknown split test'),
    ([*POLYNOMIAL, '--eval_splits=test', '--schedule=dry_run'], 2, '--dataset=polynomial: unknown split test'),
    (['--best_metric=loss:min', '--schedule=train'], 2, '--best_metric requires --schedule=train_and_evaluate or '),
    (['--early_stopping_patience=1', '--schedule=train'], 2, '--early_stopping_patience requires --schedule=train_and_'),
    (['--eval_splits=test'], 2, ': there is no split test: the splits are: train, eval: name one with --eval_splits'),
    ([*POLYNOMIAL, '--eval_splits=eval,test'], 2, '--dataset=polynomial: unknown split test'),
    (['--best_metric=accuracy'], 2, '--best_metric=accuracy is not of the form METRIC:min or METRIC:max'),
    (
        ['--best_metric=acuracy:max'],
        2,
        '--best_metric=acuracy:max: there is no metric acuracy; the metrics are: accuracy, loss',
    ),
    (['--best_metric=confusion_matrix:max'], 2, 'there is no metric confusion_matrix; the metrics are: accuracy, loss'),
    (['--early_stopping_patience=-1'], 2, 'flag --early_stopping_patience=-1'),
    (['--early_stopping_min_delta=-1'], 2, 'flag --early_stopping_min_delta=-1'),
    (['--profile_steps=10'], 2, '--profile_steps=10 is not of the form FIRST:END, FIRST < END, such as 100:110'),
    (['--profile_steps=10:10'], 2, '--profile_steps=10:10 is not of the form'),
    (['--overfit_batches=-1'], 2, 'flag --overfit_batches=-1'),
    (
        ['--schedule=predict', '--input=a.png', '--predict_split=eval'],
        2,
        '--input=a.png does not go with --predict_split=eval: give one of the two',
    ),
    (['--checkpoint=best'], 2, '--checkpoint requires --schedule=evaluate or predict or export, not train_and_evaluate'),
    (['--hparams=ema_decay=1.0'], 2, 'ema_decay=1.0 must be less than 1'),
    (['--hparams=piecewise_boundaries=[5]'], 2, 'piecewise_boundaries=[5] must be steps in ascending order'),
    (['--save_checkpoints_steps=0'], 2, 'flag --save_checkpoints_steps=0'),
    (['--save_summary_steps=0'], 2, 'flag --save_summary_steps=0'),
    (['--keep_checkpoint_max=-1'], 2, 'flag --keep_checkpoint_max=-1'),
    (['--num_gpus=-1'], 2, 'flag --num_gpus=-1'),
    (['--num_gpus=99'], 2, '--num_gpus=99: this machine has '),
    (['--num_towers=0'], 2, 'flag --num_towers=0'),
    (
        ['--num_towers=3'],
        2,
        'batch_size=128 is not divisible by 3 towers: use --hparams=batch_size=126 or 129',
    ),
    (['--num_epochs=0'], 2, 'num_epochs=0.0 leaves nothing to train'),
    (['--xla'], 2, '--xla requires a GPU; none is visible'),
    (['--precision=float8'], 2, '--precision=float8: value should be one of <float32|bfloat16|float16>'),
    (['--intra_op_threads=-1'], 2, 'flag --intra_op_threads=-1'),
    (['--output_dir=a[1]'], 2, '--output_dir=a[1]: TensorFlow reads * ? [ ] \\ as glob patterns'),
    (['--hparams=image_size=14'], 2, '--dataset=mnist has image_size=28'),
    ([*POLYNOMIAL, '--hparams=num_samples=9'], 2, 'num_samples=9 must be from 10 to 10000000'),
    (['--seed=-1'], 2, 'flag --seed=-1'),
    (['--seed=99999999999'], 2, 'flag --seed=99999999999'),
    (['--output_dir='], 2, '--output_dir is empty'),
    (['--data_dir='], 2, '--data_dir is empty'),
    (['--schedule=evaluate'], 2, 'contains no checkpoint: train first'),
    (['--schedule=predict'], 2, 'contains no checkpoint: train first'),
    (['--schedule=export'], 2, 'contains no checkpoint: train first'),
    (['--predict_split=', '--schedule=predict'], 2, '--predict_split is empty'),
    (['--input=*.png'], 2, '--input requires --schedule=predict, not train_and_evaluate'),
    (['--predict_split=train', '--schedule=train'], 2, '--predict_split requires --schedule=predict, not train'),
    (['nonsense'], 2, 'nonsense: every argument is a flag'),
    (['--output_dir=/dev/null/x'], 2, '--output_dir=/dev/null/x: cannot be written'),
    (['--output_dir=/proc/output'], 2, '--output_dir=/proc/output: cannot be written'),
    (['--output_dir=/dev/null'], 2, '--output_dir=/dev/null: cannot be written'),
    (['--data_dir=/dev/null'], 1, '/dev/null/mnist: cannot be written'),
    (['--num_epochs=nan'], 2, '--num_epochs=nan must be a finite number'),
    (['--num_epochs=inf'], 2, '--num_epochs=inf must be a finite number'),
    (['--num_epochs=1e308'], 2, 'num_epochs=1e+308 makes more than 9223372036854775807 steps: lower it'),
    (['--num_epochs=2e16', *POLYNOMIAL], 2, 'num_epochs=2e+16 makes more than 9223372036854775807 steps: lower it'),
    (['--early_stopping_min_delta=nan'], 2, '--early_stopping_min_delta=nan must be a finite number'),
    (['--early_stopping_min_delta=inf'], 2, '--early_stopping_min_delta=inf must be a finite number'),
    (
        ['--profile_steps=1:9223372036854775808'],
        2,
        '--profile_steps=1:9223372036854775808: there are at most 9223372036854775807 ',
    ),
    ([f'--profile_steps={"9" * 5000}:1'], 2, ': there are at most 9223372036854775807 steps'),
    *(
        (
            [f'--{name}={LARGEST[name] + 1}'],
            2,
            f'flag --{name}={LARGEST[name] + 1}: {LARGEST[name] + 1} is not an integer in the '
            f'range [{0 if name in ZERO_IS_ALLOWED else 1}, {LARGEST[name]}]',
        )
        for name in LARGEST
    ),
]


@pytest.mark.parametrize('flags, code, message', WRONG, ids=[' '.join(row[0])[:80] for row in WRONG])
def test_wrong_usage_is_one_line_that_names_it(run, tmp_path, flags, code, message):
    found, result, err = run(*flags)
    lines = without_log(err)
    assert (found, result) == (code, None)
    assert len(lines) == 1
    assert lines[0].startswith('trainer.py: ') and message in lines[0]
    assert not list(tmp_path.glob('**/model.ckpt*'))


@pytest.mark.parametrize(
    'names',
    [
        [
            'save_checkpoints_steps',
            'save_summary_steps',
            'keep_checkpoint_max',
            'overfit_batches',
            'eval_every_steps',
            'eval_steps',
            'early_stopping_patience',
        ],
        ['steps_per_loop', 'save_checkpoints_steps', 'save_summary_steps', 'eval_every_steps'],
        ['inter_op_threads', 'intra_op_threads'],
    ],
)
def test_the_largest_numbers_that_flags_take_are_no_mistake(run, names):
    code, result, _ = run(*POLYNOMIAL, '--train_steps=3', *(f'--{name}={LARGEST[name]}' for name in names))
    assert code == 0
    assert result == run(*POLYNOMIAL, '--train_steps=3', '--schedule=evaluate')[1]


@pytest.mark.parametrize('schedule', ['cosine', 'one_cycle'])
def test_a_training_of_nearly_as_many_steps_as_there_are_numbers_can_begin(run, schedule):
    code, result, _ = run(
        *POLYNOMIAL,
        '--num_epochs=9.2e15',
        f'--hparams=learning_rate_schedule={schedule}',
        '--eval_steps=1',
        '--eval_every_steps=2',
        '--early_stopping_patience=1',
        '--early_stopping_min_delta=1e308',
    )
    assert code == 0 and result['global_step'] == 4


def test_all_batches_of_an_endless_dataset_can_be_asked_for(run, monkeypatch):
    read = polynomial_dataset.read
    monkeypatch.setattr(polynomial_dataset, 'read', lambda *args: read(*args).repeat())
    assert (
        run(*POLYNOMIAL, '--schedule=train', '--train_steps=3', '--hparams=cache=false', f'--overfit_batches={STEPS}')[0] == 0
    )

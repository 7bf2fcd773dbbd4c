"""The trainer's flags: help, defaults, ranges, and values rejected after importing TensorFlow."""

import sys

from absl import flags as absl_flags
import pytest

from estimator_trainer.common import processes
from estimator_trainer.common.commands import command, sweep
from estimator_trainer.common.commands import flags as run_flags
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from tests.shared import POLYNOMIAL, without_log

STEPS, INT32 = 2**63 - 1, 2**31 - 1
RANGES = {
    'train_steps': (1, INT32),
    'port': (0, 65535),
    **dict.fromkeys(['seed', 'steps_per_loop', 'keep_checkpoint_max', 'restarts', 'eval_timeout', 'top'], (0, INT32)),
    **dict.fromkeys(['save_checkpoints_steps', 'save_summary_steps', 'eval_every_steps'], (1, STEPS)),
    **dict.fromkeys(['overfit_batches', 'eval_steps', 'early_stopping_patience', 'keep_checkpoint_every'], (0, STEPS)),
    **dict.fromkeys(['num_gpus', 'num_towers', 'inter_op_threads', 'intra_op_threads', 'folds', 'min_tasks'], (0, 1024)),
    'jobs': (1, 1024),
}


@pytest.mark.parametrize('code, expected, printed', [('why', 1, 'why\n'), (3, 3, ''), (None, 1, '')])
def test_the_argument_of_a_modules_sys_exit_is_printed_or_the_exit_code(capsys, monkeypatch, code, expected, printed):
    monkeypatch.setattr(processes, 'exit_process', sys.exit)  # Another test may have started a server in this process.
    with pytest.raises(SystemExit) as exit:
        processes.run_and_exit(lambda: sys.exit(code))
    assert (exit.value.code, capsys.readouterr().err) == (expected, printed)


def test_flags_become_options_of_the_same_defaults():
    FLAGS = run_flags.define()
    FLAGS(['trainer.py'])
    assert run_flags.to_options(FLAGS) == Options()
    FLAGS['output_dir'].value = None
    others = ('model', 'dataset', 'data_dir', 'output_dir', 'seed', 'train_steps', 'num_epochs', 'verify_data', 'restarts')
    assert [FLAGS[name].value for name in others] == ['alexnet', 'mnist', 'data', None, None, None, None, False, 0]


def test_a_tilde_at_the_beginning_of_any_path_is_the_home_directory(monkeypatch):
    monkeypatch.setenv('HOME', '/home/me')
    names = 'output_dir data_dir hparams_set warm_start_from checkpoint input visualize log_file space'
    FLAGS = sweep.define_flags()
    FLAGS(['sweep.py', *(f'--{name}=~/a~b' for name in names.split()), '--model=~m'])
    assert {FLAGS[name].value for name in names.split()} == {'/home/me/a~b'} and FLAGS.model == '~m'
    assert run_flags.from_values({'output_dir': '~/x'}).output_dir == '/home/me/x'
    for path in ('gs://bucket/~/x', 'x/~', './~/x'):
        assert run_flags.from_values({'data_dir': path}).data_dir == path


def test_a_file_of_flags_may_begin_with_the_mark_of_an_editor(tmp_path):
    (tmp_path / 'flags').write_bytes(b'\xef\xbb\xbf--train_steps=7\n# A comment.\n--seed=3\n')
    FLAGS, seen = run_flags.define(), []
    argv = ['trainer.py', f'--flagfile={tmp_path}/flags', '--seed=4']
    assert command.execute(argv, FLAGS, lambda FLAGS: 'text', seen.append, None) == 0
    assert (FLAGS.train_steps, FLAGS.seed, seen) == (7, 4, [])


@pytest.mark.parametrize(
    'trait, names',
    [
        (
            Trait.PATH,
            """output_dir runs data_dir hparams_set warm_start_from checkpoint input predictions visualize exclude export
            replay_dir""",
        ),
        (
            Trait.COMMAND_LINE,
            'help list version runs watch verbosity log_file full_traceback cluster_timeout local_cluster min_tasks restarts',
        ),
        (Trait.LAUNCHER, 'verbosity log_file local_cluster restarts overwrite folds jobs'),
        (
            Trait.SAME_IN_TASKS,
            """num_gpus num_towers precision xla save_checkpoints_steps save_summary_steps steps_per_loop profile_steps
            overfit_batches freeze record_margins debug_numerics eval_every_steps keep_checkpoint_every overwrite min_tasks""",
        ),
        (
            Trait.SAME_IN_TRIALS,
            """best_metric eval_splits eval_steps eval_every_steps save_checkpoints_steps early_stopping_patience
            early_stopping_min_delta overfit_batches warm_start_from warm_start_names warm_start_exclude freeze
            num_gpus num_towers precision xla""",
        ),
        (Trait.CHANGES_RESULT, 'num_gpus num_towers precision xla overfit_batches freeze'),
        (
            Trait.KEPT,
            """schedule num_gpus num_towers precision xla overfit_batches freeze steps_per_loop save_checkpoints_steps
            save_summary_steps keep_checkpoint_max keep_checkpoint_every eval_every_steps eval_steps eval_splits best_metric
            early_stopping_patience early_stopping_min_delta warm_start_from warm_start_names warm_start_exclude loggers
            record_margins""",
        ),
        (
            Trait.OF_TRAINING,
            """save_checkpoints_steps save_summary_steps keep_checkpoint_max keep_checkpoint_every steps_per_loop profile_steps
            overfit_batches warm_start_from warm_start_names warm_start_exclude freeze record_margins""",
        ),
        (Trait.OF_EVALUATION, 'eval_every_steps eval_steps eval_splits'),
        (Trait.SET_IN_TRIALS, 'model dataset output_dir hparams hparams_set train_steps num_epochs seed exclude log_file jobs'),
        (
            Trait.NOT_IN_TRIALS,
            """schedule override_hparams from_step checkpoint eval_timeout input predict_split predictions visualize
            local_cluster min_tasks restarts runs watch overwrite format quantize port host folds intervals export step
            record replay_dir top""",
        ),
    ],
)
def test_tasks_trials_programs_and_the_launcher_compare_forward_or_reject_these_flags(trait, names):
    assert set(names_with(trait)) == set(names.split())


@pytest.mark.parametrize(
    'flags, hparams, lines',
    [
        (
            {'freeze': 'a', 'eval_steps': 3, 'train_steps': 2, 'early_stopping_patience': 1, 'early_stopping_min_delta': 0.1},
            [],
            [],
        ),
        ({'schedule': 'evaluate', 'freeze': 'a', 'eval_steps': 3}, [], ['--freeze has no effect with --schedule=evaluate']),
        ({'schedule': 'export', 'eval_steps': 3}, [], ['--eval_steps has no effect with --schedule=export']),
        ({'early_stopping_min_delta': 0.1}, [], ['--early_stopping_min_delta has no effect without --early_stopping_patience']),
        ({'jobs': 2}, [], ['--jobs has no effect without --folds']),
        ({'jobs': 2, 'folds': 5}, [], []),
        ({'train_steps': 3}, ['num_epochs'], ['num_epochs has no effect: train_steps takes precedence']),
        ({'num_epochs': 3.0}, ['num_epochs'], ['--hparams: num_epochs has no effect: --num_epochs takes precedence']),
    ],
)
def test_flags_without_effect_are_named(flags, hparams, lines):
    FLAGS = run_flags.define()
    FLAGS(['', *(f'--{name}={value}' for name, value in flags.items())])
    assert run_flags.without_effect(FLAGS, hparams) == lines


@pytest.mark.parametrize('name', [*RANGES, 'num_epochs', 'early_stopping_min_delta', 'cluster_timeout'])
def test_a_number_out_of_its_range_is_refused(name):
    flag = run_flags.define()[name]
    lowest, *largest = RANGES.get(name, [1 if name == 'cluster_timeout' else 0])
    for value in (lowest, *largest):
        flag.parse(str(value))
        assert flag.value == value
    for value in (lowest - 1, *(value + 1 for value in largest)):
        with pytest.raises(absl_flags.Error, match=f'flag --{name}={value}: '):
            flag.parse(str(value))


@pytest.mark.parametrize(
    'argv, message',
    [
        (['--hparams=optimizer=lion'], 'optimizer=lion is not one of adam, adamw, adagrad, ftrl, momentum, rmsprop, sgd'),
        (['--override_hparams=dense_units=8'], ', label_smoothing, drop_rate'),
        (['--log_file=/none/log.txt'], '--log_file=/none/log.txt: cannot be written: No such file or directory'),
        *(
            ([f'--schedule={name}'], 'contains no checkpoint: train first')
            for name in ('evaluate', 'predict', 'export', 'serve', 'report', 'verify')
        ),
        *(([f'--output_dir={path}'], f'={path}: cannot be written') for path in ('/dev/null', '/dev/null/x', '/proc/output')),
    ],
)
def test_wrong_usage_is_one_line_and_creates_nothing(run, tmp_path, argv, message):
    code, result, err = run(*argv)
    (line,) = without_log(err)
    assert (code, result) == (2, None) and line.startswith('trainer.py: ') and message in line
    assert not list(tmp_path.glob('**/model.ckpt*'))
    assert 'no checkpoint' not in message or list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('name', ['output_dir', 'warm_start_from', 'visualize'])
def test_a_file_system_that_tensorflow_has_not_is_named_before_anything_is_made(run, tmp_path, name):
    flag = f'--{name}=s3://bucket/x.json{".png" * (name == "visualize")}'
    schedule = 'train' if name == 'warm_start_from' else 'predict'
    code, _, err = run(*POLYNOMIAL, f'--schedule={schedule}', f'--data_dir={tmp_path}/data', flag)
    problem = 'this TensorFlow has no file system s3:// (it has file://, gs://, ram://): mount it as a directory and give that'
    assert code == 2 and err.startswith(f'trainer.py: {flag}: {problem}') and err.count('\n') == 1
    assert list(tmp_path.iterdir()) == []


def test_the_largest_numbers_that_flags_take_are_no_mistake(run, tmp_path):
    common = ['save_checkpoints_steps', 'save_summary_steps', 'keep_checkpoint_max', 'eval_every_steps', 'overfit_batches']
    for names in (['eval_steps'], ['early_stopping_patience', 'steps_per_loop', 'inter_op_threads', 'intra_op_threads']):
        flags = [f'--{name}={RANGES[name][1]}' for name in common + names]
        code, result, _ = run(*POLYNOMIAL, '--train_steps=3', *flags, output_dir=tmp_path / names[0])
        assert code == 0 and result['global_step'] == 3 and 'loss' in result['eval']
    flags = ('--num_epochs=9.2e15', '--eval_steps=1', '--eval_every_steps=2')
    code, result, _ = run(*POLYNOMIAL, *flags, '--early_stopping_patience=1', '--early_stopping_min_delta=1e308')
    assert code == 0 and result['global_step'] == 4

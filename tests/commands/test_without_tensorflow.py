"""Help and most mistakes on the command line are answered without importing TensorFlow, which takes seconds."""

import gc
import json
import re
import subprocess
import sys

import pytest

from estimator_trainer.common.commands import command, flags
from estimator_trainer.common.errors import RunError
from tests.shared import POLYNOMIAL, ROOT

STEPS = 2**63 - 1
HELP = [
    ('trainer', ['-h'], r"\A(?!.*\(default: ''\)).*What to run:.*--model:.*Execution:.*--num_gpus:"),
    ('trainer', ['--version'], r'^\d+\.\d+\.\d+\n$'),
    ('trainer', ['--list'], '  alexnet          A small AlexNet'),
    ('trainer', ['--model=polynomial', '--dataset=tfrecord', '--help'], r'--model=polynomial\n\nFits y = w_0 x\^2'),
    ('trainer', ['--dataset=tfrecord', '--help'], '  tokens=words  '),
    ('sweep', ['--help'], '--space:.*--trials:.*--train_steps:.*--best_metric:'),
    ('sweep', ['--list'], '  alexnet          A small AlexNet'),
]
MISTAKES = [
    # The parser refuses these.
    (['--modle=alexnet'], '--modle=alexnet: unknown flag, did you mean --model=alexnet?'),
    (['--schedule=nosuch'], 'flag --schedule=nosuch: value should be one of <train_and_evaluate|train|evaluate'),
    (['--precision=float8'], 'flag --precision=float8: value should be one of <float32|bfloat16|float16>'),
    (['nonsense'], 'nonsense: every argument is a flag'),
    (['--train_steps=1e4'], 'flag --train_steps=1e4: must be an integer'),
    (['--num_epochs=many'], 'flag --num_epochs=many: must be a number'),
    (['--train_steps'], 'Missing value for flag --train_steps'),
    (['--nolist=1'], '--nolist=1 does not take an argument'),
    # What was meant: a flag, or else a hyper-parameter, also as other tools call them.
    (['--learning_rate=0.1'], '--learning_rate=0.1: unknown flag, did you mean --hparams=learning_rate=0.1?'),
    (['--lr', '0.1', '--hparams=cache=false'], '--lr: unknown flag, did you mean --hparams=cache=false,learning_rate=0.1?'),
    (['--epochs=3'], '--epochs=3: unknown flag, did you mean --num_epochs=3?'),
    (['--train-steps', '3'], '--train-steps: unknown flag, did you mean --train_steps=3?'),
    (['--model=mlp', '--hidden-units=[3]'], '--hidden-units=[3]: unknown flag, did you mean --hparams=hidden_units=[3]?'),
    (['--batch_size'], '--batch_size: unknown flag, did you mean --hparams=batch_size=...?'),
    (['--fp16'], '--fp16: unknown flag, did you mean --precision=float16?'),
    (['--dry-run'], '--dry-run: unknown flag, did you mean --schedule=dry_run?'),
    (['stepp'], 'stepp: every argument is a flag, --name=value, did you mean --step=...?'),
    (['train'], 'train: every argument is a flag, --name=value, did you mean --schedule=train?'),
    (['--resume'], '--resume: unknown flag; a run resumes from its --output_dir'),
    (
        ['--schedule=eval'],
        'flag --schedule=eval: value should be one of <train_and_evaluate|train|evaluate|continuous_eval|predict|export|'
        'report|suspects|serve|verify|seen|replay|describe|status|compare|find_learning_rate|find_batch_size|dry_run>, '
        'did you mean evaluate?',
    ),
    (['--precision=fp16'], 'flag --precision=fp16: value should be one of <float32|bfloat16|float16>, did you mean float16?'),
    (['--list=models'], 'flag --list=models: must be true or false'),
    (['--hparams={"seed": 1}'], '--hparams: \'{"seed": 1}\' is not of the form name=value; JSON can be given in a file'),
    (['--hparams=lr=0.1'], '--hparams: unknown hyper-parameter lr, did you mean learning_rate?'),
    (['--model=models/alexnet.py'], '--model=models/alexnet.py: no module models/alexnet.py, did you mean --model=alexnet?'),
    (
        ['--dataset=tests/shared.py'],
        '--dataset=tests/shared.py: no module tests/shared.py, did you mean --dataset=tests.shared?',
    ),
    (['--output_dir=\udce4'], r'--output_dir=\udce4: is not UTF-8'),
    (['--model=a\x1b[31mb\n'], r'--model=a\x1b[31mb : no module models.a\x1b[31mb'),
    # Empty, malformed or incompatible flags.
    *(
        ([f'--{name}=', '--schedule=predict'], f'--{name} is empty')
        for name in ('model', 'dataset', 'data_dir', 'output_dir', 'predict_split')
    ),
    (['--host=', '--schedule=serve'], '--host is empty'),
    *(
        ([f'--{name}={value}'], f'--{name}={value} must be a finite number')
        for name in ('num_epochs', 'early_stopping_min_delta', 'cluster_timeout')
        for value in ('nan', 'inf')
    ),
    (['--eval_splits='], '--eval_splits is empty'),
    (['--eval_splits=eval,'], '--eval_splits=eval,: a name is empty'),
    *(
        ([f'--{flag}', f'--schedule={schedule}'], f'--{flag.partition("=")[0]} requires --schedule={others}, not {schedule}')
        for flag, schedule, others in (
            ('input=1', 'train', 'predict or evaluate'),
            ('predict_split=1', 'train', 'predict or report'),
            ('visualize=1', 'evaluate', 'predict'),
            ('checkpoint=1', 'train_and_evaluate', 'evaluate or predict or export or serve or report or suspects'),
            ('best_metric=1', 'train', 'train_and_evaluate or continuous_eval or compare or dry_run'),
            ('local_cluster=1', 'evaluate', 'train_and_evaluate or train'),
            ('override_hparams=x=1', 'evaluate', 'train_and_evaluate or train or dry_run'),
            ('eval_timeout=1', 'train_and_evaluate', 'continuous_eval'),
            ('early_stopping_patience=1', 'train', 'train_and_evaluate or dry_run'),
            ('early_stopping_min_delta=1', 'train', 'train_and_evaluate or dry_run'),
            ('runs=x', 'train', 'status or compare'),
            ('watch=true', 'evaluate', 'status'),
            ('port=80', 'export', 'serve'),
            ('host=x', 'export', 'serve'),
        )
    ),
    (['--schedule=compare'], '--schedule=compare needs --runs, a pattern of output_dirs'),
    (['--schedule=compare', '--runs=gs://a/*'], 'gs://a/*: is remote: mount it as a directory, and give that'),
    (['--schedule=status', '--runs=a', '--output_dir=b'], '--runs=a excludes --output_dir=b: give one of the two'),
    (
        ['--schedule=status', '--output_dir=nowhere'],
        "nowhere: there is no run: give the --output_dir of one, or --runs='output/**'",
    ),
    (['--schedule=predict', '--input=a', '--predict_split=eval'], '--input=a excludes --predict_split=eval: give one'),
    (['--schedule=evaluate', '--input=a', '--eval_splits=x,y'], '--input=a excludes --eval_splits=x,y: give one of the two'),
    (['--debug_numerics', '--schedule=export'], '--debug_numerics is incompatible with --schedule=export: the checks would'),
    (
        ['--predictions=x.csv', '--schedule=predict'],
        '--predictions=x.csv must be the name of a .jsonl file, such as predictions.',
    ),
    (['--visualize=x.jpg', '--schedule=predict'], '--visualize=x.jpg must be the name of a PNG file, such as predictions.png'),
    (['--local_cluster=boss:1'], '--local_cluster=boss:1 must list jobs'),
    (['--local_cluster=worker:2', '--output_dir=gs://x/y'], '--output_dir=gs://x/y: --local_cluster needs a local directory'),
    (['--restarts=1'], '--restarts requires --local_cluster'),
    (['--min_tasks=2', '--schedule=evaluate'], '--min_tasks requires --schedule=train_and_evaluate or train, not evaluate'),
    (['--min_tasks=3', '--local_cluster=worker:2,evaluator:1'], '--min_tasks=3: the cluster has only 2 tasks that train'),
    (['--min_tasks=1', '--local_cluster=worker:2,ps:1'], '--min_tasks is incompatible with parameter servers'),
    (['--best_metric=accuracy'], '--best_metric=accuracy is not of the form METRIC:min or METRIC:max, such as accuracy:max'),
    (['--profile_steps=10'], '--profile_steps=10 is not of the form FIRST:END, FIRST < END, such as 100:110'),
    (['--profile_steps=10:10'], '--profile_steps=10:10 is not of the form'),
    ([f'--profile_steps=1:{STEPS + 1}'], f'--profile_steps=1:{STEPS + 1}: there are at most {STEPS} steps'),
    (['--freeze=('], '--freeze=( is not a regular expression: missing )'),
    (['--warm_start_from=x', '--warm_start_exclude=)'], '--warm_start_exclude=) is not a regular expression: unbalanced'),
    *(([f'--{name}=a:b'], f'--{name} requires --warm_start_from') for name in ('warm_start_names', 'warm_start_exclude')),
    (['--output_dir=a[1]'], '--output_dir=a[1]: TensorFlow reads * ? [ ] \\ as glob patterns'),
    # Missing targets, or a wrong hyper-parameter.
    (['--model=alexnex'], '--model=alexnex: no module models.alexnex, did you mean --model=alexnet? The models are: alexnet, '),
    (['--dataset=nope'], '--dataset=nope: no module datasets.nope; the datasets are: addition, '),
    (['--hparams_set=nope'], '--hparams_set=nope: no file '),
    (['--hparams=drop_rat=0.1'], '--hparams: unknown hyper-parameter drop_rat, did you mean drop_rate?'),
    ([*POLYNOMIAL, '--hparams=batch_size=0'], '--hparams: batch_size=0 must be at least 1'),
]
SEVERAL = [  # Each mistake has a line.
    (['--lr=0.1', '--steps=9', '--seed=x', '--batch-size', '8', '--precision=int8', '--list', 'oops'], 6),
    (
        ['--model=nope', '--dataset=nope', '--freeze=(', '--restarts=1', '--hparams_set=nope', '--hparams=a', '--eval_splits='],
        7,
    ),
    ([*POLYNOMIAL, '--hparams=learning_rat=1,batch_size=0,seed=3,cache=5', '--override_hparams=x'], 5),
    ([*POLYNOMIAL, '--hparams=optimizer=lion', '--override_hparams=momentu=1,batch_size=0'], 3),
    # A flag that cannot be parsed hides no other mistake. Only mlp, which is meant, has hidden_units.
    (['--modle=mlp', '--train_steps=x', '--hparams=hidden_units=[8],cache=5', '--eval_splits='], 4),
]
CODE = """
import contextlib, io, json, sys
from estimator_trainer.common.commands import sweep, trainer

for program, argv in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = {'sweep': sweep, 'trainer': trainer}[program].main([program + '.py', *argv])
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
assert 'tensorflow' not in sys.modules
"""

WINDOWS = 'import os, signal, sys\nsys.modules.update(fcntl=None, resource=None)\ndel os.fork, signal.SIGHUP, signal.SIGPIPE\n'


def test_help_and_mistakes_are_answered_without_tensorflow():
    several = [('trainer', argv, '') for argv, _ in SEVERAL]
    mistakes = [('trainer', *row) for row in MISTAKES] + [('sweep', ['--model=polynomial'], '--space is missing')]
    calls = json.dumps([row[:2] for row in HELP + several + mistakes])
    process = subprocess.run([sys.executable, '-c', CODE], cwd=ROOT, input=calls, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, '')
    found = [json.loads(line) for line in process.stdout.splitlines()]
    for name in {*flags.define()} - {'h'}:
        assert re.search(rf'--(\[no\])?{name}:', found[0][1]), name
    for (_, argv, text), (code, out, err) in zip(HELP, found):
        assert (code, err) == (0, '') and re.search(text, out, re.DOTALL), argv
    for (_, count), (code, out, err) in zip(SEVERAL, found[len(HELP) :]):
        assert (code, out, err.count('\n')) == (2, '', count) and err.count('trainer.py: ') == count, err
    for (program, argv, text), (code, out, err) in zip(mistakes, found[len(HELP) + len(SEVERAL) :], strict=True):
        assert (code, out, err.count('\n')) == (2, '', 1) and err.startswith(f'{program}.py: {text}'), (argv, err)


def test_one_line_names_missing_modules_on_windows():
    calls = json.dumps([(program, ['--help']) for program in ('trainer', 'sweep')])
    process = subprocess.run([sys.executable, '-c', WINDOWS + CODE], cwd=ROOT, input=calls, capture_output=True, text=True)
    found = [json.loads(line) for line in process.stdout.splitlines()]
    problem = 'needs Linux or macOS: Python has no module fcntl here\n'
    assert found == [[1, '', f'{program}.py: {problem}'] for program in ('trainer', 'sweep')], process.stderr


RUN = 'from estimator_trainer.common.processes import run_and_exit\nimport os\nrun_and_exit(lambda: {})'
STREAMS = [
    (RUN.format('print("x") or os.open("/dev/null", os.O_RDONLY)'), '<&- >&- 2>&-', 3, ''),  # No file gets their numbers.
    (
        f'import sys\n{RUN.format("trainer.main(sys.argv)")}',
        '>/dev/full',
        1,
        'stdout cannot be written: No space left on device',
    ),
    (f'import sys\n{RUN.format("trainer.main(sys.argv)")}', '2>/dev/full | head -n 0', 0, ''),
]


@pytest.mark.parametrize('code, streams, expected, err', STREAMS)
def test_standard_streams_that_are_closed_broken_or_full_cost_what_is_written_to_them_at_most(code, streams, expected, err):
    code = f'from estimator_trainer.common.commands import trainer\n{code}'
    command = ['bash', '-c', f'"$0" -c "$1" --list {streams}; exit ${{PIPESTATUS[0]}}', sys.executable, code]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (expected, '') and process.stderr == (err and f'-c: {err}\n')


def test_the_garbage_collector_ignores_the_imports_of_a_command(monkeypatch):
    gc.unfreeze()
    command.import_tensorflow()
    assert gc.get_freeze_count() == 0  # These objects are a program's own.
    monkeypatch.delitem(sys.modules, 'tensorflow')
    command.import_tensorflow()
    assert gc.get_freeze_count() > 100_000 and gc.isenabled()
    monkeypatch.setitem(sys.modules, 'tf_estimator', None)
    with pytest.raises(RunError, match='tf_estimator'):
        command.import_tensorflow()
    assert gc.isenabled()


def test_a_library_that_finds_no_address_space_names_the_limit(monkeypatch):
    wrong = 'libtensorflow_cc.so.2: failed to map segment from shared object'  # As with `ulimit -v 1000000`.

    class Finder:
        @staticmethod
        def find_spec(*given):
            raise ImportError(wrong)

    monkeypatch.delitem(sys.modules, 'tf_estimator')
    monkeypatch.setattr(sys, 'meta_path', [Finder])
    with pytest.raises(RunError, match=rf'^{wrong}: raise the limit of address space \(ulimit -v\), or'):
        command.import_tensorflow()

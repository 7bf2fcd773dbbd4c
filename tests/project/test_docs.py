"""The README and the pages of docs/ are correct, and their examples produce the documented results."""

import ast
import doctest
import fnmatch
import glob
import os
import re
import shlex
import sys

from tf_estimator.replacements import CONTRIB

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import flags as run_flags
from estimator_trainer.common.commands import request, sweep, trainer
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.own_data.schema import COLUMNS, FEATURES, read_schema
from estimator_trainer.common.storage.metrics import read_metric
from estimator_trainer.common.sweep.space import make_space, read_space
from estimator_trainer.hparams.defaults import DEFAULTS
from tests import forked
from tests.shared import ROOT
from tools import reference


def read(*names):
    with open(os.path.join(ROOT, *names), encoding='utf-8') as file:
        return file.read()


TEXT, SWEEPS, RUNS = read('README.md'), read('docs', 'sweeps.md'), read('docs', 'runs.md')
BLOCK = re.compile(r'```python\n(.*?)```', re.DOTALL)
PAGES = [*(f'{ROOT}/{name}README.md' for name in ('', 'deploy/', 'tf_estimator/')), *sorted(glob.glob(f'{ROOT}/docs/*.md'))]
OTHER_FLAGS = """inside_saves modules rounds signal times its own logdir follow build-arg no-cache-dir rm create-home home-dir
    uid cpus-per-task exclusive gpus-per-task job-name kill-on-bad-exit label mem nodes ntasks-per-node open-mode output
    requeue time wait no-kill force model_dir no-deps steps tensorflow units absent infile mode outfile tf1
    as_it_was exact check json target devices faults""".split()
MODULES = dict(re.findall(r'all of `(\w+)\.py`:\n\n```python\n(.*?)```', TEXT, re.DOTALL))
PROGRAM, *PORTED = BLOCK.findall(read('docs', 'porting.md'))
DOCTEST = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
# Parts of other ops, not used alone.
INTERNAL = """biased_relu class_text channel_axis check_data_format draw_grid draw_labeled draw_matrix drawable enlarge
    image_summary matrix_summary rank scores scores_of shorten step_seed to_pil_images training_in weight_penalty""".split()
COOKBOOK, GUIDE = read('docs', 'cookbook.md'), read('docs', 'guide', 'README.md')
SECTIONS = dict(re.findall(r'^## (.*?)\n(.*?)(?=^## |\Z)', COOKBOOK, re.MULTILINE | re.DOTALL))
CHAPTERS = {name: read('docs', 'guide', name) for name in re.findall(r'\]\((\w+\.md)\)', GUIDE)}
EXAMPLES = {**SECTIONS, **CHAPTERS}


@pytest.mark.parametrize(
    'names, texts, flags',
    [
        (('my_package.my_model', 'my_package.my_dataset'), [MODULES['my_model'], MODULES['my_dataset']], ()),
        (('ported.circle_model', 'ported.circle'), PORTED, ('--train_steps=200',)),
    ],
)
def test_modules_run_outside_the_repository_and_learn(run, tmp_path, monkeypatch, names, texts, flags):
    for name, text in zip(names, texts, strict=True):
        path = tmp_path / f'{name.replace(".", "/")}.py'
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert flags or f'trainer.py --model={names[0]} --dataset={names[1]}\n' in TEXT
    monkeypatch.chdir(tmp_path)
    code, result, err = run(f'--model={names[0]}', f'--dataset={names[1]}', f'--data_dir={tmp_path}/data', *flags)
    assert code == 0 and result['eval']['accuracy'] > 0.95, err
    assert flags or run('--schedule=predict')[0] == 0
    code, result, _ = run('--schedule=export')
    assert code == 0 and os.path.exists(os.path.join(result['export'], 'saved_model.pb'))


def test_the_program_that_is_ported_runs_as_it_is(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text(PROGRAM)
    program = 'import sys\nfrom tf_estimator.command import main\nmain(sys.argv[1:])'
    process = forked.run([sys.executable, '-c', program, str(script), '--steps=400'], cwd=tmp_path)
    assert process.returncode == 0 and float(process.stdout) > 0.95, process.stderr
    assert [*tmp_path.glob('model/export/circle/*/saved_model.pb')]


def test_the_tables_of_flags_and_hyper_parameters_are_those_of_their_entries():
    for name, others in (('flags', {*run_flags.define(), *SCHEDULES} - {'h'}), ('hparams', DEFAULTS), ('sweeps', {'trials'})):
        text = read('docs', f'{name}.md')
        assert reference.written(text) == text, 'python -m tools.reference writes it'
        assert {*others} <= set(re.findall(r'^\| `(?:--)?(\w+)` \|', text, re.MULTILINE))


@pytest.mark.parametrize('path', sorted({*PAGES, *glob.glob(f'{ROOT}/deploy/*')}))
def test_every_flag_that_is_named_exists(path):
    named = set(re.findall(r'(?<![\w-])--([a-zA-Z][\w-]*)', open(path).read()))
    assert named.difference(OTHER_FLAGS) <= {*sweep.define_flags()}


@pytest.mark.parametrize('path', PAGES)
def test_the_links_lead_somewhere(path):
    text = re.sub('```.*?```', '', open(path).read(), flags=re.DOTALL)
    for target in re.findall(r'\]\(([^)]+)\)', text):
        if target.startswith('https://'):
            continue
        page, _, title = target.partition('#')
        page = os.path.join(os.path.dirname(path), page) if page else path
        assert os.path.exists(page), target
        if title:
            titles = re.findall(r'^#+ (.*)$', open(page).read(), re.MULTILINE)
            assert title in [title.lower().replace(' ', '-') for title in titles], target


def test_the_commands_about_runs_do_what_is_written(execute, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = []
    for line in re.findall(r'^(?:python trainer\.py|mv) .*', RUNS, re.MULTILINE):
        program, *argv = shlex.split(line.removeprefix('python '))
        if program == 'mv':
            os.rename(*argv)
            continue
        code, result, err = execute(trainer.main, [program, *argv])
        assert code == 0 and ('--overwrite: deleting the run in runs/first' in err) == ('--overwrite' in argv), err
        if '--schedule=status' in argv:
            assert re.findall(r'^runs/\S+ +finished', result, re.MULTILINE)
            continue
        if '--schedule=compare' in argv:
            assert {*re.findall(r'^(\w+) +finished', result, re.MULTILINE)} == {'branch', 'moved'} and os.path.exists(
                'runs/compare.html'
            )
            continue
        assert ('Starting from the weights in runs/first' in err) == ('--warm_start_from=runs/first' in argv)
        steps.append(result['global_step'])
    assert steps == [200, 200, 300, 400, 400, 200, 100, 300]
    names = {}
    exec(BLOCK.search(RUNS)[1], names)
    assert names['run'].metrics['global_step'] == 100 and read_metric('runs/branch', 'eval', 'loss')
    table = re.findall(r'^\| ([^|]*) \|', RUNS.partition('## Clean up')[2], re.MULTILINE)[2:]
    known = re.findall(r'[^\s,]+', ' '.join(table).replace('\\', ''))
    found = [name + '/' * os.path.isdir(f'runs/moved/{name}') for name in os.listdir('runs/moved')]
    assert found and all(any(fnmatch.fnmatch(name, pattern) for pattern in known) for name in found)


def test_what_replaces_packages_of_contrib_is_listed():
    rows = re.findall(r'^\| `tf\.contrib\.([\w.]+)` \| ([^|]*) \|$', read('docs', 'porting.md'), re.MULTILINE)
    assert rows == sorted(CONTRIB.items())


def test_the_sweep_has_a_good_command_line_and_its_spaces_are_of_alexnet_on_mnist(tmp_path):
    argv = re.search(r'python (sweep\.py .*)', SWEEPS)[1].split()
    SWEEP, FLAGS = sweep.define_flags(), run_flags.define()
    SWEEP(argv)
    sweep.check_flags(SWEEP)
    FLAGS(['trainer.py'])
    (tmp_path / 'space.json').write_text(re.search('```json\n(.*?)```', SWEEPS, re.DOTALL)[1])
    for path in (tmp_path / 'space.json', os.path.join(ROOT, SWEEP.space)):
        assert {'learning_rate', 'dense_units', 'filters'} <= make_space(
            read_space(str(path)), path, request.load(FLAGS)[2]
        ).keys()


@pytest.mark.parametrize('terms', [COLUMNS, FEATURES])
def test_the_schemas_are_valid(tmp_path, terms):
    example = re.search(rf'```json\n({{\s*"{terms.items}".*?)```', read('docs', 'own_data.md'), re.DOTALL)
    (tmp_path / 'schema.json').write_text(example[1])
    assert read_schema(str(tmp_path / 'schema.json'), terms).content.keys() == {terms.items, *terms.roles, 'task'}


@pytest.mark.parametrize('title', EXAMPLES)
def test_the_examples_give_what_is_written(monkeypatch, title):
    monkeypatch.setattr(tf, 'disable_eager_execution', lambda: None)  # A graph is as good, and leaves no trace.
    names = {}
    exec(BLOCK.search(GUIDE if title in CHAPTERS else COOKBOOK).group(1), names)
    test = doctest.DocTestParser().get_doctest('\n'.join(BLOCK.findall(EXAMPLES[title])), names, title, title, 0)
    assert len(test.examples) > (3 if title in CHAPTERS else 0)
    output = []
    with tf.Graph().as_default():
        doctest.DocTestRunner(optionflags=DOCTEST if title in CHAPTERS else doctest.ELLIPSIS).run(test, out=output.append)
    assert not output, ''.join(output)


def test_every_op_has_an_example_and_every_chapter_is_listed_and_points_at_code_that_is_there():
    modules = [ast.parse(read(path)) for path in glob.glob(f'{ROOT}/common/ops/*.py')]
    ops = {node.name for module in modules for node in module.body if isinstance(node, ast.FunctionDef)}
    imported = re.findall(r'>>> from estimator_trainer\.common\.ops\.\w+ import (.*)', COOKBOOK)
    assert {name for name in ops.difference(INTERNAL) if name[0] != '_'} == set(', '.join(imported).split(', '))
    assert {*CHAPTERS, 'README.md'} == {*os.listdir(os.path.join(ROOT, 'docs', 'guide'))}
    for text in CHAPTERS.values():
        (use,) = re.findall(r'^\*In this project:\*.*\Z', text, re.MULTILINE | re.DOTALL)
        files = re.findall(r'\b(?:common|models)/[\w/]+\.py', use)
        assert files and all(os.path.exists(os.path.join(ROOT, path)) for path in files)

"""Mutation testing: the share of small faults in the code that the tests detect.

python -m tools.mutants choose --count=160 > mutants.json     a sample, proportional to the sizes of the wings
pytest -n 4 --cov --cov-context=test --durations=0 ... > log  lines and duration of each test (needs pytest-cov)
python -m tools.mutants run mutants.json --coverage=.coverage --log=log > results.json

Applies each mutant to a copy of the checkout, and runs the tests that cover its line until one fails: first those of the same
wing, the fastest first. They run in a fork of a process that has imported TensorFlow.
"""

import argparse
import ast
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ('common', 'datasets', 'estimator_trainer', 'hparams', 'models', 'tf_estimator', 'trainer.py', 'sweep.py')
COMPARISONS = {
    ast.Lt: '<=', ast.LtE: '<', ast.Gt: '>=', ast.GtE: '>', ast.Eq: '!=', ast.NotEq: '==', ast.Is: 'is not',
    ast.IsNot: 'is', ast.In: 'not in', ast.NotIn: 'in',
}  # fmt: skip
OPERATORS = {ast.Add: '-', ast.Sub: '+', ast.Mult: '/', ast.Div: '*', ast.FloorDiv: '*', ast.Mod: '*', ast.Pow: '*'}
OPTIONS = ('-x', '-q', '-p', 'no:cacheprovider', '--no-header', '-rfE', '--tb=line')
SECONDS = 120  # Of tests, by their log, per mutant.


def mutants_of(path):
    """Returns the mutants of a file: dicts of its path, the text before the mutation, the mutated text, and its replacement."""
    source = path.read_text()
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    content, found = source.encode(), []

    def text(node):
        return content[lines[node.lineno - 1] + node.col_offset : lines[node.end_lineno - 1] + node.end_col_offset].decode()

    def add(kind, first, last, new):
        start = lines[first.lineno - 1] + first.col_offset
        end = lines[last.end_lineno - 1] + last.end_col_offset
        found.append(
            {
                'file': str(path.relative_to(ROOT)),
                'kind': kind,
                'before': content[max(start - 100, 0) : start].decode(errors='ignore'),
                'old': content[start:end].decode(),
                'new': new,
            }
        )

    def visit(node, in_function):
        in_function = in_function or isinstance(node, (ast.FunctionDef, ast.Lambda))
        if in_function and isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            operator = COMPARISONS[type(node.ops[0])]
            add('comparison', node, node, f'{text(node.left)} {operator} {text(node.comparators[0])}')
        if isinstance(node, ast.Constant) and type(node.value) is bool and in_function:
            add('constant', node, node, str(not node.value))
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            add('constant', node, node, repr(node.value + 1))
        if (
            in_function
            and isinstance(node, ast.BinOp)
            and type(node.op) in OPERATORS
            and not isinstance(node.left, ast.JoinedStr)
        ):
            if not any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)):
                add('operator', node, node, f'({text(node.left)}) {OPERATORS[type(node.op)]} ({text(node.right)})')
        if isinstance(node, (ast.If, ast.IfExp, ast.While)) and in_function:
            add('condition', node.test, node.test, f'(not ({text(node.test)}))')
        if isinstance(node, ast.BoolOp) and in_function:
            joined = (' or ' if isinstance(node.op, ast.And) else ' and ').join(f'({text(value)})' for value in node.values)
            add('condition', node, node, f'({joined})')
        if isinstance(node, ast.Call) and len(node.args) >= 2 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
            first, second = node.args[:2]
            if in_function and text(first) != text(second) and not isinstance(first, ast.GeneratorExp):
                add('arguments', first, second, f'{text(second)}, {text(first)}')
        is_statement = isinstance(node, (ast.Expr, ast.Raise, ast.AugAssign)) or (
            isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Attribute, ast.Subscript))
        )
        if (
            in_function
            and is_statement
            and not (isinstance(node, ast.Expr) and isinstance(node.value, (ast.Constant, ast.Yield)))
        ):
            add('statement', node, node, 'pass')
        for child in ast.iter_child_nodes(node):
            visit(child, in_function)

    visit(ast.parse(source), False)
    return found


def choose(count, seed):
    """Returns `count` mutants, proportional to the sizes of the wings, cycling through the kinds."""
    random_numbers = random.Random(seed)
    wings = collections.defaultdict(list)
    tracked = subprocess.run(['git', 'ls-files', *PARTS], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in (ROOT / name for name in sorted(tracked.splitlines()) if name.endswith('.py')):
        wings['/'.join(path.relative_to(ROOT).parts[:-1][:2]) or 'programs'].append(path)
    size = {wing: sum(len(path.read_text().splitlines()) for path in paths) for wing, paths in wings.items()}
    chosen = []
    for wing, paths in sorted(wings.items()):
        of_kind = collections.defaultdict(list)
        for mutant in (mutant for path in paths for mutant in mutants_of(path)):
            of_kind[mutant['kind']].append(mutant)
        for mutants in of_kind.values():
            random_numbers.shuffle(mutants)
        kinds = sorted(of_kind)
        random_numbers.shuffle(kinds)
        for i in range(max(1, round(count * size[wing] / sum(size.values())))):
            kind = kinds[i % len(kinds)]
            if of_kind[kind]:
                chosen.append({'id': len(chosen), **of_kind[kind].pop()})
    return chosen


def durations(log):
    """Returns the seconds of each test in a log of pytest's --durations."""
    seconds = collections.Counter()
    for took, test in re.findall(r'^([\d.]+)s (?:call|setup|teardown) +(\S.*)$', log, re.MULTILINE):
        seconds[test] += float(took)
    return seconds


def tests_of(file, wanted, coverage, seconds):
    """Returns the tests that run one of the wanted lines of a file, or else any line of the file.

    Those of the same wing or name come first, the fastest first.
    """
    database = sqlite3.connect(coverage)
    rows = database.execute(
        'SELECT context, numbits FROM line_bits JOIN context ON context.id = context_id JOIN file ON file.id = file_id '
        'WHERE path = ?', (str(ROOT / file),)
    ).fetchall()  # fmt: skip
    in_file = {context.partition('|')[0] for context, _ in rows} - {''}
    on_line = {
        context.partition('|')[0]
        for context, bits in rows
        if context and any(line // 8 < len(bits) and bits[line // 8] & 1 << line % 8 for line in wanted)
    }
    names = {name.removesuffix('.py') for name in file.split('/')} - {'common'}
    near = {test for test in on_line if names & set(re.split(r'/test_|/|\.py', test))}
    tests = sorted(on_line or in_file, key=lambda test: (test not in near, seconds[test], test))
    chosen, spent = {}, 0
    for test in tests:
        spent += seconds[test] + 0.02
        if spent > SECONDS and chosen:
            break
        # A parameter that the command line would misread: runs the whole test.
        chosen[test if re.fullmatch(r'[\w./:]+(\[[\w.=-]*\])?', test, re.ASCII) else test.partition('[')[0]] = None
    return list(chosen)


def in_fork(directory, tests, timeout):
    """Runs tests in a fork of this process; returns the name of the first that failed, 'timeout', or None."""
    with tempfile.NamedTemporaryFile('r') as output:
        child = os.fork()
        if not child:
            os.setsid()
            descriptor = os.open(output.name, os.O_WRONLY | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.chdir(directory)
            sys.path[:] = [str(directory), *(path for path in sys.path if path not in ('', str(ROOT)))]
            import pytest

            code = pytest.main([*OPTIONS, *tests])
            sys.stdout.flush()
            os._exit(code)
        return outcome(child, output, timeout)


def in_process(directory, tests, timeout):
    """Like `in_fork`, in a fresh process."""
    with tempfile.NamedTemporaryFile('r') as output, open(output.name, 'w') as writable:
        command = [sys.executable, '-m', 'pytest', *OPTIONS, *tests]
        child = subprocess.Popen(command, cwd=directory, stdout=writable, stderr=writable, start_new_session=True)
        return outcome(child.pid, output, timeout)


def outcome(child, output, timeout):
    """Waits for a child that runs tests, and ends its processes."""
    deadline, status = time.monotonic() + timeout, None
    while time.monotonic() < deadline and status is None:
        pid, code = os.waitpid(child, os.WNOHANG)
        status = code if pid else None
        time.sleep(0.02)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if status is None:
        os.waitpid(child, 0)
        return 'timeout'
    if status == 0:
        return None
    output.seek(0)
    text = output.read()
    if 'no tests ran' in text:
        raise RuntimeError(text)
    failed = re.search(r'^(?:FAILED|ERROR) (.*?)(?: - .*)?$', text, re.MULTILINE)
    return failed[1] if failed else f'exit {status}: {text[-300:]}'


def run(mutants, coverage, seconds, fallback, killers):
    """Yields each mutant with the test that killed it, None if it survived; first tries the test that killed it before."""
    import tf_estimator  # noqa: F401, I001 - before TensorFlow
    import tensorflow  # noqa: F401

    os.environ['PYTHONDONTWRITEBYTECODE'] = '1'  # Python checks bytecode only by the second and the size of its source.
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as directory:
        checkout = pathlib.Path(directory, 'checkout')
        for name in subprocess.check_output(['git', 'ls-files'], cwd=ROOT, text=True).splitlines():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name, follow_symlinks=False)
        for mutant in mutants:
            start, path = time.monotonic(), checkout / mutant['file']
            content, before, old = path.read_bytes(), mutant['before'].encode(), mutant['old'].encode()
            if content.count(before + old) != 1:
                yield {**mutant, 'killed_by': 'not applied'}
                continue
            at = content.index(before + old) + len(before)
            path.write_bytes(content[:at] + mutant['new'].encode() + content[at + len(old) :])
            line = content[:at].count(b'\n') + 1
            tests = tests_of(mutant['file'], range(line, line + old.count(b'\n') + 1), coverage, seconds)
            tests.sort(key=lambda test: test != killers.get(mutant['id']))
            runs = in_process if mutant['file'].startswith('tf_estimator') else in_fork
            killed_by = runs(checkout, tests, 3 * SECONDS) if tests else None
            if killed_by is None and (more := fallback.get(os.path.dirname(mutant['file']))):
                killed_by = runs(checkout, more, 5 * SECONDS)
            path.write_bytes(content)
            yield {**mutant, 'killed_by': killed_by, 'tests': len(tests), 'seconds': round(time.monotonic() - start, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    of_choose = commands.add_parser('choose')
    of_choose.add_argument('--count', type=int, default=160)
    of_choose.add_argument('--seed', type=int, default=1)
    of_run = commands.add_parser('run')
    of_run.add_argument('mutants')
    of_run.add_argument('--coverage', required=True)
    of_run.add_argument('--log', required=True)
    of_run.add_argument('--share', default='0/1', help='for parallel runs: 0/2 and 1/2')
    of_run.add_argument('--fallback', help='JSON: {folder of sources: [tests to run if all those by coverage pass]}')
    of_run.add_argument('--before', help='results of an earlier run, whose killing tests are tried first')
    arguments = parser.parse_args()
    if arguments.command == 'choose':
        print(json.dumps(choose(arguments.count, arguments.seed), indent=1))
        return
    with open(arguments.mutants) as file:
        first, every = map(int, arguments.share.split('/'))
        mutants = json.load(file)[first::every]
    with open(arguments.log) as file:
        seconds = durations(file.read())
    fallback = json.loads(pathlib.Path(arguments.fallback).read_text()) if arguments.fallback else {}
    before = pathlib.Path(arguments.before).read_text().splitlines() if arguments.before else []
    killers = {result['id']: result['killed_by'] for result in map(json.loads, before)}
    for result in run(mutants, os.path.abspath(arguments.coverage), seconds, fallback, killers):
        print(json.dumps(result), flush=True)


if __name__ == '__main__':
    main()

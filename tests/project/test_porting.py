"""The program of docs/porting.md runs as it is, and as modules of this trainer, and learns the same."""

import os
import re

from tests.shared import ROOT
from tests.tf_estimator.programs import run_forked

TEXT = open(os.path.join(ROOT, 'docs', 'porting.md'), encoding='utf-8').read()
PROGRAM, MODEL, DATASET = re.findall(r'```python\n(.*?)```', TEXT, re.DOTALL)


def test_the_program_runs_as_it_is(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text(PROGRAM)
    code, out, err = run_forked(script, '--steps=200', cwd=tmp_path)
    assert code == 0 and float(out) > 0.95, err
    assert [*tmp_path.glob('model/export/circle/*/saved_model.pb')]


def test_its_modules_learn_the_same(run, tmp_path, monkeypatch):
    package = tmp_path / 'ported'  # Not my_package, which other tests import.
    package.mkdir()
    for name, text in (('__init__', ''), ('circle_model', MODEL), ('circle', DATASET)):
        (package / f'{name}.py').write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    code, result, err = run('--model=ported.circle_model', '--dataset=ported.circle', '--train_steps=200')
    assert code == 0 and result['eval']['accuracy'] > 0.95, err
    code, result, _ = run('--schedule=export')
    assert code == 0 and os.path.exists(os.path.join(result['export'], 'saved_model.pb'))

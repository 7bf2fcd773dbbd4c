"""--schedule=report writes one page with what a run has, whatever is in its data, and says in one line why it cannot."""

import csv
import html
import html.parser
import importlib
import re
import shutil
import sys

import pytest

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.report import page
from estimator_trainer.common.runs import reported_predictions
from estimator_trainer.common.runs.reported_slices import read_records
from tests.shared import POLYNOMIAL, without_log

CLASS, CITY = '<img src=x onerror=alert(1)>', '"><script>alert(2)</script>'


class Page(html.parser.HTMLParser):
    """The elements of a page, as (tag, attributes), and its text."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.open, self.text = [], [], ''
        with open(path, encoding='utf-8') as file:
            self.content = file.read()
        self.feed(self.content)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ('meta', 'img', 'br'):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def titles(self):
        return re.findall('<h[23]>(.*?)</h[23]>', self.content)

    def rows(self, section):
        """Returns the rows of the table in a section, as texts."""
        text = re.search(rf'<section id="{section}">(.*?)</section>', self.content, re.DOTALL)[1]
        rows = re.findall('<tr>(.*?)</tr>', text, re.DOTALL)
        return [[html.unescape(cell) for cell in re.findall('<t[hd][^>]*>(.*?)</t[hd]>', row)] for row in rows]

    def count(self, split):
        """Returns the number of examples of a split that it is about."""
        return int(
            re.search(rf'for all ([0-9,]+) examples of the split {split}', ' '.join(self.text.split()))[1].replace(',', '')
        )

    def check(self):
        """Asserts that the page is well-formed, runs no script, and refers to nothing outside."""
        assert not self.open and not {'script', 'iframe', 'link', 'object', 'embed', 'form'} & {tag for tag, _ in self.elements}
        for tag, attributes in self.elements:
            assert not [name for name in attributes if name.startswith('on')], attributes
            assert attributes.get('href', '#').startswith('#')
            assert attributes.get('src', 'data:').startswith('data:image/png;base64,') or tag != 'img'
            assert tag != 'svg' or attributes['aria-label']
        assert not re.search(r'url\(|@import|https?:', self.content.partition('<body>')[0])
        return self


@pytest.fixture(scope='module')
def table(tmp_path_factory):
    """Returns the directory of a classifier of a table, in the folder run, whose names and values are hostile."""
    directory = tmp_path_factory.mktemp('table')
    cells = [(i % 50, CITY, f'2024-01-{i % 28 + 1:02}', i % 3 == 0, CLASS if i % 50 < 20 else 'b&c') for i in range(400)]
    with open(directory / 'people.csv', 'w', newline='') as file:
        csv.writer(file).writerows([('age', '<b>city</b>', 'joined', 'member', 'label'), *cells])
    api.train(
        'mlp',
        'table',
        str(directory / 'run'),
        hparams={'table_file': str(directory / 'people.csv'), 'hidden_units': [4], 'batch_size': 32},
        data_dir=str(directory / 'data'),
        train_steps=20,
        save_checkpoints_steps=10,
        save_summary_steps=5,
        best_metric='accuracy:max',
    )
    return directory


def test_a_table_with_hostile_names_has_a_whole_page(table, tmp_path):
    path = api.load(str(table / 'run')).report()
    assert path == str(table / 'run' / 'report.html') and not [*table.glob('run/*.part')]
    found = Page(path).check()
    assert _framed(path) == (found.content, path)
    for title in (
        'Training',
        'Predictions',
        'Confusion matrix',
        'By class',
        'Slices',
        'Worst mistakes',
        'Which inputs matter',
        'Data',
    ):
        assert title in found.titles()
    page_of_mistakes, _ = _framed(api.load(str(table / 'run')).mistakes(3))
    (tmp_path / 'mistakes.html').write_text(page_of_mistakes)
    worst = Page(tmp_path / 'mistakes.html').check()
    assert worst.titles() == ['Worst mistakes'] and len(worst.rows('mistakes')) == 4  # With the names of the columns.
    assert worst.rows('mistakes')[1][:3] == found.rows('mistakes')[1][:3]
    for text in (
        CLASS,
        CITY,
        '<b>city</b>',
        'b&c',
        'hidden_units',
        '[4]',
        '--best_metric=accuracy:max',
        'precision and recall',
    ):
        assert text in found.text, text
    assert re.search(r'--schedule=export --output_dir=\S+/run', found.text)
    header, *mistakes = found.rows('mistakes')
    for cells in (dict(zip(header, row)) for row in mistakes):
        i = int(cells['where'].removeprefix('line ')) - 2  # Below the header.
        assert (cells['age'], cells['label']) == (str(i % 50), CLASS if i % 50 < 20 else 'b&c') and cells['<b>city</b>'] == CITY
        assert cells['joined'] == f'2024-01-{i % 28 + 1:02}' and cells['predicted'] != cells['label']
    assert mistakes and {row[0] for row in found.rows('inputs')[1:]} == {'age', '<b>city</b>', 'joined', 'member'}


def test_another_split_may_be_reported_on_and_its_records_are_read_once(table, monkeypatch):
    read = []
    monkeypatch.setattr(reported_predictions, 'read_records', lambda *given: read.append(given) or read_records(*given))
    in_train = Page(api.load(str(table / 'run')).report('train', checkpoint='latest')).count('train')
    assert in_train + Page(api.load(str(table / 'run')).report()).count('eval') == 400
    assert [split for _, split, _ in read] == ['train', 'eval']
    with pytest.raises(UsageError, match='nosuch'):
        api.load(str(table / 'run')).report('nosuch')


def test_pictures_are_shown_as_pictures(run, trained_run):
    directory = trained_run('alexnet')
    code, result, err = run('--schedule=report')
    assert (code, result) == (0, {'global_step': 20, 'report': f'{directory}/report.html'}), err
    found = Page(result['report']).check()
    alts = [attributes['alt'] for tag, attributes in found.elements if tag == 'img']
    assert sum(bool(re.match(r'example \d+: label \d, predicted \d$', alt)) for alt in alts) == 24
    assert any(alt.startswith('The same, tinted where') for alt in alts) and 'Which inputs matter' not in found.titles()
    assert '1,000 examples' in found.text and '784 bytes' not in found.text


def test_the_words_that_mistakes_depend_on_are_tinted(tmp_path):
    words = {'sport': ['goal', '<b>ball</b>'], 'food': ['soup', 'bread']}
    lines = [f'{label}\tthe {words[label][i % 2]} is here' for i in range(100) for label in words]
    (tmp_path / 'train.txt').write_text('\n'.join(lines))
    (tmp_path / 'eval.txt').write_text('\n'.join(['food\tthe <b>ball</b> is here', 'food\tball', *lines[:20]]))
    run = api.train(
        'mlp',
        'text',
        str(tmp_path / 'run'),
        hparams={'text_file': str(tmp_path), 'hidden_units': [8], 'learning_rate': 0.03},
        data_dir=str(tmp_path / 'data'),
        train_steps=40,
        save_checkpoints_steps=40,
    )
    found = Page(run.report()).check()
    (row,) = re.findall('>line 1</th>(.*?)</tr>', found.content, re.DOTALL)
    marked = re.findall(r'<mark style="background: rgba\(var\(--tint\), ([\d.]+)\)">(.*?)</mark>', row)
    assert max(marked) == ('0.60', '&lt;b&gt;ball&lt;/b&gt;'), row


def test_numbers_are_compared_and_what_a_run_lacks_is_said(run, trained_run):
    directory = trained_run('polynomial')
    for name in ('metrics.csv', 'status.json', 'flags.json'):
        (directory / name).unlink()
    shutil.rmtree(directory / 'best')
    code, result, err = run('--schedule=report')
    assert code == 0, err
    found = Page(result['report']).check()
    assert 'predicted against true' in found.text and 'residuals' in found.text
    for text in ('This run has no evaluation', 'no curves', 'There is no status.json'):
        assert text in found.text


def test_a_run_that_was_never_evaluated_says_so(run):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=3')[0] == 0
    code, result, err = run('--schedule=report')
    assert code == 0, err
    found = Page(result['report']).check()
    assert 'This run has no evaluation' in found.text and 'loss by step' in found.text


def test_the_split_is_the_one_that_the_training_has_evaluated(run):
    assert run(*POLYNOMIAL, '--train_steps=3', '--eval_splits=train,eval', '--hparams=num_samples=100')[0] == 0
    code, result, err = run('--schedule=report')
    assert code == 0 and Page(result['report']).count('train') == 100, err


def test_a_missing_package_is_one_line(run, trained_run, monkeypatch):
    directory = trained_run('polynomial')
    monkeypatch.setitem(sys.modules, 'jinja2', None)
    importlib.reload(page)  # Which does not need it.
    code, _, err = run('--schedule=report')
    assert code == 2 and not (directory / 'report.html').exists()
    assert without_log(err)[-1].endswith(
        "needs the package jinja2: pip install jinja2, or pip install 'estimator-trainer[report]'"
    )


def _framed(shown):
    """Returns the page in the frame that a notebook shows."""
    ((tag, attributes),) = _elements(shown._repr_html_())
    assert tag == 'iframe' and attributes['sandbox'] is None
    return attributes['srcdoc'], attributes['title']


def _elements(text):
    parser = html.parser.HTMLParser()
    found = []
    parser.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))
    parser.feed(text)
    return found


def test_a_notebook_shows_the_state_and_the_curves_of_a_run(trained_run, monkeypatch):
    output = trained_run('polynomial')
    found = api.load(str(output))
    (summary, title), (curves, _) = _framed(found), _framed(found.plot())
    assert title == repr(found.plot()) and title.startswith(f"Run('{output}'): finished, ")
    assert 'polynomial on polynomial' in summary and 'last loss' in summary and 'last loss' not in curves
    assert summary.count('<figure') == 2 < curves.count('<figure')
    with pytest.raises(UsageError, match='^count=0 must be at least 1$'):
        found.mistakes(0)
    monkeypatch.setitem(sys.modules, 'jinja2', None)
    monkeypatch.setattr(page, 'is_installed', lambda: False)
    assert found._repr_html_() is None
    with pytest.raises(UsageError, match=r'^run\.plot\(\) needs the package jinja2: pip install'):
        found.plot()


def test_a_run_that_is_gone_is_shown_as_text(trained_run):
    found = api.load(str(trained_run('polynomial')))
    shutil.rmtree(found.output_dir)
    assert found._repr_html_() is None
    with pytest.raises(UsageError, match='contains no checkpoint'):
        found.plot()

"""Tests for lines of labels and texts, as people and programs write them."""

import csv
import gzip
import io

import pytest

from estimator_trainer.common.own_data.texts.labeled_lines import LabeledLines, split
from tests.shared import refused

E_ACUTE, E_APART = '\xe9', 'e\u0301'


def read(tmp_path, content):
    """Returns the labels and texts of a file, or the errors, and its LabeledLines."""
    path = tmp_path / 'a.txt'
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    lines = LabeledLines(str(path))
    rows = [row.value for row in lines.labeled()]
    return [(row['label'], row['text']) if isinstance(row, dict) else str(row).partition(': ')[2] for row in rows], lines


def of_csv(*rows, **options):
    """Returns rows as Python's csv writes them, with tabs."""
    text = io.StringIO()
    csv.writer(text, delimiter='\t', lineterminator='\n', **options).writerows(rows)
    return text.getvalue()


ROWS = ('pos', 'a "great" film'), ('neg', 'bad')

CONTENTS = [  # The content of a file; the labels and texts, or errors.
    ('pos\tgood\nneg\tbad\n', [('pos', 'good'), ('neg', 'bad')]),
    ('\ufeffpos\tgood\r\n\r\n \nneg\tbad', [('pos', 'good'), ('neg', 'bad')]),
    ('pos \t a\tgood film ', [('pos', 'a\tgood film')]),
    ('label\ttext\npos\tgood\n', [('pos', 'good')]),
    ('\n"Class"\t"Sentence"\r\npos\tgood\n', [('pos', 'good')]),
    ('label\ta text\n', [('label', 'a text')]),
    ('label\n', ['line 1: has no tab after the label: a label, a tab and a text are one line']),
    (
        '__label__pos good\n',
        ["line 1: has no tab after the label: sed -E 's/^__label__(\\S+) /\\1\\t/' OLD > NEW converts a file of fastText"],
    ),
    (
        'pos,good\n',
        ["line 1: has no tab after the label, but a comma: sed 's/,/\\t/' OLD > NEW replaces it, or --dataset=table reads CSV"],
    ),
    (
        'pos;good\n',
        [
            "line 1: has no tab after the label, but a semicolon: sed 's/;/\\t/' OLD > NEW replaces it, or --dataset=table "
            'reads CSV'
        ],
    ),
    ('pos    good\n', ["line 1: has no tab after the label, but spaces: sed -E 's/ +/\\t/' OLD > NEW replaces the first ones"]),
    ('{"label": "pos", "text": "good"}\n', ['line 1: has no tab after the label, but is JSON']),
    (
        'pos\tgood\rneg\tbad\r',
        [r"line 1: has a carriage return between a text and the next label: tr '\r' '\n' < OLD > NEW makes line feeds of them"],
    ),
    ('pos\u200b\tgood\r\n\ufeff\n\x1a', [('pos', 'good')]),
    ('pos\tgood\n'.encode('utf-16'), [('pos', 'good')]),
    (gzip.compress(b'pos\tgood\n', mtime=0), [('pos', 'good')]),
    (f'{E_APART}\tt{E_APART}\n', [(E_ACUTE, f't{E_ACUTE}')]),
    (of_csv(*ROWS), [*ROWS]),
    (of_csv(*ROWS, quoting=csv.QUOTE_ALL), [*ROWS]),
    ('pos\t"good"\n', [('pos', '"good"')]),  # Quoted speech.
    ('pos\t"good", he said, "or not"\n', [('pos', '"good", he said, "or not"')]),
    ('"pos"\tgood\n', [('"pos"', 'good')]),
    ('pos\t"\n', [('pos', '"')]),
    ('pos\t""\n', [('pos', '""')]),
    ('\tgood\n', ['line 1: has no label']),
    ('pos\t\n', ['line 1: has no text']),
    (
        b'pos\tcaf\xe9\nneg\tbad',
        ['line 1: is not UTF-8: iconv -f CP1252 -t UTF-8 OLD > NEW converts a file of Windows', ROWS[1]],
    ),
    (b'p\0o\0s\0', ['line 1: has NUL characters, as UTF-16 does: iconv -f UTF-16LE -t UTF-8 OLD > NEW converts it']),
    ('', []),
]


@pytest.mark.parametrize('content, expected', CONTENTS)
def test_lines_become_labels_and_texts(content, expected, tmp_path):
    assert read(tmp_path, content)[0] == expected


def test_a_header_is_skipped_with_a_warning_and_its_row_counts_for_the_split(tmp_path, caplog):
    _, lines = read(tmp_path, 'Label\tText\npos\tgood\n')
    assert lines.header == 'Label\tText'
    assert r"a.txt: line 1, 'Label\tText', names the columns: it is skipped." in caplog.text
    assert [(row.position.line, row.position.row) for row in lines.lines()] == [(2, 1)]


def test_a_header_that_names_the_text_first_is_refused_with_a_command(tmp_path):
    message = refused(read, tmp_path, 'sentence\tlabel\ngood\tpos\n')
    assert 'a.txt: line 1 names the columns sentence and label, but the label must be the first: awk ' in message


def test_quotes_of_csv_writers_are_counted(tmp_path):
    assert read(tmp_path, of_csv(*ROWS))[1].num_quoted == 1
    assert read(tmp_path, of_csv(*ROWS, quoting=csv.QUOTE_ALL))[1].num_quoted == 2
    assert read(tmp_path, 'pos\t"good"\n')[1].num_quoted == 0


def test_the_parts_of_a_line_may_be_missing():
    assert [split(line) for line in ('', 'a', 'a\t', '\tb')] == [('', ''), ('a', ''), ('a', ''), ('', 'b')]

"""Lines of a label, a tab and a text, as people and programs write them: with a header, quotes, or accents apart."""

from collections.abc import Iterator
import re

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, show
from estimator_trainer.common.own_data.lines import Row, composed

_LABELS = frozenset('label labels class category target sentiment rating y'.split())
_TEXTS = frozenset('text texts sentence review comment content message document body tweet headline title'.split())
_INVISIBLE = '\x1a\u200b\u200e\u200f\u2060\ufeff'  # The end of a file of DOS, too.
_CURES = (  # A pattern of a line, and how to make one of it.
    (r'__label__', r": sed -E 's/^__label__(\S+) /\1\t/' OLD > NEW converts a file of fastText"),
    (r'\{.*\}', ', but is JSON'),
    (r'[^,]{1,30},', r", but a comma: sed 's/,/\t/' OLD > NEW replaces it, or --dataset=table reads CSV"),
    (r'[^;]{1,30};', r", but a semicolon: sed 's/;/\t/' OLD > NEW replaces it, or --dataset=table reads CSV"),
    (r'\S+ {2,}', r", but spaces: sed -E 's/ +/\t/' OLD > NEW replaces the first ones"),
)


class LabeledLines:
    """A file of lines of a label, a tab and a text, read in Unicode's composed form (NFC).

    Args:
      path: of the file.
      may_lack_labels: whether its lines may be texts alone.

    Attributes:
      header: the first line if it names the columns, as label and text do, and is skipped; else ''.
      num_quoted: number of the lines read by `labeled` from which the quotes of csv writers were removed.

    Raises:
      UsageError: the file cannot be read, or its header names the text before the label.
    """

    def __init__(self, path: str, may_lack_labels: bool = False):
        self.path = path
        self.num_quoted = 0
        first = next(_read(path), None)
        self.header: str = first.value if first is not None and _is_header(path, first.value, may_lack_labels) else ''
        if self.header:
            tf.logging.warning('%s: line 1, %s, names the columns: it is skipped.', path, show(self.header))

    def lines(self) -> Iterator[Row]:
        """Yields the non-blank lines."""
        rows = _read(self.path)
        if self.header:
            next(rows, None)
        yield from rows

    def labeled(self) -> Iterator[Row]:
        """Yields the lines as {'label': str, 'text': str}."""
        self.num_quoted = 0
        for row in self.lines():
            if isinstance(row.value, RunError):
                yield row
                continue
            label, text = split(row.value)
            self.num_quoted += '"' in row.value and (label, text) != _parts(row.value)
            wrong = _explain(row.value, label, text)
            if wrong:
                yield Row(row.position, RunError(f'{self.path}: line {row.position.line}: {wrong}'))
            else:
                yield Row(row.position, {'label': label, 'text': text})


def split(line: str) -> tuple[str, str]:
    """Returns the label and the text of a line, without the quotes in which csv writers put them; '' for a missing one."""
    label, text = _parts(line)
    if '"' not in line:
        return label, text
    bare_label, bare_text = _unquoted(label), _unquoted(text)
    if bare_label is not None and bare_text is not None:
        return bare_label.strip(), bare_text.strip()
    return label, text if bare_text is None or '""' not in text[1:-1] else bare_text.strip()


def bare(text: str, is_csv: bool) -> str:
    """Returns a text that is alone in its line without the quotes of csv writers; `is_csv` tells those from a text's own."""
    unquoted = _unquoted(text)
    return text if unquoted is None or not is_csv and '""' not in text[1:-1] else unquoted.strip()


def _parts(line):
    label, _, text = line.partition('\t')
    return label.strip().strip(_INVISIBLE).strip(), text.strip()


def _read(path):
    """Returns the lines that are not blank."""
    return composed(path, lambda line: line.strip().strip(_INVISIBLE))


def _is_header(path, line, may_lack_labels):
    if isinstance(line, RunError):
        return False
    names = [name.strip(' "').lower() for name in line.split('\t')]
    if len(names) == 2 and names[0] in _TEXTS and names[1] in _LABELS:
        raise UsageError(
            f'{path}: line 1 names the columns {names[0]} and {names[1]}, but the label must be the first: '
            r"awk -F'\t' -v OFS='\t' '{print $2, $1}' OLD > NEW swaps them"
        )
    return names[-1] in _TEXTS and (len(names) == 2 and names[0] in _LABELS or may_lack_labels and len(names) == 1)


def _explain(line, label, text):
    """Returns what is wrong with a line, in words that follow its place; '' if nothing is."""
    if '\t' not in line:
        cure = next((cure for pattern, cure in _CURES if re.match(pattern, line)), ': a label, a tab and a text are one line')
        return f'has no tab after the label{cure}'
    if not label or not text:
        return 'has no label' if not label else 'has no text'
    if '\t' in text.partition('\r')[2]:
        return r"has a carriage return between a text and the next label: tr '\r' '\n' < OLD > NEW makes line feeds of them"
    return ''


def _unquoted(cell):
    """Returns a cell without its quotes, "" as one; None if it has none."""
    if len(cell) < 2 or cell[0] != '"' or cell[-1] != '"':
        return None
    inner = cell[1:-1]
    return inner.replace('""', '"') if '"' not in inner.replace('""', '') else None

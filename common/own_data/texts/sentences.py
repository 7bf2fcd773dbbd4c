"""Sentences in files as of CoNLL's shared tasks: a token and its tag in each line, and a blank line after each sentence."""

from collections.abc import Iterable, Iterator
import itertools
import re
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, printable, show
from estimator_trainer.common.own_data.lines import Position, Row, composed
from estimator_trainer.hparams.build import HParams

_NAMES = frozenset(
    'token tokens word words form text id lemma tag tags label labels ner ner_tag pos upos xpos chunk iob'.split()
)
_SAMPLE = 200  # Lines that tell what a file is.
_DOCUMENT = '-DOCSTART-'
_NUM_CONLLU, _FORM, _UPOS = 10, 1, 3  # Columns of CoNLL-U, from 0 on.
_ID = re.compile(r'\d+([-.]\d+)?\t')
_NO_TOKEN = re.compile(r'\d+[-.]\d+\t')  # The number of several words, or of an empty one.
_NO_TAG = ('', '_')  # The latter in CoNLL-U.
# Without tabs, with.
_CURES = ': if a token has spaces, separate all columns by tabs', ': a token, a tab and its tag make a line'


class Sentence(NamedTuple):
    """Tokens, their tags, if the file has them, and the numbers of their lines."""

    tokens: list[str]
    tags: list[str]
    lines: list[int]


class _Layout(NamedTuple):
    """The form of a file's lines: its columns are counted from 0 on, tag is -1 if there is none."""

    has_tabs: bool
    num_columns: int
    token: int
    tag: int
    example: int  # The first line of this form.
    columns: str  # Which of several columns have the tokens and the tags, in words.
    header: int = 0  # The line that names the columns.
    is_conllu: bool = False

    def cells(self, line: str) -> list[str]:
        return _cells(line, self.has_tabs)

    def is_token(self, number: int, line: str | RunError) -> bool:
        """Whether a line is not to be skipped, as comments are."""
        if isinstance(line, RunError):
            return True
        is_comment = line.startswith('#') and (self.is_conllu or len(self.cells(line)) != self.num_columns)
        return number != self.header and not is_comment and not (self.is_conllu and _NO_TOKEN.match(line))


class SentenceFile:
    """A file of sentences, with tags or without. If there are several columns, it says at once which have tokens and tags.

    Args:
      path: of the file.
      params: hyper-parameters: token_column, tag_column, max_length.
      others: files that have said so, which need not be said again of the same columns.

    Attributes:
      has_tags: whether the tokens have tags.

    Raises:
      UsageError: the file cannot be read, or has no such columns.
    """

    def __init__(self, path: str, params: HParams, others: Iterable['SentenceFile'] = ()):
        self.path, self._max_length = path, params.max_length
        self._layout = layout = _layout(path, params)
        self.has_tags = layout.tag >= 0
        self._columns = layout.num_columns, layout.token, layout.tag
        if layout.columns and all(other._columns != self._columns for other in others):
            tf.logging.warning('%s: %s: token_column and tag_column choose others.', path, layout.columns)

    def rows(self) -> Iterator[Row]:
        """Yields the sentences, each a Sentence, or the RunError of what is wrong first."""
        numbers = itertools.count()
        for is_end, lines in itertools.groupby(_lines(self.path), lambda numbered: _is_end(numbered[1])):
            found = [] if is_end else [(n, line) for n, line in lines if self._layout.is_token(n, line)]
            if found:
                yield Row(Position(0, found[0][0], next(numbers)), self._sentence(found))

    def tagged(self) -> Iterator[Row]:
        """Yields the sentences; raises RunError if they have no tags."""
        if not self.has_tags:
            raise RunError(f'{self.path}: line {self._layout.example}: has no tag{_CURES[True]}')
        return self.rows()

    def _sentence(self, lines):
        layout, sentence = self._layout, Sentence([], [], [])
        if len(lines) > self._max_length:
            return self._fault(
                lines[0][0],
                f'here begins a sentence of {len(lines):,} tokens, more than max_length={self._max_length}: '
                'put a blank line after each sentence, or raise it',
            )
        for number, line in lines:
            if isinstance(line, RunError):
                return line
            cells = layout.cells(line)
            if len(cells) != layout.num_columns:
                return self._fault(
                    number,
                    f'has {_columns(cells)}, but line {layout.example} has {layout.num_columns}{_CURES[layout.has_tabs]}',
                )
            if not cells[layout.token] or (self.has_tags and cells[layout.tag] in _NO_TAG[: 1 + layout.is_conllu]):
                return self._fault(number, f'has no {"tag" if cells[layout.token] else "token"}{_CURES[True]}')
            sentence.tokens.append(cells[layout.token])
            sentence.lines.append(number)
            if self.has_tags:
                sentence.tags.append(cells[layout.tag])
        return sentence

    def _fault(self, number, text):
        return RunError(f'{self.path}: line {number}: {text}')


def are_sentences(path: str, tags: set[str]) -> bool:
    """Whether a file's lines are whole sentences, not tokens: without tabs, of several words, and not all with a tag last.

    Sentences may all end with a mark that is also a tag, such as a full stop: tokens have words among their tags, or as many
    columns in all lines, with blank ones between.
    """
    numbered = _sample(path)
    lines = [line for _, line in numbered if not line.startswith('#')]
    rows = [line.split() for line in lines]
    if all(len(row) == 1 for row in rows):
        tf.logging.warning('%s: each line is taken for a token, and a blank line for the end of a sentence.', path)
        return False
    if any('\t' in line for line in lines):
        return False
    if not all(len(row) > 1 and row[-1] in tags for row in rows):
        return True
    has_blank = numbered[-1][0] - numbered[0][0] >= len(numbered)
    is_regular = has_blank and len({*map(len, rows)}) == 1
    return not is_regular and not any(character.isalnum() for row in rows for character in row[-1])


def _lines(path):
    """Yields the number of each line, from 1 on, and the line, or the RunError of what is wrong with it."""
    return ((row.position.line, row.value) for row in composed(path))


def _is_end(line):
    """Whether a line is between sentences."""
    return isinstance(line, str) and (not line.strip() or line.startswith(_DOCUMENT))


def _sample(path):
    """Returns the first lines that are not between sentences, with their numbers; raises RunError if there are none."""
    found = [*itertools.islice(((n, line) for n, line in _lines(path) if not _is_end(line)), _SAMPLE)]
    if wrong := next((line for _, line in found if isinstance(line, RunError)), None):
        raise wrong
    if not found:
        raise RunError(f'{path}: has no sentences: a token, a tab and its tag make a line')
    return found


def _layout(path, params):
    """Returns the _Layout of a file, by its first lines, and says what it decides."""
    lines = _sample(path)
    lines = [(number, line) for number, line in lines if not line.startswith('#')] or lines
    has_tabs, header = '\t' in lines[0][1], 0
    if len(lines) > 1 and len(names := _cells(lines[0][1].lower(), has_tabs)) > 1 and {*names} <= _NAMES:
        header = lines[0][0]
        tf.logging.warning('%s: line %d, %s, names the columns: it is skipped.', path, header, show(lines[0][1]))
        lines = lines[1:]
    sizes = [len(_cells(line, has_tabs)) for _, line in lines]
    size = max(sizes, key=sizes.count)
    lines = [numbered for numbered, of_line in zip(lines, sizes) if of_line == size]
    table = [_cells(line, has_tabs) for _, line in lines]
    is_conllu = has_tabs and size == _NUM_CONLLU and all(_ID.match(line) for _, line in lines)
    token, tag = (_FORM, _UPOS) if is_conllu else (int(size > 1 and _are_counted(table)), size - 1)
    token, tag = params.token_column - 1 if params.token_column else token, params.tag_column - 1 if params.tag_column else tag
    if size == 1:
        token, tag = 0, -1
    for name, place in (('token_column', token), ('tag_column', tag)):
        if place >= size:
            raise UsageError(f'{name}={place + 1}: {path}: line {lines[0][0]} has {_columns(table[0])}')
    example = next((row for row in table if row[tag] not in _NO_TAG), None) if tag != token else None
    shown = example or table[0]
    of_tags = f'column {tag + 1} has their tags, such as {printable(shown[tag])}' if example else 'they have no tags'
    columns = (
        f'column {token + 1} of {size} has the tokens, such as {printable(shown[token])}, and {of_tags}' if size > 2 else ''
    )
    tag = tag if example else -1
    return _Layout(has_tabs, size, token, tag, lines[0][0], columns, header, is_conllu)


def _columns(cells):
    return f'{len(cells)} column{"" if len(cells) == 1 else "s"}'


def _are_counted(table):
    """Whether the first cells of the first sentence count its tokens."""
    counts = [row[0] for row in table]
    end = counts.index('1', 1) if '1' in counts[1:] else len(counts)
    return counts[:end] == [str(i + 1) for i in range(end)] and end > 1


def _cells(line, has_tabs):
    return [cell.strip() for cell in line.split('\t')] if has_tabs else re.split('[ \t]+', line.strip(' \t'))

"""Your own labeled texts: a label, a tab and a text in each line of a file.

--hparams=text_file=PATH names one file, a share of which is held out for evaluation, or a directory of files named by their
splits: train.txt, eval.txt ... Tokens are lower-case words, with the vocabulary of the training data, parts of them, or bytes.
"""

import collections
from collections.abc import Callable, Iterator
import functools
import itertools
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import unicode_forms
from estimator_trainer.common.errors import RunError, UsageError, check_range, show
from estimator_trainer.common.own_data import folds
from estimator_trainer.common.own_data.conversions import convert_once, read_metadata, read_summary
from estimator_trainer.common.own_data.description import describe_classes, log_classes
from estimator_trainer.common.own_data.examples import named_columns, parser
from estimator_trainer.common.own_data.lines import in_blocks
from estimator_trainer.common.own_data.schema import FEATURES, LABEL, TEXT
from estimator_trainer.common.own_data.split_rows import BadRows, examples_of_rows, places_of_rows, read_rows
from estimator_trainer.common.own_data.splits import find_files
from estimator_trainer.common.own_data.summary import of_features, to_text
from estimator_trainer.common.own_data.texts import composed, tokens
from estimator_trainer.common.own_data.texts.labeled_lines import LabeledLines, bare
from estimator_trainer.common.own_data.texts.labeled_lines import split as split_line
from estimator_trainer.common.own_data.values import MISSING, key
from estimator_trainer.common.own_data.vocabulary import ValueCounts, sorted_classes, union
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = ('*.txt', '*.tsv')
OWN_FOLDS = True
LACKS = ('image',)
_FEATURES = [{'name': name, 'kind': kind, 'stored': 'bytes'} for name, kind in (('text', TEXT), ('label', LABEL))]
_VERSION = 2  # Of the conversion.
_MAX_CLASSES = 10000
_CHECKED = 1000  # Texts of --input whose words are compared with the vocabulary.
_WORDS_OF_A_NAME = 2  # Of a column.
_MIN_DISTINCT_LINES = 10  # So many labels, all different, are texts or ids.


def get_params() -> dict[str, Any]:
    return {
        'text_file': '',  # A file, or a directory of files named by their splits.
        'eval_share': 0.2,  # Of the lines of a single file.
        'max_bad_share': 0.0,  # Maximum share of invalid lines, which are skipped.
        'num_classes': 0,  # Set by the metadata.
        **tokens.get_params(),
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the files to TFRecord files, once for each state of the files and of the hyper-parameters."""
    check_range(params, 'eval_share', 0, 0.9)
    check_range(params, 'max_bad_share', 0, 1)
    tokens.check_params(params)
    convert_once(_directory(data_dir, params), params.text_file, lambda: _converted(params))


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns class_names and num_classes, the vocabulary of the training texts, its vocabulary_size, and the task.

    And, if a share of a single file is held out, moved_rows, those of its `SplitFile`.
    """
    return read_metadata(_directory(data_dir, params))


def summary(data_dir: str, params: HParams) -> str:
    """Returns the numbers of texts, classes and words."""
    return read_summary(_directory(data_dir, params))


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'text' and 'label', both bytes."""
    return records.read(_directory(data_dir, params), _files(params).find(split).name_of(split))


def places(split: str, data_dir: str, params: HParams) -> Iterator[dict[str, Any]]:
    """Returns the file and the line of each example of a split."""
    file = _files(params).find(split).with_moved(metadata(data_dir, params))
    return places_of_rows(file, file.name_of(split), LabeledLines(file.path).labeled())


def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns {'text': int32 [length], ids of the tokens}, {'label': int32 scalar}; no labels in PREDICT.

    Of a batch, they are {'text': int32 [batch, longest]}, padded with 0, and {'label': int32 [batch]}.
    """
    return parser.parse(mode, params, serialized, _FEATURES, are_rows=True)


parse_batch = parse


def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {'text': string [batch]}."""
    return parser.raw_specs(params, _FEATURES)


def from_raw(params: HParams, raw: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns {'text': int32 [batch, length]}, the ids of the tokens of texts, padded with 0.

    If these are bytes, a text in another form of Unicode than NFC raises InvalidArgumentError when the graph runs.
    """
    text = composed.check(raw['text']) if params.tokens == tokens.BYTES else raw['text']
    return parser.from_raw(params, {'text': tokens.strip(text)}, _FEATURES)


def input_parts(params: HParams) -> dict[str, list[dict[str, Any]]]:
    """Returns what the ids of the tokens are; see `tokens.input_part`."""
    return {'text': [tokens.input_part(params)]}


def cell_readers(params: HParams) -> dict[str, Callable[[str], str]]:
    """Returns {'text': function that makes a text of a program what it is in a file}: bytes and unknown words depend on it."""
    return {'text': lambda text: unicode_forms.composed(text).strip()}


def by_column(params: HParams, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns {'text': int64 [batch, length]}, with -1 as padding, as feature columns expect it."""
    return named_columns.by_column(params, features, _FEATURES)


def feature_columns(params: HParams) -> list[Any]:
    """Returns the tf.feature_column of the tokens."""
    return named_columns.feature_columns(params, _FEATURES)


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the lines of a file: texts, each with or without the label of a known class."""
    known = {key(name) for name in params.metadata['class_names']}
    texts: list[str] = []
    lines = LabeledLines(path, may_lack_labels=True)
    is_csv = bool(lines.header) and '\t' not in lines.header

    def encode(line):
        label, text = split_line(line)
        text = text if '\t' in line and key(label) in known else bare(line.strip(), is_csv)
        if len(texts) < _CHECKED:
            texts.append(text)
        return {'text': text}

    yield from read_rows(path, lines.lines(), encode)
    words = tokens.WordCounts(params)
    words.update(texts)
    words.warn_of_unknown(params.metadata['vocabulary'], path)


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the lines of a file: a label, a tab and a text; an error for an unknown label."""
    yield from read_rows(path, LabeledLines(path).labeled(), _label_encoder(params.metadata['class_names']))


def _label_encoder(class_names):
    """Returns a function that gives the label of an example the spelling of its class."""
    names = {key(name): name for name in class_names}

    def encode(example):
        name = names.get(key(example['label']))
        if name is None:
            raise RunError(f'{show(example["label"])} is none of the classes')
        return {**example, 'label': name}

    return encode


def _files(params):
    return find_files(
        'text_file', params.text_file, ('.txt', '.tsv'), params.eval_share, params.train_split, folds.divided(params)
    )


def _directory(data_dir, params):
    names = ('eval_share', 'min_count', 'max_vocabulary', 'max_bad_share')
    files = _files(params)
    facts = [params.train_split, *tokens.facts(params), *(params[name] for name in names), *folds.facts(params)]
    facts += ['by class'] if folds.is_by_class(files.files, params.metadata) else []
    return files.directory(data_dir, 'text', facts, _VERSION)


def _converted(params):
    """Returns the metadata of the files, a summary, and their examples by splits."""
    source, files = params.text_file, _files(params)
    files.find(params.train_split)
    lines = {file: LabeledLines(file.path) for file in files.files}
    surveys = _survey(lines, params)
    for found in lines.values():
        if found.num_quoted:
            tf.logging.warning('%s: the quotes of csv writers are removed from %d lines.', found.path, found.num_quoted)
    facts: dict[str, Any] = {}
    if folds.is_by_class(files.files, params.metadata):
        file, found = next((file, found) for file, found in lines.items() if len(file.splits) > 1)
        counted = {split: survey.labels for split, survey in surveys.items()}
        moved = folds.with_moved(file, counted, functools.partial(_rows_of, found), params)
        lines = {moved if each == file else each: found for each, found in lines.items()}
        facts = {'moved_rows': sorted(moved.moved)}
        surveys = surveys if moved == file else _survey(lines, params)
    classes = _classes(source, {name: survey.labels for name, survey in surveys.items()}, params.train_split)
    _warn_of_headers(lines.values(), surveys.values())
    trained = surveys[params.train_split].words
    facts |= {**describe_classes(classes), **trained.describe(params)}
    for name, survey in surveys.items():
        tokens.warn_of_unknown_words(facts['vocabulary'], trained, survey.words, f'{source}: the split {name}')
    tf.logging.info('%s: %d ids of %s', source, facts['vocabulary_size'], params.tokens)
    rows = {file: found.labeled for file, found in lines.items()}
    return facts, _summarize(source, facts, surveys), examples_of_rows(rows, _label_encoder(classes), params.max_bad_share)


def _warn_of_headers(lines, surveys):
    """Warns of first lines that may name the columns: no other line has their label, and their text is a word or two."""
    first = {found.path: row for found in lines if not found.header for row in itertools.islice(found.lines(), 1)}
    parts = {path: split_line(row.value) for path, row in first.items() if not isinstance(row.value, RunError)}
    names = collections.Counter(label for label, _ in parts.values())
    for path, (label, text) in parts.items():
        total = sum(survey.labels.counts().get(label, 0) for survey in surveys)
        if 0 < total <= names[label] and len(text.split()) <= _WORDS_OF_A_NAME:
            line, shown = first[path].position.line, show(first[path].value)
            tf.logging.warning(
                '%s: line %d, %s, is the only one of its class: if it names the columns, remove it.', path, line, shown
            )


def _summarize(source, facts, surveys):
    counts = ', '.join(f'{survey.labels.total:,} in {split}' for split, survey in surveys.items())
    return to_text(f'{source}: texts: {counts}', FEATURES, of_features(facts, _FEATURES), has_schema=False)


class _Survey:
    """The labels and the words of a split."""

    def __init__(self, params):
        self.labels = ValueCounts(_MAX_CLASSES)
        self.words = tokens.WordCounts(params)


def _survey(lines, params):
    """Reads the files, {file: LabeledLines}; returns {split: _Survey}."""
    surveys = {split: _Survey(params) for file in lines for split in file.splits}
    bad = BadRows(params.max_bad_share)
    for file, found in lines.items():
        for block in in_blocks(bad.sound(found.labeled())):
            values: dict[str, list[Any]] = {split: [] for split in file.splits}
            for row in block:
                values[file.split_of(row.position.row)].append(row.value)
            for split, of_split in values.items():
                surveys[split].labels.update([value['label'] for value in of_split])
                surveys[split].words.update([value['text'] for value in of_split])
            if not all(surveys[split].labels.is_exact for split in file.splits):
                raise _too_many(file.path)
    return surveys


def _rows_of(lines):
    """Yields the number and the label of each row, for `folds.with_moved`."""
    for row in lines.labeled():
        if not isinstance(row.value, RunError):
            yield row.position.row, row.value['label'], ''


def _too_many(path):
    return UsageError(f'{path}: has more than {_MAX_CLASSES} labels: a line must be a label, a tab and a text')


def _classes(source, labels, trained):
    """Returns the names of the classes of all splits, {split: ValueCounts}, and logs them."""
    total = union(labels.values(), _MAX_CLASSES)
    if not total.is_exact:
        raise _too_many(source)
    if total.are_distinct and total.total >= _MIN_DISTINCT_LINES:
        cure = 'a line must be a label, a tab and a text; cut -f2,3 OLD > NEW selects columns'
        raise UsageError(f'{source}: each line has a different label: {cure}')
    classes = sorted_classes(total.values())
    if len(classes) < 2:
        found = f'only the class {classes[0]}' if classes else 'no line with a label and a text'
        raise RunError(f'{source}: has {found}: there is nothing to learn')
    if missing := [name for name in classes if name in MISSING]:
        tf.logging.warning(
            '%s: the class %s is learned like any other: remove its lines if it means that there is none.', source, missing[0]
        )
    log_classes(source, classes, {split: counts.counts() for split, counts in labels.items()}, trained)
    return classes

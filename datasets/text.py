"""Your own labeled texts: a label, a tab and a text in each line of a file.

--hparams=text_file=PATH names one file, a share of which is held out for evaluation, or a directory of files named by their
splits: train.txt, eval.txt ... Tokens are lower-case words, with the vocabulary of the training data, or bytes.
"""

from collections.abc import Iterator
import functools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, check_range
from estimator_trainer.common.files import read_json
from estimator_trainer.common.own_data import example_parser, tokens
from estimator_trainer.common.own_data.description import describe_classes
from estimator_trainer.common.own_data.lines import Lines, Position, Row, in_blocks
from estimator_trainer.common.own_data.schema import LABEL, TEXT
from estimator_trainer.common.own_data.split_rows import BadRows, read_rows, write
from estimator_trainer.common.own_data.splits import find_files, find_split, fingerprint
from estimator_trainer.common.own_data.vocabulary import ValueCounts, sorted_classes
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = ('*.txt', '*.tsv')
_FEATURES = [{'name': name, 'kind': kind, 'stored': 'bytes'} for name, kind in (('text', TEXT), ('label', LABEL))]
_MAX_CLASSES = 10000
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
    files = _files(params)
    directory = _directory(data_dir, params)
    if not records.is_written(directory):
        _convert(directory, files, params)


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns class_names and num_classes, the vocabulary of the training texts, its vocabulary_size, and the task."""
    return read_json(os.path.join(_directory(data_dir, params), 'metadata.json'))


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'text' and 'label', both bytes."""
    find_split(split, 'text_file', params.text_file, _files(params))
    return records.read(_directory(data_dir, params), split)


def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns {'text': int32 [length], ids of the tokens}, {'label': int32 scalar}; no labels in PREDICT."""
    return example_parser.parse(mode, params, serialized, _FEATURES)


def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {'text': string [batch]}."""
    return example_parser.raw_specs(params, _FEATURES)


def from_raw(params: HParams, raw: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns {'text': int32 [batch, length]}, the ids of the tokens of texts, padded with 0."""
    return example_parser.from_raw(params, {'text': tf.strings.strip(raw['text'])}, _FEATURES)


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the lines of a file: texts, each with or without the label of a known class."""

    def encode(line):
        label, tab, text = line.partition('\t')
        return {'text': (text if tab and label.strip() in params.metadata['class_names'] else line).strip()}

    yield from read_rows(path, _lines(path), encode)


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the lines of a file: a label, a tab and a text."""
    del params
    yield from read_rows(path, _labeled(path), dict)


def _lines(path: str) -> Iterator[Row]:
    """Yields the non-blank lines."""
    lines, number = Lines(path), 0
    while True:
        position = Position(lines.offset, lines.number, number)
        lines.is_utf8 = True
        line = next(lines, None)
        if line is None:
            return
        if line.strip():
            is_utf8 = lines.is_utf8
            yield Row(position, line.rstrip('\r\n') if is_utf8 else RunError(f'{path}: line {position.line}: is not UTF-8'))
            number += 1


def _labeled(path: str) -> Iterator[Row]:
    """Yields the lines as examples."""
    for row in _lines(path):
        if isinstance(row.value, RunError):
            yield row
            continue
        label, tab, text = row.value.partition('\t')
        label, text = label.strip(), text.strip()
        wrong = 'no tab after the label' if not tab else 'no label' if not label else '' if text else 'no text'
        if '\t' in text.partition('\r')[2]:
            wrong = 'a carriage return between a text and the next label: lines must end with LF or CR LF'
        error = RunError(f'{path}: line {row.position.line}: has {wrong}')
        yield Row(row.position, error if wrong else {'label': label, 'text': text})


def _files(params):
    return find_files('text_file', params.text_file, ('.txt', '.tsv'), params.eval_share)


def _directory(data_dir, params):
    names = ('tokens', 'eval_share', 'min_count', 'max_vocabulary', 'max_bad_share')
    facts = [params.train_split, *(params[name] for name in names)]
    return os.path.join(data_dir, f'text-{fingerprint(params.text_file, [file.path for file in _files(params)], facts)}')


def _convert(directory, files, params):
    trained = find_split(params.train_split, 'text_file', params.text_file, files)
    classes = _classes(params.text_file, files, BadRows(params.max_bad_share))
    if len(classes) < 2:
        found = f'only the class {classes[0]}' if classes else 'no line with a label and a text'
        raise RunError(f'{params.text_file}: has {found}: there is nothing to learn')
    vocabulary = _vocabulary(trained, params)
    counts = len(classes), ', '.join(classes[:20]), vocabulary['vocabulary_size']
    tf.logging.info('%s: %d classes: %s; %d ids of %s', params.text_file, *counts, params.tokens)
    readers = [(file, functools.partial(_labeled, file.path), dict) for file in files]
    write(directory, params.text_file, {**describe_classes(classes), **vocabulary}, readers, params.max_bad_share)


def _vocabulary(file, params):
    words = tokens.WordCounts(params)
    sound = (row for row in _labeled(file.path) if not isinstance(row.value, RunError))
    texts = (row.value['text'] for row in sound if file.split_of(row.position.row) == params.train_split)
    for block in in_blocks(texts) if params.tokens == tokens.WORDS else ():
        words.update(block)
    return words.describe(params)


def _classes(source, files, bad):
    counts = ValueCounts(_MAX_CLASSES)
    for file in files:
        for block in in_blocks(bad.sound(_labeled(file.path))):
            counts.update([row.value['label'] for row in block])
        if not counts.is_exact:
            raise UsageError(f'{file.path}: has more than {_MAX_CLASSES} labels: a line must be a label, a tab and a text')
    if counts.are_distinct and counts.total >= _MIN_DISTINCT_LINES:
        raise UsageError(f'{source}: each line has a different label: a line must be a label, a tab and a text')
    return sorted_classes(counts.values())

"""Texts of your own in classes: a label, a tab and a text in each line of a file.

--hparams=text_file=PATH names one file, of which a share is held out for evaluation, or a directory of files named by their
splits: train.txt, eval.txt ... Tokens are words in lower case, those of the vocabulary of the training data, or bytes.
"""

from collections.abc import Iterator
import functools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from common.data import records
from common.errors import RunError, UsageError, check_range
from common.files import read_json
from common.formats import tokens
from common.formats.description import describe_classes
from common.formats.lines import Lines, Position, Row, in_blocks
from common.formats.split_rows import BadRows, SplitRows, split_rows, write
from common.formats.splits import file_of, find_files, fingerprint, splits_of
from common.formats.vocabulary import class_ids, sorted_classes
from hparams.build import HParams

PREDICT = tf.estimator.ModeKeys.PREDICT
INPUT_PATTERNS = ('*.txt', '*.tsv')
_MAX_CLASSES = 10000
_MIN_DISTINCT_LINES = 10  # So many labels that are all different are texts, or ids.


def get_params() -> dict[str, Any]:
    return {
        'text_file': '',  # A file, or a directory of files named by their splits.
        'eval_share': 0.2,  # Of the lines of a single file.
        'max_bad_share': 0.0,  # Of lines that may be wrong, and are then skipped.
        'num_classes': 0,  # Set by the metadata.
        **tokens.get_params(),
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the files to TFRecord, once for each state of the files and of the hyper-parameters."""
    check_range(params, 'eval_share', 0, 0.9)
    check_range(params, 'max_bad_share', 0, 1)
    tokens.check_params(params)
    files = _files(params)
    directory = _directory(data_dir, params)
    if not records.is_written(directory):
        _convert(directory, files, params)


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns the class_names and num_classes, the vocabulary of the texts trained on, its vocabulary_size, and the task."""
    return read_json(os.path.join(_directory(data_dir, params), 'metadata.json'))


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'text' and 'label', both bytes."""
    file_of(split, 'text_file', params.text_file, _files(params), params.eval_share)
    return records.read(_directory(data_dir, params), split)


def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns {'text': int32 [length], ids of the tokens}, {'label': int32 scalar}; no labels in PREDICT."""
    stored = {'text': tf.io.FixedLenFeature([], tf.string)}
    if mode != PREDICT:
        stored['label'] = tf.io.FixedLenFeature([], tf.string)
    example = tf.io.parse_single_example(serialized, stored)
    features = {'text': tokens.token_ids(example['text'], params, params.metadata['vocabulary'])}
    if mode == PREDICT:
        return features, None
    return features, {'label': class_ids(example['label'], params.metadata['class_names'], 'label')}


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the lines of a file: texts, each with or without the label of a known class."""
    for row in _lines(path):
        if isinstance(row.value, RunError):
            yield {'line': row.position.line}, row.value
        else:
            label, tab, text = row.value.partition('\t')
            is_labeled = tab and label.strip() in params.metadata['class_names']
            yield {'line': row.position.line}, records.encode({'text': (text if is_labeled else row.value).strip()})


def _lines(path: str, at: Position | None = None) -> Iterator[Row]:
    """Yields the lines that are not blank, from a position on."""
    lines = Lines(path, at)
    number = at.row if at else 0
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


def _labeled(path: str, at: Position | None = None) -> Iterator[Row]:
    """Yields the lines as pairs of label and text."""
    for row in _lines(path, at):
        if isinstance(row.value, RunError):
            yield row
            continue
        label, tab, text = row.value.partition('\t')
        label, text = label.strip(), text.strip()
        wrong = 'no tab after the label' if not tab else 'no label' if not label else '' if text else 'no text'
        if '\t' in text.partition('\r')[2]:
            wrong = 'a carriage return between a text and the next label: lines must end with LF or CR LF'
        yield Row(row.position, RunError(f'{path}: line {row.position.line}: has {wrong}') if wrong else (label, text))


def _encode(pair):
    return {'label': pair[0], 'text': pair[1]}


def _files(params):
    return find_files('text_file', params.text_file, ('.txt', '.tsv'))


def _directory(data_dir, params):
    names = ('tokens', 'eval_share', 'min_count', 'max_vocabulary', 'max_bad_share')
    facts = [params.train_split, *(params[name] for name in names)]
    return os.path.join(data_dir, f'text-{fingerprint(params.text_file, _files(params).values(), facts)}')


def _convert(directory, files, params):
    trained = params.train_split
    file_of(trained, 'text_file', params.text_file, files, params.eval_share)
    sources = [(path, *splits_of(split, params.eval_share)) for split, path in files.items()]
    classes = _classes(params.text_file, files.values(), BadRows(params.max_bad_share))
    if len(classes) < 2:
        found = f'only the class {classes[0]}' if classes else 'no line with a label and a text'
        raise RunError(f'{params.text_file}: has {found}: there is nothing to learn')
    texts = (
        row.value[1]
        for path, splits, split_of in sources
        if trained in splits
        for row in _labeled(path)
        if not isinstance(row.value, RunError) and split_of(row.position.row) == trained
    )
    words = tokens.WordCounts(params)
    for block in in_blocks(texts) if params.tokens == tokens.WORDS else ():
        words.update(block)
    known = words.describe()
    examples: dict[str, SplitRows] = {}
    for path, splits, split_of in sources:
        examples |= split_rows(path, splits, functools.partial(_labeled, path), split_of, _encode, params.max_bad_share)
    counts = len(classes), ', '.join(classes[:20]), known['vocabulary_size']
    tf.logging.info('%s: %d classes: %s; %d ids of %s', params.text_file, *counts, params.tokens)
    write(directory, params.text_file, {**describe_classes(classes), **known}, examples)


def _classes(source, paths, bad):
    classes, count = set(), 0
    for path in paths:
        for row in bad.sound(_labeled(path)):
            classes.add(row.value[0])
            count += 1
            if len(classes) > _MAX_CLASSES:
                raise UsageError(f'{path}: has more than {_MAX_CLASSES} labels: a line must be a label, a tab and a text')
    if len(classes) == count >= _MIN_DISTINCT_LINES:
        raise UsageError(f'{source}: each line has a label of its own: a line must be a label, a tab and a text')
    return sorted_classes(classes)

"""Your own tagged sentences: a token, a tab or spaces, and its tag in each line, and a blank line after each sentence.

--hparams=tagged_file=PATH names one file, a share of whose sentences is held out for evaluation, or a directory of files named
by their splits: train.conll, eval.conll ... Files of CoNLL's shared tasks, as CoNLL-2003 and CoNLL-U, are read as they are.
"""

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common import tags, unicode_forms
from estimator_trainer.common.errors import RunError, UsageError, check_range, show
from estimator_trainer.common.own_data import folds
from estimator_trainer.common.own_data.alarm import warn_of_unknown
from estimator_trainer.common.own_data.conversions import convert_once, read_metadata, read_summary, silenced
from estimator_trainer.common.own_data.lines import Row
from estimator_trainer.common.own_data.split_rows import BadRows, examples_of_rows, places_of_rows, read_rows
from estimator_trainer.common.own_data.splits import SplitFile, find_files
from estimator_trainer.common.own_data.summary import of_counts
from estimator_trainer.common.own_data.texts import composed, tag_survey
from estimator_trainer.common.own_data.texts.labeled_lines import LabeledLines
from estimator_trainer.common.own_data.texts.sentence_tokens import TokenCounts, make_splitter, split_sentences, to_features
from estimator_trainer.common.own_data.texts.sentences import Sentence, SentenceFile, are_sentences
from estimator_trainer.common.own_data.texts.tag_survey import TagSurvey
from estimator_trainer.common.own_data.texts.tokens import KNOWN_SHARE, known_share
from estimator_trainer.common.own_data.vocabulary import class_ids
from estimator_trainer.common.records import records
from estimator_trainer.common.targets import TAGGING
from estimator_trainer.hparams.build import HParams

OWN_FOLDS = True
LACKS = ('image', 'label')
_SUFFIXES = ('.conll', '.conllu', '.bio', '.iob', '.tsv', '.txt')
INPUT_PATTERNS = tuple(f'*{suffix}{end}' for suffix in _SUFFIXES for end in ('', '.gz'))
_VERSION = 1  # Of the conversion.
_CHECKED = 10000  # Tokens of --input that are compared with the vocabulary.


def get_params() -> dict[str, Any]:
    return {
        'tagged_file': '',  # A file, or a directory of files named by their splits.
        'token_column': 0,  # From 1 on; 0: the first, or the one after numbers of tokens.
        'tag_column': 0,  # From 1 on; 0: the last, or UPOS of CoNLL-U.
        'eval_share': 0.2,  # Of the sentences of a single file.
        'max_bad_share': 0.0,  # Maximum share of invalid sentences, which are skipped.
        'max_length': 1000,  # In tokens; longer sentences are invalid.
        'min_count': 2,  # Of a word in the training sentences; rarer ones are unknown.
        'max_vocabulary': 20000,  # Words; the rarest beyond that are unknown.
        'num_classes': 0,  # The number of tags, set by the metadata.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the files to TFRecord files, once for each state of the files and of the hyper-parameters."""
    check_range(params, 'eval_share', 0, 0.9)
    check_range(params, 'max_bad_share', 0, 1)
    for name in ('max_length', 'min_count', 'max_vocabulary'):
        check_range(params, name, 1)
    for name in ('token_column', 'tag_column'):
        check_range(params, name, 0)
    convert_once(_directory(data_dir, params), params.tagged_file, lambda: _converted(params))


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns the tags, their number as num_classes, the vocabulary with its vocabulary_size, and the mean_length of sentences.

    And, if there are folds, moved_rows, the sentences of this one.
    """
    return read_metadata(_directory(data_dir, params))


def summary(data_dir: str, params: HParams) -> str:
    """Returns the numbers of sentences, tokens and tags."""
    return read_summary(_directory(data_dir, params))


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'tokens' and 'tags', both bytes [length]."""
    return records.read(_directory(data_dir, params), _files(params).find(split).name_of(split))


def places(split: str, data_dir: str, params: HParams) -> Iterator[dict[str, Any]]:
    """Returns the file and the first line of each sentence of a split."""
    file = _files(params).find(split).with_moved(metadata(data_dir, params))
    with silenced():  # What it says was said at the conversion.
        found = SentenceFile(file.path, params)
    return places_of_rows(file, file.name_of(split), found.tagged())


def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns {'text': int32 [length], ids, 'tokens': string [length]}, {'tags': int32 [length]}; no labels in PREDICT."""
    return _parse(mode, params, tf.io.parse_single_example(serialized, _stored(mode)))


def parse_batch(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns the same of a batch, each [batch, longest], padded with 0 and ''."""
    return _parse(mode, params, tf.io.parse_example(serialized, _stored(mode)))


def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {'text': string [batch]}: sentences, or tokens with a tab between them."""
    del params
    return {'text': tf.TensorSpec([None], tf.string, tags.TOKENS)}


def from_raw(params: HParams, raw: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the features of sentences, or of tokens with a tab between them, as `parse_batch` does."""
    return to_features(split_sentences(composed.check(raw['text'])), params.metadata['vocabulary'])


def cell_readers(params: HParams) -> dict[str, Callable[[str], str]]:
    """Returns {'text': function that makes a sentence of a program what it is in a file}: its tokens' bytes depend on it."""
    del params
    return {'text': unicode_forms.composed}


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the sentences of a file: one in each line, or of tokens, with tags or without."""
    counts = TokenCounts()

    def encode(sentence):
        if counts.total < _CHECKED:
            counts.update(sentence.tokens)
        return {'tokens': sentence.tokens}

    if are_sentences(path, {*params.metadata['tags']}):
        split = make_splitter()
        yield from read_rows(path, LabeledLines(path).lines(), lambda line: encode(Sentence(split(line), [], [])))
    else:
        yield from read_rows(path, SentenceFile(path, params).rows(), encode)
    warn_of_unknown('tokens', params.metadata['vocabulary'], counts.words(), path)


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the sentences of a file with tags; an error for an unknown tag."""
    yield from read_rows(path, _with_known_tags(path, SentenceFile(path, params).tagged(), {*params.metadata['tags']}), _encode)


def _with_known_tags(path, rows, known):
    for row in rows:
        sentence = row.value
        if isinstance(sentence, Sentence) and (unknown := [i for i, tag in enumerate(sentence.tags) if tag not in known]):
            line, tag = sentence.lines[unknown[0]], sentence.tags[unknown[0]]
            yield Row(row.position, RunError(f'{path}: line {line}: {show(tag)} is none of the tags that the model knows'))
        else:
            yield row


def _encode(sentence):
    return {'tokens': sentence.tokens, 'tags': sentence.tags}


def _stored(mode):
    names = ('tokens',) if mode == tf.estimator.ModeKeys.PREDICT else ('tokens', 'tags')
    return {name: tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64) for name in names}


def _parse(mode, params, example):
    features = to_features(example['tokens'], params.metadata['vocabulary'])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return features, None
    found = example['tags']
    flat = found.flat_values if isinstance(found, tf2.RaggedTensor) else found
    ids = class_ids(flat, params.metadata['tags'], 'tags')
    return features, {'tags': found.with_flat_values(ids).to_tensor() if isinstance(found, tf2.RaggedTensor) else ids}


def _files(params):
    return find_files(
        'tagged_file', params.tagged_file, _SUFFIXES, params.eval_share, params.train_split, folds.divided(params)
    )


def _directory(data_dir, params):
    names = ('token_column', 'tag_column', 'eval_share', 'max_length', 'min_count', 'max_vocabulary', 'max_bad_share')
    facts = [params.train_split, *(params[name] for name in names), *folds.facts(params)]
    return _files(params).directory(data_dir, 'tagged', facts, _VERSION)


class _Split:
    """What is in the sentences of a split."""

    def __init__(self):
        self.tags = TagSurvey()
        self.tokens = TokenCounts()


def _converted(params):
    """Returns the metadata of the files, a summary, and their examples by splits."""
    source, files = params.tagged_file, _files(params)
    files.find(params.train_split)
    sources: dict[SplitFile, SentenceFile] = {}
    for file in files.files:
        sources[file] = SentenceFile(file.path, params, sources.values())
    facts: dict[str, Any] = {}
    if params.get('folds'):
        sources = {_with_fold(file, found, params) if len(file.splits) > 1 else file: found for file, found in sources.items()}
        facts = {'moved_rows': sorted({row for file in sources for row in file.moved})}
    surveys = _survey(sources, params)
    trained = surveys[params.train_split]
    if trained.tags.num_sentences < 2:
        raise UsageError(f'{source}: has only one sentence to train on: put a blank line after each sentence')
    names = tag_survey.check(source, {name: survey.tags for name, survey in surveys.items()}, params.train_split)
    vocabulary = trained.tokens.describe(params)
    is_known = known_share(vocabulary['vocabulary'], trained.tokens.words()) >= KNOWN_SHARE
    for name, survey in surveys.items() if is_known else ():
        warn_of_unknown('tokens', vocabulary['vocabulary'], survey.tokens.words(), f'{source}: the split {name}')
    mean_length = trained.tokens.total / trained.tags.num_sentences
    facts |= {'task': TAGGING, 'tags': names, 'num_classes': len(names), **vocabulary, 'mean_length': mean_length}
    rows = {file: found.tagged for file, found in sources.items()}
    return facts, _summarize(source, facts, surveys), examples_of_rows(rows, _encode, params.max_bad_share)


def _with_fold(file, source, params):
    rows = ((row.position.row, '', '') for row in source.tagged() if not isinstance(row.value, RunError))
    return folds.with_fold(file, rows, params)


def _survey(sources, params):
    """Returns {split: _Split} of {file: SentenceFile}."""
    surveys = {split: _Split() for file in sources for split in file.splits}
    bad = BadRows(params.max_bad_share)
    for file, source in sources.items():
        for row in bad.sound(source.tagged()):
            survey = surveys[file.split_of(row.position.row)]
            survey.tags.add(file.path, row.value)
            survey.tokens.update(row.value.tokens)
    return surveys


def _summarize(source, facts, surveys):
    lines = [f'{source}: {facts["vocabulary_size"]:,} ids of words']
    for name, survey in surveys.items():
        counts = of_counts(survey.tags.counts, 'tags')
        lines.append(f'{name}: {survey.tags.num_sentences:,} sentences of {survey.tokens.total:,} tokens; {counts}')
    return '\n'.join([*lines, ''])

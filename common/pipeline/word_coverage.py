"""Pretrained vectors of a dataset's words, read before training, and how many words have one."""

import dataclasses
import os

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import word_vectors
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import parsed_batches
from estimator_trainer.common.records.elements import iterate, opened
from estimator_trainer.hparams.build import HParams

_LARGEST = 1 << 30  # Bytes; a graph cannot hold two of them.
_FEW = 0.5  # Of the words.


def with_word_vectors(source: DataSource) -> DataSource:
    """Returns the dataset with the vectors of `embeddings`, if given, and facts about them in its metadata; logs the coverage.

    A run that has begun has these facts: it needs no file, but if there is one, it must be the same.

    Raises:
      UsageError: the dataset has no words, or the file is wrong or has changed.
    """
    params = source.params
    path = source.recorded.get('embeddings')
    if not path:
        return source
    if begun := params.metadata.get(word_vectors.FACTS):
        if os.path.exists(path) and word_vectors.digest(path) != begun['sha256']:
            raise UsageError(
                f'embeddings={path}: the file has changed since the run began: restore it, or choose another --output_dir'
            )
        return source
    vocabulary = params.metadata.get('vocabulary')
    if not vocabulary or params.get('tokens', 'words') != 'words':
        raise UsageError(
            f'embeddings={path}: are of words, but --dataset={params.dataset} has no vocabulary of words: omit it, or set '
            'tokens=words'
        )
    tf.logging.info('embeddings=%s: reading the vectors of the words.', path)
    found = word_vectors.read(path, vocabulary)
    if found.values.nbytes > _LARGEST:
        raise UsageError(f'embeddings={path}: the vectors of {len(found.places)} words are too large: lower max_vocabulary')
    _log(path, found, _counts(source))
    facts = {'size': found.size, 'sha256': word_vectors.digest(path)}
    params = HParams(params, {**params.metadata, word_vectors.FACTS: facts}, params.batch_start)
    return dataclasses.replace(source, params=params, vectors=found)


def _counts(source):
    """Returns how often each word of the vocabulary occurs in the training split, int64 [words]."""
    params = source.params
    size, known = params.metadata['vocabulary_size'], len(params.metadata['vocabulary'])
    counts = np.zeros(size, np.int64)

    def make():
        return parsed_batches(source, tf.estimator.ModeKeys.PREDICT, source.read(params.train_split))

    with opened(make) as (session, batches):
        with session.graph.as_default():
            batches = batches.map(lambda features, *_: features['text'])
        for ids in iterate(session, batches):
            counts += np.bincount(ids.ravel(), minlength=size)
    return counts[size - known :]


def _log(path, found, counts):
    share = len(found.places) / len(counts)
    others = f', of which {found.num_folded:,} in another case only' if found.num_folded else ''
    tf.logging.info(
        'embeddings=%s: %s numbers each for %s of the %s words%s: for %.3g %% of their occurrences in training. The others '
        'start by chance.',
        *(path, found.size, f'{len(found.places):,}', f'{len(counts):,}', others),
        100 * counts[found.places].sum() / max(counts.sum(), 1),
    )
    if share < _FEW:
        tf.logging.warning(
            'embeddings=%s: only %.3g %% of the words have a vector: is the file of the same language?', path, 100 * share
        )

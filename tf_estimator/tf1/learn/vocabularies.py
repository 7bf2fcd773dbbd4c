"""Texts as ids of their words."""

import json
import re

import numpy as np
import tensorflow.compat.v1 as tf

_WORD = re.compile(r'[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+')


def tokenizer(texts):
    """Yields the words of each text."""
    for text in texts:
        yield _WORD.findall(text)


class VocabularyProcessor:
    """Texts to ids of their words: 0 for padding and for unknown words.

    Args:
      max_document_length: words beyond are left out.
      min_frequency: words that are rarer or as rare are unknown.
      vocabulary: a CategoricalVocabulary.
      tokenizer_fn: function of texts to an iterator of their words.
    """

    def __init__(self, max_document_length, min_frequency=0, vocabulary=None, tokenizer_fn=None):
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents, unused_y=None):
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents, unused_y=None):
        documents = list(raw_documents)
        return self.fit(documents).transform(documents)

    def transform(self, raw_documents):
        """Yields int64 [max_document_length] for each text."""
        for tokens in self._tokenizer(raw_documents):
            ids = np.zeros(self.max_document_length, np.int64)
            for i, token in zip(range(self.max_document_length), tokens):
                ids[i] = self.vocabulary_.get(token)
            yield ids

    def reverse(self, documents):
        for ids in documents:
            yield ' '.join(self.vocabulary_.reverse(i) for i in ids)

    def save(self, filename):
        """Writes JSON, in place of the pickle of TensorFlow 1; a tokenizer_fn is not saved."""
        content = {
            'max_document_length': self.max_document_length,
            'min_frequency': self.min_frequency,
            'has_tokenizer_fn': self._tokenizer is not tokenizer,
            'vocabulary': vars(self.vocabulary_),
        }
        with tf.io.gfile.GFile(filename, 'w') as file:
            file.write(json.dumps(content))

    @classmethod
    def restore(cls, filename):
        """Returns the VocabularyProcessor in a file; raises ValueError if it was not saved as JSON, or had a tokenizer_fn."""
        with tf.io.gfile.GFile(filename, 'rb') as file:
            content = file.read()
        advice = 'fit the VocabularyProcessor again'
        vocabulary = CategoricalVocabulary()
        try:
            found = json.loads(content)
            has_tokenizer_fn, arguments = found['has_tokenizer_fn'], (found['max_document_length'], found['min_frequency'])
            vars(vocabulary).update(found['vocabulary'])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f'{filename}: was not saved here; pickles of TensorFlow 1 are not read: {advice}') from None
        if has_tokenizer_fn:
            raise ValueError(f'{filename}: its tokenizer_fn is not saved: {advice}')
        return cls(*arguments, vocabulary)


class CategoricalVocabulary:
    """Ids of categories, such as words; 0 is the unknown one. `reverse` always works."""

    def __init__(self, unknown_token='<UNK>', support_reverse=True):
        self._mapping, self._reverse_mapping = {unknown_token: 0}, [unknown_token]
        self._freq, self._freeze = {}, False

    def __len__(self):
        return len(self._mapping)

    def freeze(self, freeze=True):
        self._freeze = freeze

    def get(self, category):
        if category not in self._mapping and not self._freeze:
            self._mapping[category] = len(self._mapping)
            self._reverse_mapping.append(category)
        return self._mapping.get(category, 0)

    def add(self, category, count=1):
        if self.get(category):
            self._freq[category] = self._freq.get(category, 0) + count

    def trim(self, min_frequency, max_frequency=-1):
        """Drops the categories with a count up to the minimum or from the maximum; orders the others by count and name."""
        ordered = sorted(self._freq.items(), key=lambda item: (-item[1], item[0]))
        self._freq = {word: count for word, count in ordered if count > min_frequency and not 0 < max_frequency <= count}
        self._reverse_mapping = [self._reverse_mapping[0], *self._freq]
        self._mapping = {word: i for i, word in enumerate(self._reverse_mapping)}

    def reverse(self, class_id):
        return self._reverse_mapping[class_id]

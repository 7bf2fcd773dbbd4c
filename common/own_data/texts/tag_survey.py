"""Surveys the tags of a split, and their faults: unknown ones, and those against their scheme."""

import collections
from collections.abc import Iterator, Mapping
import itertools

import tensorflow.compat.v1 as tf

from estimator_trainer.common import tags
from estimator_trainer.common.errors import RunError, UsageError, show
from estimator_trainer.common.own_data.texts.sentences import Sentence
from estimator_trainer.common.tags import OUTSIDE, Tag

_MAX_TAGS = 1000
_CONFLICTS = (('ES', 'UL'), ('I', 'M'), ('UL', 'M'))  # Letters of different schemes.
_ENDS = {'E', 'S'}


class TagSurvey:
    """The tags of a split.

    Attributes:
      counts: {tag: number of tokens}.
      num_sentences: their number.
    """

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.num_sentences = 0
        self._pairs: collections.Counter[tuple[str, str]] = collections.Counter()
        self._places: dict[tuple[str, str], str] = {}

    def add(self, path: str, sentence: Sentence) -> None:
        """Adds a sentence of a file; raises UsageError if there are too many different tags."""
        self.num_sentences += 1
        self.counts.update(sentence.tags)
        if len(self.counts) > _MAX_TAGS:
            raise UsageError(f'{path}: has more than {_MAX_TAGS} different tags: tag_column=N takes those of another column')
        pairs = list(itertools.pairwise([OUTSIDE, *sentence.tags, OUTSIDE]))
        self._pairs.update(pairs)
        for pair, line in zip(pairs, [*sentence.lines, sentence.lines[-1]]):
            self._places.setdefault(pair, f'{path}: line {line}')

    def place(self, tag: str) -> str:
        """Returns where a tag is first."""
        return next(place for (_, following), place in self._places.items() if following == tag)

    def faults(self, scheme: str) -> Iterator[tuple[tuple[str, str], int, str]]:
        """Yields the pairs of tags that break a scheme, with their number and the place of the first."""
        for (tag, following), place in self._places.items():
            if _breaks(_parse(tag), _parse(following), scheme):
                yield (tag, following), self._pairs[tag, following], place

    def scheme(self) -> str:
        """Returns the scheme of tags of spans, as far as they tell: BIOES, IOB2, IOB1, or IO, which has no rules."""
        places = {_parse(tag).place for tag in self.counts}
        if 'B' not in places:
            return 'BIOES' if 'S' in places else 'IO'
        if places & _ENDS:
            return 'BIOES'
        pairs = [(_parse(tag), _parse(following)) for tag, following in self._pairs]
        is_iob1 = all(tag.place and tag.type == following.type for tag, following in pairs if following.place == 'B')
        return 'IOB1' if is_iob1 else 'IOB2'


def _breaks(tag, following, scheme):
    is_inside = tags.continues(tag, following)
    if scheme == 'BIOES':
        return (tag.place in ('B', 'I') or following.place in ('I', 'E')) and not is_inside
    return scheme == 'IOB2' and following.place == 'I' and not is_inside


def check(source: str, surveys: Mapping[str, TagSurvey], trained: str) -> list[str]:
    """Returns the tags of all splits, sorted; warns of those that cannot be learned, and of faults against their scheme.

    Args:
      source: of the data, for messages.
      surveys: {split: its survey}.
      trained: the training split.

    Raises:
      RunError: there is only one tag, or the tags are of several schemes.
    """
    places = {tag: survey.place(tag) for survey in surveys.values() for tag in survey.counts}
    names = sorted(places)
    if len(names) < 2:
        raise RunError(f'{source}: has only the tag {names[0]}: there is nothing to learn')
    _warn_of_unknown(surveys, trained)
    if tags.are_of_spans(names):
        _check_schemes(surveys, trained, places)
        return names
    parts = [name for name in names if name != OUTSIDE and tags.parse(name)]
    if OUTSIDE in places and parts:
        other = next(name for name in names if not tags.parse(name))
        raise RunError(
            f'{places[other]}: the tag {show(other)} is neither O nor a part of a span, as {parts[0]} is: correct it, or take '
            'the tags of another column, with tag_column'
        )
    if tags.are_of_spans([OUTSIDE if name == '0' else name.upper() for name in names]):
        other = next(name for name in names if not tags.parse(name) and name != OUTSIDE)
        tf.logging.warning(
            '%s: the tag %s is not written as B-PER, I-PER and O are, in capitals, and with the letter O: there are no metrics '
            'of spans: correct the tags to have them.',
            *(places[other], show(other)),
        )
    elif OUTSIDE in places:
        tf.logging.warning(
            '%s: the tags, such as %s, do not say where spans begin, as B-PER and I-PER do: there are no metrics of spans.',
            *(source, next(name for name in names if name != OUTSIDE)),
        )
    return names


def _warn_of_unknown(surveys, trained):
    for split, survey in surveys.items():
        if unknown := [tag for tag in survey.counts if tag not in surveys[trained].counts]:
            more = f', nor are {len(unknown) - 1} more' if len(unknown) > 1 else ''
            tf.logging.warning(
                '%s: the tag %s of the split %s is not in the split %s%s: it is never predicted: correct it, or '
                'train on it, too.',
                *(survey.place(unknown[0]), show(unknown[0]), split, trained, more),
            )


def _check_schemes(surveys, trained, places):
    letters = {tag[0]: tag for tag in reversed(places)}
    for some, others in _CONFLICTS:
        one, other = (next((letters[letter] for letter in group if letter in letters), None) for group in (some, others))
        if one and other:
            raise RunError(f'{places[other]}: the tag {other} is of another scheme than {one}, {places[one]}: write all in one')
    with_begin = {split: survey for split, survey in surveys.items() if any(_parse(tag).place == 'B' for tag in survey.counts)}
    ended = {split: any(_parse(tag).place in _ENDS for tag in survey.counts) for split, survey in with_begin.items()}
    for split, survey in with_begin.items():
        if trained in ended and ended[split] != ended[trained]:
            ends, other = (split, trained) if ended[split] else (trained, split)
            tag = next(tag for tag in surveys[ends].counts if _parse(tag).place in _ENDS)
            raise RunError(
                f'{surveys[ends].place(tag)}: the split {ends} marks the ends of spans, as {tag} does, the split {other} does '
                'not: write all in one scheme'
            )
        scheme = surveys[trained].scheme()
        if faults := [*survey.faults(scheme)]:
            (tag, following), _, place = faults[0]
            count = sum(number for _, number, _ in faults)
            more = f', and {count - 1} more are' if count > 1 else ''
            tf.logging.warning(
                '%s: %s after %s is against the scheme %s%s: a span begins wherever a tag does not continue one, as in '
                'conlleval: correct them if they are mistakes.',
                *(place, following, tag, scheme, more),
            )


def _parse(tag):
    return tags.parse(tag) or Tag()

"""Tags of tokens: classes such as parts of speech, or parts of spans, as B-PER and I-PER."""

from collections.abc import Iterable
import re
from typing import NamedTuple

OUTSIDE = 'O'
TOKENS = 'tokens'  # The name of a tf.TensorSpec of strings that are sentences, or tokens with a tab between them.
_SPAN = re.compile(r'([BIESULM])(?:-(.+))?')
_SAME = {'U': 'S', 'L': 'E', 'M': 'I'}  # BILOU and BMES name the same places otherwise.


class Tag(NamedTuple):
    """The place of a token in a span, B, I, E or S (begin, inside, end, single), and the type of the span; '' outside."""

    place: str = ''
    type: str = ''


def are_predicted(names: Iterable[str]) -> bool:
    """Whether predictions of these names are tags of tokens."""
    return {'tokens', 'tags'} <= {*names}


def parse(tag: str) -> Tag | None:
    """Returns what a tag says about spans; None if it is neither O nor a part of one."""
    if tag == OUTSIDE:
        return Tag()
    match = _SPAN.fullmatch(tag)
    return Tag(_SAME.get(match[1], match[1]), match[2] or '') if match else None


def are_of_spans(tags: Iterable[str]) -> bool:
    """Whether all tags are O or parts of spans, and some are the latter."""
    parsed = {parse(tag) for tag in tags}
    return None not in parsed and bool(parsed - {Tag()})


def continues(tag: Tag, following: Tag) -> bool:
    """Whether two tags in a row are of one span; any other tag of a span begins one, as in CoNLL's own evaluation.

    So I-PER after O, or after I-LOC, begins a span. (E. Tjong Kim Sang, S. Buchholz: Introduction to the CoNLL-2000 Shared
    Task: Chunking, 2000.)
    """
    return tag.place in ('B', 'I') and following.place in ('I', 'E') and tag.type == following.type

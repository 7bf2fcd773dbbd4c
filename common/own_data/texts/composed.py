"""Texts in Unicode's composed form (NFC), which TensorFlow ops can tell from others, but cannot make."""

import collections
import functools
import unicodedata

import tensorflow.compat.v1 as tf

_END = 0x30000  # No later character has another form.
_SYLLABLES = range(0xAC00, 0xD7A4, 28)  # Of Hangul, without a final consonant: their parts compose by a rule.
_PARTS_OF_SYLLABLES = r'[\x{1100}-\x{1112}][\x{1161}-\x{1175}]'
_FINALS = r'[\x{11a8}-\x{11c2}]'


def check(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts, string [batch]; raises InvalidArgumentError, when the graph runs, if one is not composed.

    Several marks of a letter that are only in another order than the canonical one are not seen.
    """
    are_wrong = tf.strings.regex_full_match(texts, f'(?s).*(?:{_pattern()}).*')
    message = ['not in the composed form of Unicode, NFC, whose bytes the model knows:']
    check = tf.debugging.Assert(~tf.reduce_any(are_wrong), [*message, tf.boolean_mask(texts, are_wrong)], summarize=1)
    with tf.control_dependencies([check]):
        return tf.identity(texts)


@functools.cache
def _pattern():
    """Returns a pattern of RE2 of the characters, and pairs of them, that the composed form replaces."""
    alone, pairs = [], collections.defaultdict(list)
    for code in range(_END):
        parts = unicodedata.decomposition(chr(code))
        if not parts or parts.startswith('<'):  # The latter only look alike.
            continue
        if unicodedata.normalize('NFC', chr(code)) != chr(code):
            alone.append(code)
        else:
            first, second = (int(part, 16) for part in parts.split())
            pairs[second].append(first)
    of_hangul = [_PARTS_OF_SYLLABLES, _of(_SYLLABLES) + _FINALS]
    return '|'.join([_of(alone), *of_hangul, *(_of(firsts) + _escaped(second) for second, firsts in pairs.items())])


def _of(codes):
    return f'[{"".join(map(_escaped, sorted(codes)))}]'


def _escaped(code):
    return f'\\x{{{code:x}}}'

"""Users' texts: tokens of words, subwords or bytes, and sentences of tagged tokens."""

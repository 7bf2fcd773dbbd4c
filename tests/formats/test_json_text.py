"""JSON that is read strictly."""

import pytest

from estimator_trainer.common import json_text


class Key(str):
    """A key that counts its comparisons with others."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Key.compared += 1
        return str.__eq__(self, other)


def test_a_key_that_is_given_twice_is_found_with_a_comparison_for_each_key(monkeypatch):
    monkeypatch.setattr(Key, 'compared', 0)
    keys = [Key(i) for i in [*range(2000), 1999, 5]]
    with pytest.raises(json_text.Misread, match="^'5' is given twice$"):  # The first one in the text.
        json_text.unique([(key, 0) for key in keys])
    assert Key.compared < 3 * len(keys)

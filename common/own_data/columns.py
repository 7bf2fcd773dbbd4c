"""Infers what a column is from its cells: numeric or categorical, and whether it identifies the rows."""

from collections.abc import Sequence

from estimator_trainer.common.own_data.cells import MISSING, is_almost_number, to_number
from estimator_trainer.common.own_data.moments import Moments
from estimator_trainer.common.own_data.schema import CATEGORICAL, NUMERIC
from estimator_trainer.common.own_data.vocabulary import ValueCounts

_MIN_DISTINCT_ROWS = 10


class ColumnProfile:
    """What is known about a column from the cells seen so far.

    Args:
      max_distinct: of its values that are counted.
      kind: if it is given, NUMERIC or CATEGORICAL.

    Attributes:
      values: counts of the distinct cells that are not missing.
      moments: of its numbers; only if is_numeric, or is_mostly_numeric, of all.
      is_integer: whether each cell that is not missing is an integer.
      first_text: (line, cell) of the first cell that is neither missing nor a number; None if the kind is given.
      num_missing: how many are missing.
    """

    def __init__(self, max_distinct: int, kind: str | None = None):
        self.values = ValueCounts(max_distinct)
        self.moments = Moments()
        self.is_integer = self._is_parsed = kind != CATEGORICAL
        self.first_text: tuple[int, str] | None = None
        self._given = kind
        self._num_texts = 0  # Without those that almost are numbers.
        self.num_missing = 0

    def update(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Adds cells, and the lines that they are in."""
        present = [cell for cell in cells if cell not in MISSING]
        self.num_missing += len(cells) - len(present)
        self.values.update(present)
        if not self._is_parsed:
            return
        found = [to_number(cell) for cell in present]
        numbers = [number for number in found if number is not None]
        if len(numbers) < len(found) and not self._given:  # If it is given, rows without a number are reported later.
            self.is_integer = False
            self._add_texts([cell for cell, number in zip(present, found) if number is None], cells, lines)
        self.is_integer = self.is_integer and all(number.is_integer() for number in numbers)
        self.moments.update(numbers)

    def _add_texts(self, texts, cells, lines):
        self.first_text = self.first_text or (lines[cells.index(texts[0])], texts[0])
        self._num_texts += sum(not is_almost_number(text) for text in texts)
        self._is_parsed = self._num_texts <= self.values.total / 2  # There will hardly be nine numbers for each of these texts.

    @property
    def kind(self) -> str | None:
        """NUMERIC or CATEGORICAL; None if nothing can be learned from the column: it is empty, or identifies the rows."""
        if self._given:
            return self._given
        if self.is_numeric:
            return NUMERIC if self.values.total else None
        return None if self.identifies else CATEGORICAL

    @property
    def is_numeric(self) -> bool:
        """Whether each cell that is not missing is a number."""
        return self._is_parsed and self.first_text is None

    @property
    def is_mostly_numeric(self) -> bool:
        """Whether some cells are not numbers, but nine in ten are, or almost are."""
        return self._is_parsed and self.first_text is not None and self._num_texts <= self.values.total / 10

    @property
    def identifies(self) -> bool:
        """Whether each row has its own value, as an id has."""
        return self.values.are_distinct and not self.num_missing and self.values.total >= _MIN_DISTINCT_ROWS

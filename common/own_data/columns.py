"""Inference of a column's kind, numeric or categorical, and of whether it identifies the rows."""

from collections.abc import Sequence

from estimator_trainer.common.own_data.cells import MISSING, is_almost_number, to_number
from estimator_trainer.common.own_data.moments import Moments
from estimator_trainer.common.own_data.schema import CATEGORICAL, NUMERIC
from estimator_trainer.common.own_data.vocabulary import ValueCounts

_MIN_DISTINCT_ROWS = 10


class ColumnProfile:
    """Statistics of a column's cells so far.

    Args:
      max_distinct: maximum number of counted values.
      kind: NUMERIC or CATEGORICAL, if given.

    Attributes:
      values: counts of the distinct non-missing cells.
      moments: of its numbers; complete only if is_numeric or is_mostly_numeric.
      is_integer: whether each non-missing cell is an integer.
      first_text: (line, cell) of the first cell that is neither missing nor a number; None if the kind is given.
      num_missing: number of missing cells.
    """

    def __init__(self, max_distinct: int, kind: str | None = None):
        self.values = ValueCounts(max_distinct)
        self.moments = Moments()
        self.is_integer = self._is_parsed = kind != CATEGORICAL
        self.first_text: tuple[int, str] | None = None
        self._given = kind
        self._num_texts = 0  # Except near-numbers.
        self.num_missing = 0

    def update(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Adds cells and their lines."""
        present = [cell for cell in cells if cell not in MISSING]
        self.num_missing += len(cells) - len(present)
        self.values.update(present)
        if not self._is_parsed:
            return
        found = [to_number(cell) for cell in present]
        numbers = [number for number in found if number is not None]
        if len(numbers) < len(found) and not self._given:  # If given, rows without a number are reported later.
            self.is_integer = False
            self._add_texts([cell for cell, number in zip(present, found) if number is None], cells, lines)
        self.is_integer = self.is_integer and all(number.is_integer() for number in numbers)
        self.moments.update(numbers)

    def _add_texts(self, texts, cells, lines):
        self.first_text = self.first_text or (lines[cells.index(texts[0])], texts[0])
        self._num_texts += sum(not is_almost_number(text) for text in texts)
        self._is_parsed = self._num_texts <= self.values.total / 2  # Nine in ten being numbers is now unlikely.

    @property
    def kind(self) -> str | None:
        """NUMERIC or CATEGORICAL; None for an uninformative column: it is empty, or identifies the rows."""
        if self._given:
            return self._given
        if self.is_numeric:
            return NUMERIC if self.values.total else None
        return None if self.identifies else CATEGORICAL

    @property
    def is_numeric(self) -> bool:
        """Whether each non-missing cell is a number."""
        return self._is_parsed and self.first_text is None

    @property
    def is_mostly_numeric(self) -> bool:
        """Whether some cells are not numbers, but nine in ten are numbers or near-numbers."""
        return self._is_parsed and self.first_text is not None and self._num_texts <= self.values.total / 10

    @property
    def identifies(self) -> bool:
        """Whether each row has its own value, like an id."""
        return self.values.are_distinct and not self.num_missing and self.values.total >= _MIN_DISTINCT_ROWS

"""Times whose offset from UTC, or lack of one, is unlike that of the training data."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import show
from estimator_trainer.common.own_data.description import Feature
from estimator_trainer.common.own_data.tables import dates


class Zones:
    """Warns once of such times in a column.

    Attributes:
      has_zone: whether the times of the training data have an offset; None if some of them have one, if that is unknown, as to
        models of older versions, or after the warning.
    """

    def __init__(self, column: Feature, place: str) -> None:
        """Takes a column of the metadata, and what the warning says before its name."""
        self.has_zone: bool | None = column.get('has_zone')
        self._name = f'{place} {column["name"]}'

    def check(self, cell: str) -> None:
        zone = dates.zone_of(cell)
        if self.has_zone is None or zone is None or bool(zone) == self.has_zone:
            return
        has, are, cure = ('no', 'is read as', 'add it') if self.has_zone else ('an', 'becomes', 'omit it, as there')
        self.has_zone = None
        text = '%s: %s has %s offset, unlike the times of the training data, and %s UTC: %s.'
        tf.logging.warning(text, self._name, show(cell), has, are, cure)

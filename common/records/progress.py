"""manifest.partial.json in a directory: the files that an interrupted conversion has finished, which the same one keeps."""

from collections.abc import Sequence
import os
import threading
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import files
from estimator_trainer.common.records import manifest, tfrecord

NAME = 'manifest.partial.json'


class Progress:
    """The finished files of a conversion.

    Attributes:
      names: of the files that this conversion, or an interrupted one of the same, has finished.
      obsolete: the names of those that a conversion of something else has finished.
    """

    def __init__(self, directory: str, fingerprint: str | None):
        """Reads the file of an interrupted conversion; see `records.write`."""
        self._directory, self._fingerprint = directory, fingerprint
        self._lock = threading.Lock()
        try:
            progress = files.read_json(os.path.join(directory, NAME))
            kept = {
                os.path.basename(name): {'sha256': str(item['sha256']), 'items': int(item['items'])}
                for name, item in progress['files'].items()
                if name.endswith('.tfrecord')
            }
            is_same = fingerprint is not None and progress['fingerprint'] == fingerprint
        except (ValueError, KeyError, TypeError, AttributeError):
            kept, is_same = {}, False
        self._kept: dict[str, Any] = kept if is_same else {}
        self.obsolete = set() if is_same else {*kept}
        if self._kept:
            tf.logging.info('%s: continuing a conversion that was interrupted.', directory)

    @property
    def names(self) -> set[str]:
        return {*self._kept}

    def find(self, names: Sequence[str]) -> list[dict[str, Any]] | None:
        """Returns the manifest entries of finished files; None if one is missing or has changed."""
        entries = []
        for name in names:
            path = os.path.join(self._directory, name)
            if name not in self._kept or not tf.io.gfile.exists(path):
                return None
            entries.append(manifest.describe(name, tfrecord.scan(path)))
            if entries[-1]['sha256'] != self._kept[name]['sha256']:
                return None
        return entries

    def items(self, name: str) -> int:
        """Returns the number of examples from which a finished file, and those of its group, were written."""
        return self._kept[name]['items']

    def add(self, entries: Sequence[dict[str, Any]], items: int) -> None:
        """Records finished files and the number of examples in them together."""
        if self._fingerprint is None:
            return
        with self._lock:
            self._kept.update({entry['name']: {'sha256': entry['sha256'], 'items': items} for entry in entries})
            path = os.path.join(self._directory, NAME)
            files.write_json(path, {'fingerprint': self._fingerprint, 'files': self._kept})

"""From which run and step an export comes, and whether it still is what was exported."""

from collections.abc import Mapping, Sequence
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import read_json, sha256_of
from estimator_trainer.common.replay import proof
from estimator_trainer.common.replay.run_copy import checkpoint_steps
from estimator_trainer.common.storage import export_versions, provenance
from estimator_trainer.common.storage.provenance import CHECKPOINT

_CARDS = ('model_card.json', 'assets.extra/model_card.json')
_VARIABLES = 'variables/variables'
_OF_MODEL = ('saved_model.', 'variables/', 'assets/', 'model.')  # Beginnings of the names of files.


def verify(path: str, output_dir: str, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the step of a run that an export comes from, and a text about it.

    Args:
      path: a directory with a model card, or the directory of versions of which the highest counts.
      entries: the lines of the run.

    Raises:
      UsageError: there is no export with a record.
      RunError: it is of another run, or was edited.
    """
    directory, quoted, step = _card(path)
    if quoted['last_line'] not in {entry['digest'] for entry in entries}:
        raise RunError(
            f'{directory}: does not come from the run in {output_dir}: {provenance.path_of(output_dir)} has no line '
            f'{quoted["last_line"]}; or lines were taken out of it'
        )
    lines = [entry for entry in entries if entry['kind'] == CHECKPOINT and entry['step'] == step]
    if not any(line['tensors'] == quoted['checkpoint'] for line in lines):
        raise RunError(f'{directory}: its model card was edited: no line has the checkpoint of step {step} that it names')
    for name, digest in quoted['files'].items():
        if not tf.io.gfile.exists(file := os.path.join(directory, name)):
            raise RunError(f'{file}: is missing, but was exported')
        if sha256_of(file) != digest:
            raise RunError(f'{file}: was edited: it is not the file that was exported')
    for name in provenance.files_in(directory):
        if name.startswith(_OF_MODEL) and name not in quoted['files']:
            raise RunError(f'{os.path.join(directory, name)}: is not in the model card: it was put in, or the card was edited')
    text = f'{directory}: comes from step {step} of the run in {output_dir}, and is the exported model, byte for byte'
    return {'step': step, 'text': f'{text}; {_compared(directory, quoted, output_dir, step)}'}


def _card(path):
    """Returns the directory of an export, what its card says of its run, and the step."""
    for directory in filter(None, (path, export_versions.find(path))):
        for name in _CARDS:
            if not tf.io.gfile.exists(card := os.path.join(directory, name)):
                continue
            try:
                found = read_json(card)
            except ValueError as error:
                raise RunError(f'{error}: the model card was edited') from None
            quoted, step = found.get('provenance'), found.get('global_step')
            if not isinstance(quoted, dict) or not {'checkpoint', 'files', 'last_line'} <= quoted.keys():
                raise UsageError(f'{card}: does not name its run: an older version made the export, or its run')
            return directory, quoted, step
    raise UsageError(
        f'--export={path}: has no model_card.json: give the directory of an export, such as output_dir/export/VERSION'
    )


def _compared(directory, quoted, output_dir, step):
    """Returns a text about the weights of a SavedModel beside those of the kept checkpoint; raises RunError if they differ."""
    variables = os.path.join(directory, _VARIABLES)
    if not tf.io.gfile.exists(f'{variables}.index'):
        return 'its weights were compared with the checkpoint when it was exported, by its outputs'
    kept = checkpoint_steps(output_dir).get(step)
    if not kept or provenance.tensors_digest(kept) != quoted['checkpoint']:
        return f'the checkpoint of step {step} is no longer kept, so its weights were not compared'
    if differing := proof.compare(variables, kept, only_first=True):
        raise RunError(f'{directory}: its weights differ from those of {kept}: {proof.describe(differing)}')
    return f'its weights are those of {kept}'

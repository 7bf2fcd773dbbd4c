"""tf.estimator.BestCheckpointExporter keeps the best checkpoint itself, from which a run can go on."""

from collections.abc import Callable
import os
from typing import Any

from tf_estimator import json_files
from tf_estimator.traps.best import write_result
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow.python.checkpoint import checkpoint_management
from tensorflow_estimator.python.estimator import exporter

_RESULT = 'eval_result.json'


class BestCheckpointExporter(exporter.Exporter):
    """Keeps a copy of the best checkpoint, for `EvalSpec(exporters=...)`.

    `tf.train.latest_checkpoint(os.path.join(model_dir, name))` is the best one, even after a restart of the program. Beside it,
    eval_result.json has its evaluation.

    Args:
      name: of the folder in model_dir.
      compare_fn: a function of best_eval_result and current_eval_result, dicts of metrics: whether the current one is better.
        By default, its loss is smaller.
    """

    def __init__(self, name: str = 'best', compare_fn: Callable[..., bool] = exporter._loss_smaller):
        exporter._verify_compare_fn_args(compare_fn)
        self._name, self._compare_fn = name, compare_fn

    @property
    def name(self) -> str:
        return self._name

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: dict[str, Any], is_the_final_export: bool
    ) -> str | None:
        """Copies a checkpoint if it is better; returns the path of the copy, or None."""
        directory = os.path.join(estimator.model_dir, self.name)
        best = tf.train.latest_checkpoint(directory)
        if best:
            result = json_files.read(os.path.join(os.path.dirname(best), _RESULT))
            if not self._compare_fn(best_eval_result=result, current_eval_result=eval_result):
                return None
        try:
            return _copy(checkpoint_path, directory, eval_result)
        except tf.errors.NotFoundError:
            warn('%s was deleted before it could be copied to %s: raise keep_checkpoint_max.', checkpoint_path, directory)
            return None


def _copy(checkpoint, directory, eval_result):
    """Copies a checkpoint into a new folder, before the file `checkpoint` of the directory names it, and the others go."""
    tf.io.gfile.makedirs(directory)
    old = [name for name in (each.rstrip('/') for each in tf.io.gfile.listdir(directory)) if name.isdigit() or name == 'new']
    new, name = os.path.join(directory, 'new'), str(1 + max((int(name) for name in old if name.isdigit()), default=0))
    if 'new' in old:
        tf.io.gfile.rmtree(new)  # Of a killed program.
    tf.io.gfile.makedirs(new)
    for path in [f'{checkpoint}.index', *tf.io.gfile.glob(f'{checkpoint}.data-*'), *tf.io.gfile.glob(f'{checkpoint}.meta')]:
        tf.io.gfile.copy(path, os.path.join(new, os.path.basename(path)))
    write_result(os.path.join(new, _RESULT), eval_result)
    tf.io.gfile.rename(new, os.path.join(directory, name))
    best = os.path.join(directory, name, os.path.basename(checkpoint))
    checkpoint_management.update_checkpoint_state_internal(directory, best, [best], save_relative_paths=True)
    for each in old:
        if each != 'new':
            tf.io.gfile.rmtree(os.path.join(directory, each))
    return best

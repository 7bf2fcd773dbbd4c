"""The best of the evaluations, which exporters remember over a restart of the program."""

from collections.abc import Mapping
import contextlib
import os
import tempfile
from typing import Any

from tf_estimator import json_files
from tf_estimator.mending import around

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import exporter

_RESULT = 'eval_result.json'  # Of each export, in assets.extra, which SavedModels have for files of programs.


def write_result(path: str, result: Mapping[str, Any]) -> None:
    """Writes the numbers and arrays of an evaluation as JSON, but not its texts and complex numbers."""
    arrays = {name: np.asarray(value) for name, value in result.items()}
    json_files.write(path, {name: array.tolist() for name, array in arrays.items() if array.dtype.kind not in 'cOSU'})


@around(exporter.BestExporter, 'export')
def _export(export, self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
    """Makes a BestExporter compare with what it has exported, rather than export its first evaluation in any case."""
    if self._model_dir != estimator.model_dir:
        self._model_dir = estimator.model_dir
        self._best_eval_result = _find_best(self, export_path, eval_result)
        self._has_exported = self._best_eval_result is not None
    best, saved = self._best_eval_result, self._saved_model_exporter
    given = saved._assets_extra
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, _RESULT)
        write_result(path, eval_result or {})
        saved._assets_extra = {**(given or {}), _RESULT: path}  # So that no export is without it.
        try:
            return export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export)
        except BaseException:
            self._best_eval_result = best  # The next one is not compared with what is not there.
            raise
        finally:
            saved._assets_extra = given


def _find_best(best_exporter, export_path, eval_result):
    """Returns the evaluation of the newest export; if that has none, the best in the event files; or None."""
    exports = tf.io.gfile.listdir(export_path) if tf.io.gfile.isdir(export_path) else []
    exports = [name for name in (each.rstrip('/') for each in exports) if name.isdigit()]
    if not exports:
        return None
    with contextlib.suppress(ValueError, tf.errors.OpError):  # Estimator itself writes none.
        return json_files.read(os.path.join(export_path, max(exports, key=int), 'assets.extra', _RESULT))
    if not best_exporter._event_file_pattern:
        return None
    return _find_best_event(
        best_exporter, os.path.join(best_exporter._model_dir, best_exporter._event_file_pattern), eval_result or {}
    )


def _find_best_event(best_exporter, pattern, eval_result):
    """Returns the best of the earlier evaluations in event files; hooks may write others there, without all metrics."""
    best, step = None, eval_result.get('global_step')
    names = {name for name, value in eval_result.items() if np.ndim(value) == 0 and not isinstance(value, bytes)}
    for path in sorted(tf.io.gfile.glob(pattern)):
        with contextlib.suppress(tf.errors.DataLossError):  # Of a killed program.
            for event in tf.train.summary_iterator(path):
                found = {value.tag: value.simple_value for value in event.summary.value if value.HasField('simple_value')}
                if event.step == step or not names - {'global_step'} <= found.keys():
                    continue
                if best is None or best_exporter._compare_fn(best_eval_result=best, current_eval_result=found):
                    best = found
    return best

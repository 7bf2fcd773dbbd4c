"""Runs of older versions, whose class_weights have weighted the losses of evaluations, too."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import read_json
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.storage.metrics import read_evaluations
from estimator_trainer.common.storage.objective import parse_objective
from estimator_trainer.common.storage.run_dir import hparams_path
from estimator_trainer.hparams.text import to_text

_NEWER = 'oversample'  # A hyper-parameter that came with the losses that are not weighted.


def check(output_dir: str, options: Options) -> None:
    """Warns that a run resumes whose earlier evaluations have other losses than later ones will have.

    Raises:
      UsageError: they would choose its best checkpoint, or its end.
    """
    saved = read_json(hparams_path(output_dir))
    weights = saved.get('class_weights', [1.0])
    if _NEWER in saved or weights == [1.0] or not read_evaluations(output_dir):
        return
    text = f'class_weights={to_text(weights)}: the losses of later evaluations are not weighted, unlike those of earlier ones'
    compares = options.best_metric or options.early_stopping_patience
    if compares and parse_objective(options.best_metric).metric == 'loss':
        raise UsageError(f'{text}: compare another metric, such as --best_metric=accuracy:max, or start over with --overwrite')
    tf.logging.warning('%s.', text)

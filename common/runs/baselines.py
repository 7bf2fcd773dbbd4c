"""Forecasts against what costs nothing: a warning of a model that does not beat the last value, and that of last season."""

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.report.charts import number
from estimator_trainer.common.targets import BASELINES

_METRICS = ('mean_absolute_error', 'rmse')
_NAMES = dict(zip(BASELINES, ('the last value', 'the same time last season')))


def warn(result: Mapping[str, Any]) -> None:
    """Logs a warning, with the figures, of each split whose forecasts are no better than a baseline.

    Args:
      result: {'global_step': int, split: {metric: value}}, as of an evaluation; others have nothing to compare.
    """
    for split, metrics in result.items():
        if not isinstance(metrics, Mapping) or f'rmse_{BASELINES[0]}' not in metrics:
            continue
        lost = []
        for metric in _METRICS:
            beaten_by = {_NAMES[name]: metrics[f'{metric}_{name}'] for name in BASELINES}
            better = [f'{number(value)} of {name}' for name, value in beaten_by.items() if not metrics[metric] < value]
            lost += [f'{metric}: {number(metrics[metric])} of the model, {", ".join(better)}'] if better else []
        if lost:
            tf.logging.warning(
                'The forecasts of the split %s do not beat a baseline, which needs no model: %s.', split, '; '.join(lost)
            )

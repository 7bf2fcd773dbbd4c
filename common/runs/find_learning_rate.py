"""The schedule that finds a learning rate; see common/runs/schedules.py."""

import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import to_json, write, write_csv
from estimator_trainer.common.report import page
from estimator_trainer.common.report.charts import Series, plot
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.probe import session_of
from estimator_trainer.common.training import rate_range
from estimator_trainer.common.training.rate_range import Curve

_COLUMNS = ('learning_rate', 'loss', 'smoothed_loss')  # Of the curve.


def find_learning_rate(experiment: Experiment) -> dict[str, Any]:
    """Trains new weights with a rising rate; writes the curve to output_dir/find_learning_rate, and returns a rate.

    The model, the optimizer, the batches and the data are those of a run; the schedule of the rate, its warmup, and the hooks
    of the modules are not used.

    Raises:
      UsageError: the model has its own training step.
      RunError: the loss is not finite, or does not fall.
    """
    params, directory = experiment.params, os.path.join(experiment.options.output_dir or '', 'find_learning_rate')
    curve = _measure(experiment, experiment.options.train_steps or rate_range.STEPS)
    tf.io.gfile.makedirs(directory)
    paths = {'table': os.path.join(directory, 'learning_rate.csv'), 'chart': os.path.join(directory, 'learning_rate.svg')}
    rows = ([to_json(value) for value in row] for row in zip(*curve))
    write_csv(paths['table'], [_COLUMNS, *rows])
    _write_events(curve, directory)
    if page.is_installed():
        write(paths['chart'], _draw(curve, f'{params.model} on {params.dataset}'))
    else:
        tf.logging.info('No %s: it %s.', paths.pop('chart'), page.NEEDS)
    rate, best = curve.suggest(), curve.rate[curve.best]
    tf.logging.info(
        'learning_rate=%g is a tenth of %.2g, at which the smoothed loss was the least, %.4g, of %d steps: '
        '--hparams=learning_rate=%g',
        rate,
        best,
        curve.smoothed[curve.best],
        len(curve.rate),
        rate,
    )
    if curve.best == len(curve.rate) - 1:
        tf.logging.warning('The loss has fallen up to the largest rate, %.2g: the optimum may be beyond it.', best)
    return {'learning_rate': rate, 'least_loss_at': to_json(best), 'steps': len(curve.rate), **paths}


def _measure(experiment, count):
    with session_of(experiment) as (session, spec):
        rate = rate_range.rate_of(session.graph)
        if rate is None:
            model = experiment.params.model
            raise UsageError(f'--schedule=find_learning_rate: --model={model} has its own training step, with its own rate')

        def step(value):
            experiment.stop.exit_if_received()
            return float(session.run([spec.loss, spec.train_op], {rate: value})[0])

        return rate_range.measure(step, count)


def _write_events(curve, directory):
    """Writes the curve for TensorBoard: by step, the rate and the losses."""
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(directory)
    for step, values in enumerate(zip(*curve)):
        tags = [tf.Summary.Value(tag=f'find_learning_rate/{name}', simple_value=value) for name, value in zip(_COLUMNS, values)]
        writer.add_summary(tf.Summary(value=tags), step)
    writer.close()


def _draw(curve: Curve, name: str) -> str:
    """Returns the curve as an SVG file."""
    x, best = np.log10(curve.rate), curve.best
    top = float(np.quantile(curve.loss, 0.9))  # The last losses may be huge.
    text = f'The smoothed loss is least, {curve.smoothed[best]:.4g}, at a rate of {curve.rate[best]:.2g}.'
    chart = plot(
        f'Loss by learning rate: {name}',
        text,
        [Series('loss', x, np.minimum(curve.loss, top), 'line', 7), Series('smoothed', x, np.minimum(curve.smoothed, top))],
        'log10 of the learning rate',
        'loss',
        marker=(float(x[best]) - 1, f'{curve.rate[best] / 10:.1e}'),
    )
    return page.render({'c': chart}, 'chart.svg.jinja')

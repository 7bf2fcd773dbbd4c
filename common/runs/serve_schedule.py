"""The schedule that serves a trained model over HTTP; see common/runs/schedules.py."""

import functools
import importlib.util
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.raw_predictor import make_predictor
from estimator_trainer.common.runs import chosen_checkpoint
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import checkpoints


def serve(experiment: Experiment) -> dict[str, Any]:
    """Serves the chosen checkpoint, and newer ones, until a signal; returns {}, as it leaves no result."""
    missing = [name for name in ('fastapi', 'uvicorn') if importlib.util.find_spec(name) is None]
    if missing:
        names = ' and '.join(missing)
        raise UsageError(f"--schedule=serve needs {names}: pip install 'estimator-trainer[serve]', or {' '.join(missing)}")
    # Only this schedule needs the packages of these.
    from estimator_trainer.common.serving import server
    from estimator_trainer.common.serving.app import make_app
    from estimator_trainer.common.serving.metrics import Metrics
    from estimator_trainer.common.serving.served import ServedModel

    options, source, output_dir = experiment.options, experiment.source, experiment.estimator.model_dir
    with server.listen(options.host, options.port) as listener:
        which = chosen_checkpoint.choose(output_dir, options.checkpoint)
        make = functools.partial(make_predictor, experiment.estimator, source, follows_best=which == 'best')
        predictor, metrics = checkpoints.use_checkpoint(output_dir, which, make), Metrics()
        model = ServedModel(source.params.model, source, predictor, metrics.batch)
        model.warm_up()
        url = server.url_of(listener)
        tf.logging.info('Serving step %d: %s, %s/v1/models/%s', model.step, url, url, model.name)
        server.serve(make_app(model, metrics), listener, model, experiment.stop, follows=which in ('latest', 'best'))
    return {}

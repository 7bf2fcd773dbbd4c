"""The schedule that serves a trained model over HTTP; see common/runs/schedules.py."""

import functools
import gc
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import import_names
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.raw_predictor import example_predictor
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.runs import chosen_checkpoint
from estimator_trainer.common.runs.decision import predictor_of
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import checkpoints


def serve(experiment: Experiment) -> dict[str, Any]:
    """Serves the chosen checkpoint, and newer ones, until a signal; returns {}, as it leaves no result."""
    _check_packages()
    # Only this schedule needs the packages of these.
    from estimator_trainer.common.serving.metrics import Metrics
    from estimator_trainer.common.serving.served import ServedModel

    options, source, output_dir = experiment.options, experiment.source, experiment.output_dir
    which, metrics = chosen_checkpoint.choose(output_dir, options.checkpoint), Metrics()

    def load():
        predictor, estimator = checkpoints.use_checkpoint(output_dir, which, functools.partial(predictor_of, experiment, which))
        make_examples = functools.partial(example_predictor, estimator, source)
        return ServedModel(source.params.model, source, predictor, metrics.batch, make_examples)

    return _serve(load, metrics, options, experiment.stop, follows=which in ('latest', 'best'))


def serve_export(options: Options, stop: StopOnSignal) -> dict[str, Any]:
    """Serves the SavedModel of --checkpoint, or the highest version in it, until a signal; returns {}."""
    _check_packages()
    from estimator_trainer.common.serving.exported import ExportedModel
    from estimator_trainer.common.serving.metrics import Metrics

    metrics, path = Metrics(), options.checkpoint or ''
    return _serve(lambda: ExportedModel(path, metrics.batch), metrics, options, stop, follows=True)


def _serve(load, metrics, options, stop, follows):
    from estimator_trainer.common.serving import server
    from estimator_trainer.common.serving.app import make_app

    with server.listen(options.host, options.port) as listener:
        model = load()
        model.warm_up()
        gc.collect()
        gc.freeze()  # What the model consists of; to traverse it at some requests would take them 10 ms.
        url = server.url_of(listener)
        tf.logging.info('Serving %s %d: %s, %s/v1/models/%s', model.unit, model.step, url, url, model.name)
        server.serve(make_app(model, metrics), listener, model, stop, follows)
    return {}


def _check_packages():
    missing = [name for name in ('fastapi', 'uvicorn') if not import_names.exists(name)]
    if missing:
        names = ' and '.join(missing)
        raise UsageError(f"--schedule=serve needs {names}: pip install 'estimator-trainer[serve]', or {' '.join(missing)}")

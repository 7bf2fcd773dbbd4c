"""Evaluates the last checkpoint in a directory with a program's own Estimator: `own_evaluation MODULE DIRECTORY STEPS`.

MODULE is a module for the trainer, STEPS a number of batches or `all`. Prints the metrics as JSON.
"""

import importlib
import inspect
import json
import sys

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf


def main() -> None:
    name, directory, steps = sys.argv[1:]
    module = importlib.import_module(name)
    params = module.get_params() if hasattr(module, 'get_params') else {}
    config = tf.estimator.RunConfig(directory)
    if hasattr(module, 'estimator'):
        estimator = module.estimator(config, params)
    else:
        estimator = tf.estimator.Estimator(_model_fn(module.model_fn), config=config, params=params)
    metrics = estimator.evaluate(lambda: module.input_fn('eval', params), None if steps == 'all' else int(steps))
    numbers = {name: float(value) for name, value in metrics.items() if not isinstance(value, bytes)}  # Or a summary.
    print(json.dumps({name: value for name, value in numbers.items() if name != 'global_step'}))


def _model_fn(program):
    """Returns the model_fn of a program with all arguments, and an EstimatorSpec in place of one for TPUs."""
    names = inspect.signature(program).parameters

    def model_fn(features, labels, mode, params, config):
        given = {'labels': labels, 'mode': mode, 'params': params, 'config': config}
        spec = program(features=features, **{name: value for name, value in given.items() if name in names})
        return spec.as_estimator_spec() if hasattr(spec, 'as_estimator_spec') else spec

    return model_fn


if __name__ == '__main__':
    main()

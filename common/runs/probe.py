"""A training graph in a session of its own, apart from any run."""

from collections.abc import Iterator
import contextlib
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.evaluated_input import aside
from estimator_trainer.common.runs.experiment import Experiment


@contextlib.contextmanager
def session_of(experiment: Experiment) -> Iterator[tuple[tf.train.SingularMonitoredSession, tf.estimator.EstimatorSpec]]:
    """Yields a session with new weights and the input of the training, and the spec of its graph; without hooks."""
    estimator: Any = experiment.estimator
    with aside(experiment.train_input_fn, estimator.config.tf_random_seed) as (_, batch):
        spec = estimator.model_fn(batch.features, batch.labels, tf.estimator.ModeKeys.TRAIN, estimator.config)
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, batch.initializer)
        with tf.train.SingularMonitoredSession(scaffold=spec.scaffold, config=estimator.config.session_config) as session:
            yield session, spec

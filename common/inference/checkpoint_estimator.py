"""The Estimator of a checkpoint, where that depends on the checkpoint."""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.plugins.own_train import OwnTrain
from estimator_trainer.common.storage.restore import READ_ERRORS, corrupt, is_intact, open_checkpoint


def at(estimator: Any, checkpoint: str | None) -> tf.estimator.Estimator:
    """Returns the Estimator of a checkpoint, whose model_fn builds its graph; of most Estimators, it is the same for all.

    Raises:
      CheckpointGone: the checkpoint does not exist.
      RunError: it is corrupt.
    """
    if not isinstance(estimator, OwnTrain):
        return estimator
    try:
        return estimator.at(checkpoint)
    except READ_ERRORS:
        if checkpoint and not is_intact(checkpoint):
            open_checkpoint(checkpoint)  # It may be gone.
            raise corrupt(checkpoint) from None
        raise

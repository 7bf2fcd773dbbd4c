"""What cannot be given says so, and names what to use instead."""

import tf_estimator  # noqa: F401 - before TensorFlow

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tests.tf_estimator.programs import not_on_2_15
from tests.tf_estimator.slope import model_fn


@not_on_2_15
def test_a_tpu_is_refused_with_the_versions_that_have_it(tmp_path):
    advice = 'TPUs need TensorFlow 2.15 or older.*use_tpu=False'
    with pytest.raises(NotImplementedError, match=advice):
        tf1.estimator.tpu.TPUEstimator(model_fn, config=tf1.estimator.tpu.RunConfig(), train_batch_size=2)
    with pytest.raises(NotImplementedError, match=advice):
        tf1.tpu.experimental.AdamParameters(0.1)
    with pytest.raises(NotImplementedError, match=advice):
        from tensorflow.python.tpu import tpu_embedding

        tpu_embedding.TPUEmbedding()


@not_on_2_15
def test_the_input_pipeline_hook_is_refused_with_what_to_use():
    for api in (tf, tf1):
        with pytest.raises(NotImplementedError, match='CheckpointInputPipelineHook: .*make_saveable_from_iterator'):
            api.data.experimental.CheckpointInputPipelineHook(None)

import tf_estimator  # noqa: F401 - before TensorFlow

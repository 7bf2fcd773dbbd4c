"""tf.contrib.learn on tf.estimator."""

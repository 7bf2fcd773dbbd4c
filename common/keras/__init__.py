"""Keras in a graph of tf.estimator: its layers in model modules, and weights of its models."""

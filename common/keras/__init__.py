"""Keras in a graph of tf.estimator: layers in model modules, and the weights of Keras models."""

"""The batches of own_program.py as tensors, as programs of TensorFlow 1 return them."""

from tests.cluster.own_program import tensors as input_fn  # noqa: F401

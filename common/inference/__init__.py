"""Inference with a trained model: evaluation, prediction, export."""

"""Using a trained model: evaluation, prediction, export."""

"""Building blocks of models: layers, losses, metrics, images for TensorBoard, beam search."""

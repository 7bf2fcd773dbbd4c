"""Building blocks for models: layers, losses, metrics, images for TensorBoard, beam search."""

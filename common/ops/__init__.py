"""What models are made of beside layers: losses, metrics, images for TensorBoard, beam search. May import: no other wing."""

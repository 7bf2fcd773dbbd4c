"""The framework: modules that all may import, and the wings, whose first lines say what they may import."""

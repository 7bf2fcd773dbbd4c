"""The framework: modules that all code may import, and the wings, whose first lines list what they may import."""

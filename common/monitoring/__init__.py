"""Monitoring of a training: summaries, progress bar, profiler, TensorBoard plugins. May import: ops."""

"""Monitoring of a training: summaries, progress bar, profiler, TensorBoard plugins."""

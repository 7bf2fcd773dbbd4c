"""Monitoring of a run: summaries, progress bar, profiler, TensorBoard plugins."""

"""Monitoring of a run: summaries, status.json, progress bar, profiler, TensorBoard plugins."""

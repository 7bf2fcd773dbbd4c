"""What people look at: summaries, the progress bar, the profiler, TensorBoard plugins. May import: ops."""

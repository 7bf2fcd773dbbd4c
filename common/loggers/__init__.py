"""Loggers, which write runs to trackers of experiments: what their modules define, and the process in which they work."""

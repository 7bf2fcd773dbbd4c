"""A command: experiment, schedules, signals."""

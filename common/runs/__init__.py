"""Runs of a command: experiment, schedules, diagnosis."""

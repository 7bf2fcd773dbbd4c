"""Estimator's silent traps: it now says at WARNING what went unsaid, or does what the program meant."""

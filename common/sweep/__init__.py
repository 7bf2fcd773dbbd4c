"""Hyper-parameter search: the study, its space, a process per trial."""

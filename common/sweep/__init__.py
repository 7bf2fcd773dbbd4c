"""Hyper-parameter search: the study, its space, a process per run of a trial."""

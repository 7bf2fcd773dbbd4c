"""The hyper-parameter search: the study, its space, a process for each trial."""

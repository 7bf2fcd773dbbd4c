"""Several runs, each in a process of its own: hyper-parameter search with its study and space; folds; trials of batch sizes."""

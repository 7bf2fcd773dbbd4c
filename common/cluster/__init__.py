"""Several processes that train one model: their tasks, collective ops, the same end for all."""

"""Several processes that train one model: their tasks, collective ops, coordinated shutdown."""

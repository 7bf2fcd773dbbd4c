"""The training graph: model_fn, towers, optimizers, hooks."""

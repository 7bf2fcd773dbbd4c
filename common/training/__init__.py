"""The training graph: model_fn, towers, optimizers, hooks. May import: cluster, monitoring, ops, plugins, storage."""

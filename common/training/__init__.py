"""The training graph and its session: model_fn, towers, optimizers, hooks. May import: monitoring, ops, plugins, storage."""

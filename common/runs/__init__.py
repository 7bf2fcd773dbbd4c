"""A command: experiment, schedules, signals. May import: cluster, data, inference, monitoring, plugins, storage, training."""

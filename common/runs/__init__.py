"""What a command does: experiment, schedules, signals. May import: data, inference, monitoring, plugins, storage, training."""

"""Using a trained model: evaluation, prediction, export. May import: data, ops, plugins, storage."""

"""Using a trained model: evaluation, prediction, export. May import: data, formats, ops, plugins, storage."""

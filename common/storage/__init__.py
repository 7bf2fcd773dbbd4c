"""The contents of an output_dir: checkpoints, the best one, metrics.csv, the format of status.json, its lock."""

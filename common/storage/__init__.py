"""The contents of an output_dir: checkpoints, the best one, metrics.csv, its lock."""

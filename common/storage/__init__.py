"""What an output_dir holds: checkpoints, the best one, metrics.csv, its lock. May import: no other wing."""

"""Steps of a run, computed again: from its checkpoints, in a directory of their own."""

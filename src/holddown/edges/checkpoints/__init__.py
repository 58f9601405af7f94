"""Files of a checkpoint, headers only."""

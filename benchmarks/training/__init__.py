"""Training tasks with thresholds, and the overhead of training."""

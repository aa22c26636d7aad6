"""Training tasks: command, metric and threshold of each."""

"""Sources of the viewer: training runs and league runs."""

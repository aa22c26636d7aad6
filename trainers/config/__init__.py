"""The configuration of a training run, and presets."""

"""Rollouts in which policies act inside the kernels of an environment."""

"""Viewer of runs and experiments: `gpu-envs watch RUN`, see docs/guides/watch.md."""

"""Viewer of runs: `gpu-envs watch RUN`, see docs/guides/watch.md."""

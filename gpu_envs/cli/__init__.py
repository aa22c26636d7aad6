"""The console command ``gpu-envs`` and its commands for environments."""

from gpu_envs.cli.dispatch import main

__all__ = ["main"]

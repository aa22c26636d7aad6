"""Host modules of Overcooked-v0."""

from gpu_envs.envs.kitchen.overcooked.overcooked import LAYER_HIGHS, Config, build

__all__ = ["LAYER_HIGHS", "Config", "build"]

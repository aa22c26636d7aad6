"""Host modules of OvercookedV2-v0."""

from gpu_envs.envs.kitchen.overcooked_v2.overcooked_v2 import Config, action_names, build, observation_blocks

__all__ = ["Config", "action_names", "build", "observation_blocks"]

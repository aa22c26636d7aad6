"""Host modules of Overcooked-v0."""

from gpu_envs.envs.kitchen.overcooked.overcooked import Config, action_names, build, observation_blocks

__all__ = ["Config", "action_names", "build", "observation_blocks"]

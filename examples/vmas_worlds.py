"""Train on VMAS, whose worlds step at once: gpu-envs train vmas_worlds:make_worlds --env-arg scenario=navigation.

Needs `pip install vmas`, and this folder as the current one. VMAS draws the starts of all worlds from one random
stream, so that a world does not play the same in batches of another size, as other environments here do.
"""

from typing import Any

import torch
import vmas
from gymnasium import spaces
from torch import Tensor


class VmasWorlds:
    """Worlds of a VMAS scenario, whose agents have observations of one shape, with continuous actions."""

    def __init__(self, num_envs: int, scenario: str, max_steps: int, **settings: Any) -> None:
        self.num_envs = num_envs
        self.worlds = vmas.make_env(
            scenario, num_envs, device="cpu", max_steps=max_steps, terminated_truncated=True, **settings
        )
        self.agents = [agent.name for agent in self.worlds.agents]
        observed, acted = self.worlds.observation_space, self.worlds.action_space  # Tuples of Gym, not of Gymnasium
        self.observation_spaces = {
            agent: spaces.Box(box.low, box.high) for agent, box in zip(self.agents, observed, strict=True)
        }
        self.action_spaces = {
            agent: spaces.Box(box.low, box.high) for agent, box in zip(self.agents, acted, strict=True)
        }

    def reset(self, seed: Tensor, mask: Tensor) -> Tensor:
        """Start episodes where the mask (E,) is True; return observations (E, A, D)."""
        if mask.all():
            return torch.stack(self.worlds.reset(seed=int(seed[0])), 1)
        for world in mask.nonzero().flatten().tolist():
            self.worlds.reset_at(world, return_observations=False)
        (obs,) = self.worlds.get_from_scenario(
            get_observations=True, get_rewards=False, get_infos=False, get_dones=False
        )
        return torch.stack(obs, 1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Play a step; return observations (E, A, D), rewards, and who has terminated and was truncated, (E, A)."""
        obs, reward, terminated, truncated, _ = self.worlds.step(list(action.unbind(1)))
        size = (self.num_envs, len(self.agents))
        flags = [flag.unsqueeze(1).expand(size) for flag in (terminated, truncated)]
        return torch.stack(obs, 1), torch.stack(reward, 1), *flags


def make_worlds(num_envs: int, scenario: str = "navigation", max_steps: int = 100, **settings: Any) -> VmasWorlds:
    """Return the worlds; the settings are those of ``vmas.make_env`` and of the scenario."""
    return VmasWorlds(num_envs, scenario, max_steps, **settings)

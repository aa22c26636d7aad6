"""What a learner is to learn: what it sees and does, in how many worlds and for how long."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from gymnasium import spaces

from trainers.sharding import Shard


@dataclass(frozen=True)
class Player:
    """One agent as a centralised critic knows it, see `Problem.players`."""

    row: int
    """Of all agents of a world."""
    policy: str
    """The policy that plays it."""
    obs_width: int
    """D of what its policy sees."""
    action_space: spaces.Space[Any]
    """Of its policy."""
    place: int = 0
    """Among the agents of its policy, in the order in which its learner sees them."""


@dataclass(frozen=True)
class Problem:
    """Shapes, budget, device and seed: everything about a learner that is not a setting of its algorithm."""

    obs_width: int
    """D of the observations that `act` gets."""
    action_space: spaces.Space[Any]
    """Of one agent: Discrete, MultiDiscrete or a one-dimensional Box."""
    num_envs: int
    """E."""
    num_agents: int
    """n, agents per world that share the policy."""
    total_steps: int
    """Steps at which schedules reach their end. A step is one of one world, whatever the number of its agents."""
    device: torch.device | str = "cpu"
    """Of environment and networks."""
    seed: int = 0
    """Of initial weights, samples and minibatches. Global random streams are not used."""
    time_limit: int = 0
    """Steps after which an episode ends in any case; 0 if there is no limit."""
    state_width: int = 0
    """S of the global state that `act` and `Transition` bring; 0 where the learner does not ask for it."""
    masked: bool = False
    """Some actions may be illegal."""
    turns: bool = False
    """Agents take turns."""
    players: tuple[Player, ...] = field(default=())
    """All A agents of a world, in order; () where the learner does not ask for them."""
    policy: str = ""
    """Name of the policy to learn, as in `players`."""
    shard: Shard | None = None
    """Which of more worlds these E are, where other processes have the others; None: these are all."""

    @property
    def num_envs_total(self) -> int:
        """Worlds of all processes."""
        return self.num_envs if self.shard is None else self.shard.num_envs_total

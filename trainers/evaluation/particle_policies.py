"""Scripted policy of CollectTreasure-v0 and SimpleFormation-v0: each agent takes the action that leads to its goal."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index
from gpu_envs.utils.summaries import Summarized, Summary
from trainers.base.agent_group import agent_rows_of
from warp_kernels.mpe import particles

__all__ = ["AHEAD", "GOALS", "PUSHES", "ParticlePolicy", "places_on_circle", "treasures_and_deposits"]

AHEAD = 4
"""Steps of the prediction."""
PUSHES = ((0.0, 0.0), (-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0))
"""Accelerations of MPE's discrete actions: none, left, right, down, up."""


def places_on_circle(core: Core) -> Tensor:
    """Return the goals of SimpleFormation-v0, (E, A, 2): places on the circle, in the order of the agents' angles."""
    agents, center = core.num_agents, core.world_state["pos"][:, core.num_agents]
    offset = core.world_state["pos"][:, :agents] - center[:, None]
    angle = torch.atan2(offset[..., 1], offset[..., 0]) % (2.0 * math.pi)
    rank = angle.argsort(1).argsort(1)  # 0 for the agent with the smallest angle, where the circle begins
    angle = angle.amin(1, keepdim=True) + rank * (2.0 * math.pi / agents)
    radius = core.get_params()["formation_radius"][:, None, None]
    return center[:, None] + radius * torch.stack([angle.cos(), angle.sin()], -1)


def treasures_and_deposits(core: Core) -> Tensor:
    """Return the goals of CollectTreasure-v0, (E, A, 2).

    A collector's goal is the nearest treasure, or the deposit of the treasure that it holds. A deposit's is the nearest
    collector that holds its type, or its own place if there is none.
    """
    agents, state, collectors = core.num_agents, core.world_state, len(core.groups["collector"])
    place, holding = state["pos"], state["holding"]
    fetch = _nearest(place[:, :collectors], place[:, agents:], (state["kind"] > 0)[:, None])
    types = torch.arange(1, agents - collectors + 1, device=place.device)
    carries = holding[..., None] == types  # (E, collectors, deposits)
    bring = _nearest(place[:, :collectors], place[:, collectors:agents], carries)
    meet = _nearest(place[:, collectors:agents], place[:, :collectors], carries.transpose(1, 2))
    return torch.cat([torch.where((holding > 0)[..., None], bring, fetch), meet], 1)


def _nearest(places: Tensor, others: Tensor, allowed: Tensor) -> Tensor:
    """Return the nearest allowed one of others (E, m, 2) for each of places (E, n, 2); the place itself without one."""
    distance = (others[:, None] - places[:, :, None]).square().sum(-1)
    distance = distance.masked_fill(~allowed, torch.inf)
    nearest = others.gather(1, distance.argmin(-1)[..., None].expand(-1, -1, 2))
    return torch.where(distance.amin(-1, keepdim=True) < torch.inf, nearest, places)


GOALS: dict[str, Callable[[Core], Tensor]] = {
    "CollectTreasure-v0": treasures_and_deposits,
    "SimpleFormation-v0": places_on_circle,
}
"""Functions that return the goals of all agents, by environment id."""


class ParticlePolicy(Summarized):
    """Take the actions after which agents coast closest to their goals; has the interface of a `Policy`.

    Goals and positions are read from the state of the worlds, so that agents know more than they observe.
    """

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core.

        Args:
            core: Core of an environment of `GOALS`.
            member: Name of a group or an agent.

        Raises:
            ConfigError: The core is another environment, or its actions are continuous.
        """
        if core.id not in GOALS or core.config.continuous_actions:
            wanted = f"{' or '.join(GOALS)} with discrete actions"
            raise ConfigError(f"scripted policy of particles: expected {wanted}, got {core.id} {core.config}")
        self.core: Core = core
        self.member = member
        self.rows: slice | Tensor = rows_index(agent_rows_of(core, [member]), core.device)
        self._goals = GOALS[core.id]
        self._pushes = torch.tensor(PUSHES, device=core.device)
        self._mass = torch.ones(core.num_agents, device=core.device)
        if "deposit_mass" in core.get_params():
            deposits = rows_index(core.groups["deposit"], core.device)
            self._mass[deposits] = core.get_params()["deposit_mass"][0]

    def _summary(self) -> Summary:
        script = "approach the goal"
        return Summary(self.core.id, {"plays": self.member, "script": script, "device": self.core.device})

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions (E, n) for the current state of the core; the arguments of a `Policy` are unused."""
        state, kept, dt = self.core.world_state, float(particles.KEPT_VELOCITY), float(particles.DT)
        accel = self.core.get_params()["accel"][:, None, None, None] / self._mass[self.rows, None, None]
        speed = kept * state["vel"][:, self.rows, None] + dt * accel * self._pushes  # (E, n, C, 2)
        place = state["pos"][:, self.rows, None] + dt * (1.0 - kept**AHEAD) / (1.0 - kept) * speed
        return (place - self._goals(self.core)[:, self.rows, None]).square().sum(-1).argmin(-1)

    def initial_hidden_state(self, *shape: int) -> None:
        """Return None: the policy is not recurrent."""
        return

    def seed(self, seed: int) -> None:
        """Do nothing: the policy is deterministic."""

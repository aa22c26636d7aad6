"""Scripted policy of SimpleFormation-v0: each agent takes the action that leads to its place on the circle."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from trainers.evaluation.state_policy import StatePolicy
from warp_kernels.mpe import particles

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
    return _at_angles(core, angle.amin(1, keepdim=True) + rank * (2.0 * math.pi / agents))


def fixed_places(core: Core) -> Tensor:
    """Return places on the circle, (E, A, 2), that depend on the agents' indices and not on where the agents are."""
    agents = core.num_agents
    return _at_angles(
        core, torch.arange(agents, device=core.device).expand(core.num_envs, -1) * (2.0 * math.pi / agents)
    )


def _at_angles(core: Core, angle: Tensor) -> Tensor:
    """Return the positions on the circle at angles (E, A), (E, A, 2)."""
    center, radius = core.world_state["pos"][:, core.num_agents], core.get_params()["formation_radius"][:, None, None]
    return center[:, None] + radius * torch.stack([angle.cos(), angle.sin()], -1)


class FormationPolicy(StatePolicy):
    """Take the actions after which agents coast closest to their places on the circle; has the interface of a `Policy`.

    Positions are read from the state of the worlds, so that agents know more than they observe. With fixed places an
    agent needs no more than its own position, velocity and the landmark, which it observes.
    """

    env_ids: ClassVar[tuple[str, ...]] = ("SimpleFormation-v0",)

    def __init__(self, core: Core, member: str, fixed: bool = False) -> None:
        """Control a group or an agent of a core.

        Args:
            core: Core of SimpleFormation-v0.
            member: Name of a group or an agent.
            fixed: True for the places of `fixed_places` instead of `places_on_circle`.

        Raises:
            ConfigError: The core is another environment, or its actions are continuous.
        """
        super().__init__(core, member)
        if core.config.continuous_actions:
            raise ConfigError(f"FormationPolicy: expected discrete actions, got {core.config}")
        self.fixed = fixed
        self.script = "form a circle" + " of fixed places" * fixed
        self._pushes = torch.tensor(PUSHES, device=core.device)

    def _act(self, mask: Tensor | None) -> Tensor:
        state, decay, dt = self.core.world_state, float(particles.KEPT_VELOCITY), float(particles.DT)
        accel = self.core.get_params()["accel"][:, None, None, None]
        speed = decay * state["vel"][:, self.rows, None] + dt * accel * self._pushes  # (E, n, C, 2)
        positions = state["pos"][:, self.rows, None] + dt * (1.0 - decay**AHEAD) / (1.0 - decay) * speed
        goals = fixed_places(self.core) if self.fixed else places_on_circle(self.core)
        return (positions - goals[:, self.rows, None]).square().sum(-1).argmin(-1)

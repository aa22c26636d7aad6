"""Scripted policies of LevelBasedForaging-v0: the heuristics H1 to H4 of lbforaging (Albrecht and Ramamoorthy 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from trainers.evaluation.state_policy import StatePolicy
from warp_kernels.grid.level_based_foraging.level_based_foraging import EAST, LOAD, NORTH, NUM_ACTIONS, SOUTH, WEST


@dataclass(frozen=True)
class _Heuristic:
    """Choice of the food that a player goes to: the nearest of some foods in its sight."""

    words: str
    from_center: bool = False  # nearest to the center of the players in sight, not to the own cell
    levels: str = "any"  # foods up to this level: "any", "own", or "all" players in sight together


HEURISTICS = {
    "H1": _Heuristic("the nearest food"),
    "H2": _Heuristic("the food nearest to the center of the players", from_center=True),
    "H3": _Heuristic("the nearest food of at most the own level", levels="own"),
    "H4": _Heuristic(
        "the food nearest to the center of the players that they can load together", from_center=True, levels="all"
    ),
}
"""Heuristics by name."""


class ForagingPolicy(StatePolicy):
    """Go to a food in sight and load it; has the interface of `trainers.models.policy.Policy`.

    Without such a food, or if no step leads closer to it, the action is random among those with an effect.
    """

    env_ids: ClassVar[tuple[str, ...]] = ("LevelBasedForaging-v0",)

    def __init__(self, core: Core, member: str, heuristic: str = "H4") -> None:
        """Control a group or an agent of a core.

        Args:
            core: Core of LevelBasedForaging-v0.
            member: Name of a group or an agent.
            heuristic: Name in `HEURISTICS`.

        Raises:
            ConfigError: There is no such heuristic, or the core is another environment.
        """
        if heuristic not in HEURISTICS:
            raise ConfigError(f"heuristic: expected one of {', '.join(HEURISTICS)}, got {heuristic!r}")
        super().__init__(core, member)
        self.heuristic = HEURISTICS[heuristic]
        self.script = f"go to {self.heuristic.words}"

    def _act(self, mask: Tensor | None) -> Tensor:
        kind, state, params = self.heuristic, self.core.world_state, self.core.get_params()
        food, player = state["food"].long(), state["player"].long()
        agent, sight = player[:, self.rows], params["sight"].long()[:, None, None]
        corner = (agent[..., :2] - sight).clamp(min=0)  # of the cells in sight, which numbers them
        cell = agent[..., :2] - corner
        food_cell = food[:, None, :, :2] - corner[:, :, None]  # (E, n, F, 2)
        gap = food[:, None, :, :2] - agent[:, :, None, :2]
        is_visible = (food[:, None, :, 2] > 0) & (gap.abs().amax(-1) <= sight)
        places = player[:, None, :, :2] - corner[:, :, None]  # (E, n, A, 2)
        visible_players = (places.amin(-1) >= 0) & (places.amax(-1) <= 2 * sight)
        start = cell.double()
        if kind.from_center:
            start = (
                (places * visible_players[..., None]).sum(2) / visible_players.sum(2, keepdim=True).double()
            ).round()
        is_target = is_visible
        if kind.levels != "any":
            level = agent[..., 2] if kind.levels == "own" else (player[:, None, :, 2] * visible_players).sum(-1)
            is_target = is_visible & (food[:, None, :, 2] <= level[..., None])
        distance = (food_cell - start[:, :, None]).square().sum(-1).masked_fill(~is_target, torch.inf)
        nearest = distance.argmin(-1)  # the first in row order among ties
        offset = gap.gather(2, nearest[..., None, None].expand(-1, -1, 1, 2)).squeeze(2)
        allowed = self._allowed(agent, gap, food)
        chances = torch.rand(allowed.shape, generator=self._generator, device=allowed.device)
        choice = chances.masked_fill(~allowed, -1.0).argmax(-1)  # a random one of the allowed actions
        for action, is_closer in (
            (WEST, offset[..., 1] < 0),
            (EAST, offset[..., 1] > 0),
            (SOUTH, offset[..., 0] > 0),
            (NORTH, offset[..., 0] < 0),
        ):  # later ones take precedence
            choice = torch.where(is_target.any(-1) & is_closer & allowed[..., int(action)], int(action), choice)
        return torch.where(is_target.any(-1) & (offset.abs().sum(-1) == 1), int(LOAD), choice)

    def _allowed(self, agent: Tensor, gap: Tensor, food: Tensor) -> Tensor:
        """Return the actions with an effect, (E, n, 6) bool, which the core reports only with `action_mask=True`."""
        params, is_present = self.core.get_params(), food[:, None, :, 2] > 0
        allowed = torch.ones((*agent.shape[:2], NUM_ACTIONS), dtype=torch.bool, device=agent.device)
        row, column = agent[..., 0], agent[..., 1]
        inside = {
            NORTH: row > 0,
            SOUTH: row < params["rows"][:, None] - 1,
            WEST: column > 0,
            EAST: column < params["columns"][:, None] - 1,
        }
        steps = {NORTH: (-1, 0), SOUTH: (1, 0), WEST: (0, -1), EAST: (0, 1)}
        allowed[..., int(LOAD)] = (is_present & (gap.abs().sum(-1) == 1)).any(-1)
        for action, (down, right) in steps.items():
            blocked = (is_present & (gap[..., 0] == down) & (gap[..., 1] == right)).any(-1)
            allowed[..., int(action)] = inside[action] & ~blocked
        return allowed

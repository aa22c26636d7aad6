"""Measures of an episode of GatherTradeBuild-v0: productivity, equality, and specialization by building skill."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core


class EconomyMeasures:
    """Measures of one episode in every environment, from `info` after every step."""

    def __init__(self, core: Core) -> None:
        """Start before the first step of the episodes.

        Args:
            core: The environments.
        """
        self.core = core
        self.workers = core.config.n_agents
        self.skill: Tensor | None = None
        """Coin that an agent earns by a house, (E, n)."""
        self.last: dict[str, Tensor] = {}
        """Entries of `info` after the last step of an episode so far, (E, n)."""
        self.transfers = torch.zeros((core.num_envs, self.workers), dtype=torch.float64, device=core.device)
        """Received shares of taxes minus paid taxes, (E, n) [coin]."""

    def __call__(self, playing: Tensor, info: Mapping[str, Tensor]) -> None:
        """Take the results of a step.

        Args:
            playing: Environments whose episode went on until this step, (E,) bool.
            info: `info` of the step.
        """
        if self.skill is None:  # the same for a whole episode
            self.skill = self.core.world_state["payment"].double().clone()
            self.last = {name: info[name][:, : self.workers].double() for name in _TAKEN}
        for name, value in self.last.items():
            value[playing] = info[name][playing, : self.workers].double()
        paid = self.last["tax_paid"] * playing.unsqueeze(1)
        self.transfers += paid.mean(1, keepdim=True) - paid

    def results(self) -> dict[str, Tensor]:
        """Return the measures of all episodes, each (E,), by name.

        "productivity" [coin] and "equality" [%] are values at the end, and "equality x productivity" is their product
        [coin]. "correlation of skill and houses" is that of the building skills of a world's agents and the houses
        that they built; "correlation of skill and trade" that of the skills and the coin from trade, sales minus
        purchases. "houses of the most skilled" and "houses of the least skilled" are numbers of houses.
        """
        assert self.skill is not None, "no step was played"
        houses = self.last["houses_built"]
        trade = self.last["coin"] - self.core.config.starting_agent_coin - self.skill * houses - self.transfers
        rank = self.skill.argsort(1)
        by_rank = houses.gather(1, rank)
        return {
            "productivity": self.last["productivity"][:, 0],
            "equality": 100.0 * self.last["equality"][:, 0],
            "equality x productivity": self.last["coin_eq_times_productivity"][:, 0],
            "correlation of skill and houses": correlation(self.skill, houses),
            "correlation of skill and trade": correlation(self.skill, trade),
            "houses of the most skilled": by_rank[:, -1],
            "houses of the least skilled": by_rank[:, 0],
        }


_TAKEN = ("productivity", "equality", "coin_eq_times_productivity", "coin", "houses_built", "tax_paid")


def correlation(first: Tensor, second: Tensor) -> Tensor:
    """Return the correlation coefficients of rows (E, N), 0 where a row is constant."""
    first, second = first - first.mean(1, keepdim=True), second - second.mean(1, keepdim=True)
    size = first.norm(dim=1) * second.norm(dim=1)
    return torch.where(size > 1e-9, (first * second).sum(1) / size.clamp(min=1e-9), 0.0)

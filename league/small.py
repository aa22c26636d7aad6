"""A game that is small enough to walk, and the policies of a run as tables of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.exact import TablePolicy, Tree, tabulate
from league.game import Game
from league.population import Population, RandomPolicy
from trainers.policy import Plays


class Small:
    """Exact payoffs, best responses and NashConv of populations. Each policy is asked once what it does."""

    def __init__(self, tree: Tree) -> None:
        """Takes a tree."""
        self.tree, self.game = tree, tree.game
        self.tables: list[list[Tensor]] = [[] for _ in self.game.seats]

    @classmethod
    def of(cls, game: Game, required: bool = False) -> Small | None:
        """None where the game cannot be walked; ConfigError instead, if it is `required`."""
        try:
            return cls(Tree.of(game))
        except ConfigError:
            if required:
                raise
            return None

    def know(self, populations: Mapping[str, Population]) -> list[list[Tensor]]:
        """The tables of all policies, per seat; those that came since the last time are made."""
        for index, (seat, tables) in enumerate(zip(self.game.seats, self.tables, strict=True)):
            population = populations[seat.role]
            tables += [self._table(population[place], index) for place in range(len(tables), len(population))]
        return self.tables

    def _table(self, policy: Plays, seat: int) -> Tensor:
        # a network that acts at random does so in float32, and rounding decides between responses that are alike
        return self.tree.uniform(seat) if isinstance(policy, RandomPolicy) else tabulate(policy, self.tree, seat)

    def payoffs(self, populations: Mapping[str, Population]) -> Tensor:
        """(S, N_1, ..., N_S), what every seat earns in every matchup."""
        return self.tree.payoffs(self.know(populations))

    def mixtures(self, populations: Mapping[str, Population], marginals: Sequence[Tensor]) -> list[Tensor]:
        """Per seat the table that plays as its mixture does; marginals (n,) of the first n policies of a population."""
        tables = self.know(populations)
        return [
            self.tree.mix(torch.stack(tables[seat][: len(weights)]), weights.cpu(), seat)
            for seat, weights in enumerate(marginals)
        ]

    def nash_conv(self, populations: Mapping[str, Population], marginals: Sequence[Tensor]) -> float:
        """What the seats could gain in all, each by a best response to the others' mixtures."""
        return self.tree.nash_conv(self.mixtures(populations, marginals))

    def best_response(
        self, populations: Mapping[str, Population], role: str, marginals: Sequence[Tensor]
    ) -> tuple[TablePolicy, float]:
        """A pure policy of a role that earns the most against mixtures on the other seats, and what it earns.

        It knows what to do in every seat of the role; what it earns is the mean over those.
        """
        mixtures, seats = self.mixtures(populations, marginals), self.game.seats_of(role)
        found = [self.tree.best_response(mixtures, seat) for seat in seats]
        width = max(self.tree.observations[seat].shape[1] for seat in seats)
        rows: dict[bytes, int] = {}
        observations, table = [], []
        for seat, (actions, _) in zip(seats, found, strict=True):
            for obs, row in zip(self.tree.observations[seat], actions, strict=True):
                padded = torch.nn.functional.pad(obs, (0, width - len(obs)))
                if rows.setdefault(padded.numpy().tobytes(), len(rows)) == len(table):  # else of another seat: alike
                    observations.append(padded)
                    table.append(row)
        value = sum(value for _, value in found) / len(found)
        return TablePolicy(torch.stack(observations), torch.stack(table)), value

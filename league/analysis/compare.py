"""Two runs of one game against each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gpu_envs.errors import ConfigError
from league import measures, solvers
from league.matches import MAX_ENVS, play_matchups
from league.run import sizes
from league.store import Store, derived


@dataclass(frozen=True)
class Comparison:
    """How two runs of one game do against each other."""

    performance: float
    """Relative population performance: what the first earns per seat where both play the equilibrium of all matchups
    between them; above 0: the first is the stronger one."""
    half_width: float
    """Half of its 95 % interval, for these equilibria."""
    seats: dict[str, float]
    """By seat: what the first run's population earns there against the other's."""
    episodes: int
    """In all."""

    def __str__(self) -> str:
        seats = ", ".join(f"{value:.4f} as {seat}" for seat, value in self.seats.items())
        return f"{self.performance:.4f} ± {self.half_width:.4f} ({seats}; {self.episodes:,} episodes)"


def compare(
    first: Store, second: Store, episodes: int = 1_000, seed: int = 0, device: str = "cpu", max_envs: int = MAX_ENVS
) -> Comparison:
    """Relative population performance of two runs, by all matchups between their policies, in every seat.

    Balduzzi et al. (2019), see `league.measures.relative_population_performance`.

    Raises:
        ConfigError: They are of different games, or of one that is not of two seats and zero-sum, or without policies.
    """
    game = first.game
    if second.game != game:
        raise ConfigError(f"{second.path}: expected a run of the same game as {first.path}, got {second.game.env_id}")
    if len(game.seats) != 2 or not game.zero_sum:
        raise ConfigError(f"{game.env_id}: relative population performance is of two seats that sum to 0")
    own, other = sizes(first), sizes(second)
    for store, count in ((first, own), (second, other)):
        if not all(count.values()):
            raise ConfigError(f"{store.path}: expected a run with policies, it has none yet")
    pools = {role: [*first.populations[role], *second.populations[role]] for role in game.roles}
    roles = [seat.role for seat in game.seats]
    sides = (0,) if game.shared else (0, 1)  # episodes of a shared population take both orders of the seats
    seats, variance, played = {}, 0.0, 0
    for side in sides:
        shape = (own[roles[side]], other[roles[1 - side]])
        who = torch.ones(shape).nonzero() + torch.tensor([0, own[roles[1 - side]]])
        who = who if side == 0 else who.flip(1)
        results = play_matchups(game, pools, who, episodes, derived(seed, "compare", side), device, max_envs)
        mean = results.mean[:, side].view(shape)
        spread = (results.square[:, side] / episodes).view(shape) - mean.square()
        payoffs = torch.stack([mean, -mean])
        p, q = solvers.solve("nash", payoffs).marginals
        seats[game.seats[side].name] = measures.relative_population_performance(payoffs)
        variance += float(p.square() @ spread.clamp(min=0) @ q.square()) / max(episodes - 1, 1)
        played += int(results.count.sum())
    value = sum(seats.values()) / len(sides)
    if game.shared:
        seats = {seat.name: value for seat in game.seats}
    return Comparison(value, 1.96 * math.sqrt(variance) / len(sides), seats, played)

"""Comparison of two runs of one game."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gpu_envs.errors import ConfigError
from league import solvers
from league.analysis import population_metrics
from league.matchups.matchups import MAX_ENVS, simulate_matchups
from league.storage.run_config import sizes
from league.storage.run_store import RunStore, derive_named_seed


@dataclass(frozen=True)
class Comparison:
    """Comparison of two runs of one game."""

    performance: float
    """Relative population performance: payoff of the first run per seat if both play the equilibrium of all matchups
    between them. Above 0, the first run is stronger."""
    half_width: float
    """Half of its 95 % interval, for fixed equilibria."""
    seats: dict[str, float]
    """Payoff of the first run's population in each seat."""
    episodes: int
    """Number of episodes."""

    def __str__(self) -> str:
        seats = ", ".join(f"{value:.4f} as {seat}" for seat, value in self.seats.items())
        return f"{self.performance:.4f} ± {self.half_width:.4f} ({seats}; {self.episodes:,} episodes)"


def compare_runs(
    first: RunStore,
    second: RunStore,
    episodes: int = 1_000,
    seed: int = 0,
    device: str = "cpu",
    max_envs: int = MAX_ENVS,
) -> Comparison:
    """Compute the relative population performance of two runs from all matchups between their policies in every seat.

    Source: Balduzzi et al. (2019), see `league.analysis.population_metrics.relative_population_performance`.

    Args:
        first: Store of the first run.
        second: Store of the second run, of the same game.
        episodes: Episodes per matchup.
        seed: Random seed of the episodes.
        device: Device of the simulation.
        max_envs: Maximum number of environments that run at once.

    Raises:
        ConfigError: The games differ, the game is not a two-player zero-sum game, or a run has no policies.
    """
    game = first.game
    if second.game != game:
        raise ConfigError(f"{second.path}: expected a run of the same game as {first.path}, got {second.game.env_id}")
    if len(game.seats) != 2 or not game.zero_sum:
        raise ConfigError(f"relative population performance: expected a two-player zero-sum game, got {game.env_id}")
    counts, other_counts = sizes(first), sizes(second)
    for store, count in ((first, counts), (second, other_counts)):
        if not all(count.values()):
            raise ConfigError(f"{store.path}: expected a run with policies, got one without")
    pools = {role: [*first.populations[role], *second.populations[role]] for role in game.roles}
    roles = [seat.role for seat in game.seats]
    sides = (0,) if game.shared else (0, 1)  # episodes of a shared population use both orders of the seats
    seats, variance, played = {}, 0.0, 0
    for side in sides:
        shape = (counts[roles[side]], other_counts[roles[1 - side]])
        matchups = torch.ones(shape).nonzero() + torch.tensor([0, counts[roles[1 - side]]])
        matchups = matchups if side == 0 else matchups.flip(1)
        results = simulate_matchups(
            pools,
            game=game,
            matchups=matchups,
            episodes=episodes,
            seed=derive_named_seed(seed, "compare", side),
            device=device,
            max_envs=max_envs,
        )
        mean = results.mean[:, side].view(shape)
        spread = (results.square[:, side] / episodes).view(shape) - mean.square()
        payoffs = torch.stack([mean, -mean])
        p, q = solvers.solve("nash", payoffs).marginals
        seats[game.seats[side].name] = population_metrics.relative_population_performance(payoffs)
        variance += float(p.square() @ spread.clamp(min=0) @ q.square()) / max(episodes - 1, 1)
        played += int(results.count.sum())
    value = sum(seats.values()) / len(sides)
    if game.shared:
        seats = {seat.name: value for seat in game.seats}
    return Comparison(value, 1.96 * math.sqrt(variance) / len(sides), seats, played)

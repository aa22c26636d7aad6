"""Distributions over matchups, from which every world samples at its reset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.game import Game

LEARNER = -1
"""Index of the learner of the seat's role in a matchup."""
NEGLIGIBLE = 1e-12
"""Probabilities below this number are rounding errors of a solver and count as 0."""


@dataclass(frozen=True, eq=False)
class MatchupDistribution:
    """A distribution over K matchups of S seats."""

    matchups: Tensor
    """Indices into the population of each seat's role, or LEARNER (K, S) int64."""
    probability: Tensor | None = None
    """Probabilities (K,) float64; None: uniform."""
    learns: Tensor | None = None
    """Seats whose steps are training data (K, S) bool; None: all learners'."""

    def __post_init__(self) -> None:
        """Copy to the host; raise ConfigError if shapes or values do not fit a distribution."""
        matchups = torch.as_tensor(self.matchups).to("cpu", torch.int64, copy=True)
        if matchups.dim() != 2 or not len(matchups) or bool((matchups < LEARNER).any()):
            raise ConfigError(f"matchups: expected (K, S) indices or {LEARNER} for the learner, got {matchups!r:.200}")
        count = len(matchups)
        weight = torch.ones(count) if self.probability is None else torch.as_tensor(self.probability)
        probability = weight.detach().to("cpu", torch.float64, copy=True)
        if probability.shape != (count,) or not bool((probability.isfinite() & (probability >= 0)).all()):
            raise ConfigError(f"probability: expected {count} finite numbers >= 0, got {probability!r:.200}")
        if not float(probability.sum()) > 0:
            raise ConfigError("probability: expected some number above 0, got none")
        learner = matchups == LEARNER
        learns = learner if self.learns is None else torch.as_tensor(self.learns).to("cpu", torch.bool, copy=True)
        if learns.shape != matchups.shape or bool((learns & ~learner).any()):
            raise ConfigError("learns: expected (K, S) bool, True only in seats of a learner, got others")
        for name, value in (("matchups", matchups), ("learns", learns)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "probability", probability / probability.sum())

    @classmethod
    def against(
        cls,
        game: Game,
        role: str,
        marginals: Sequence[Tensor] | None = None,
        *,
        joint: Tensor | None = None,
        recommendation: int | None = None,
    ) -> MatchupDistribution:
        """Return the training distribution of a best response to a meta-strategy.

        The learner takes every seat of its role equally often; the other seats have sampled opponents.

        Args:
            game: Game with the roles and seats.
            role: Role of the best response.
            marginals: (N_s,) per seat, from which the opponents are sampled independently; or
            joint: (N_1, ..., N_S), a distribution over profiles, such as a (coarse) correlated equilibrium. Opponents
                are sampled from its marginal over the other seats, as in JPSRO (Marris et al. 2021).
            recommendation: With `joint`, the recommendation to the learner's seat. Opponents are sampled from the joint
                distribution conditional on it; a correlated equilibrium has one best response per recommendation.

        Raises:
            ConfigError: The role does not exist, or the meta-strategy is not a distribution over this many seats.
        """
        seats, count = game.seats_of(role), len(game.seats)
        if not seats:
            raise ConfigError(f"{game.env_id}: expected a role among {', '.join(game.roles)}, got {role!r}")
        if (marginals is None) == (joint is None) or (recommendation is not None and joint is None):
            raise ConfigError(
                "best response: expected either marginals or joint, and recommendation only with joint, got others"
            )
        if (axes := len(marginals) if marginals is not None else joint.dim() if joint is not None else 0) != count:
            raise ConfigError(f"best response: expected a meta-strategy of {count} seats, got one of {axes}")
        parts = []
        for seat in seats:
            weight = torch.ones((), dtype=torch.float64)
            if joint is not None:
                weight = joint.double().cpu()
                weight = weight.sum(seat) if recommendation is None else weight.select(seat, recommendation)
            elif marginals is not None:
                for other, marginal in enumerate(marginals):
                    if other != seat:
                        weight = weight.unsqueeze(-1) * torch.as_tensor(marginal).double().cpu()
            if not bool(weight.isfinite().all()) or float(weight.min()) < -1e-6 or not float(weight.sum()) > NEGLIGIBLE:
                raise ConfigError("best response: expected probabilities of opponents >= 0, some above 0, got others")
            opponents = (weight > NEGLIGIBLE).nonzero()
            learner = torch.full((len(opponents), 1), LEARNER)
            matchups = torch.cat([opponents[:, :seat], learner, opponents[:, seat:]], 1)
            parts.append((1.0, cls(matchups, weight[tuple(opponents.T)])))
        return cls.mix(parts)

    @classmethod
    def self_play(cls, game: Game) -> MatchupDistribution:
        """Return the distribution with learners in all seats."""
        return cls(torch.full((1, len(game.seats)), LEARNER))

    @classmethod
    def mix(cls, parts: Iterable[tuple[float, MatchupDistribution]]) -> MatchupDistribution:
        """Return the mixture of distributions, with weights that need not sum to 1.

        Raises:
            ConfigError: All weights are 0.
        """
        parts = [(weight, draw) for weight, draw in parts if weight]
        if not parts:
            raise ConfigError("distributions to mix: expected some with a weight above 0, got none")
        return cls(
            torch.cat([draw.matchups for _, draw in parts]),
            torch.cat([weight * filled(draw.probability) for weight, draw in parts]),
            torch.cat([filled(draw.learns) for _, draw in parts]),
        )


def check_draw(
    game: Game,
    draw: MatchupDistribution,
    pools: Mapping[str, Sequence[object]],
    previous: Mapping[str, Sequence[object]],
    roles: Collection[str],
) -> None:
    """Check that a distribution fits a game and the pools of policies.

    Args:
        game: Game with the seats.
        draw: Distribution over matchups.
        pools: Policies by role.
        previous: Policies by role that the pools replace.
        roles: Roles with a learner.

    Raises:
        ConfigError: It does not fit.
    """
    seats = game.seats
    if draw.matchups.shape[1] != len(seats):
        raise ConfigError(f"{game.env_id}: expected matchups of {len(seats)} seats, got {draw.matchups.shape[1]}")
    for index, seat in enumerate(seats):
        drawn, size, least = draw.matchups[:, index], len(pools[seat.role]), len(previous[seat.role])
        if seat.role not in roles and bool((drawn == LEARNER).any()):
            raise ConfigError(
                f"role {seat.role}: expected policies only, as it has no learner, got {LEARNER} in a matchup"
            )
        if int(drawn.max()) >= size:
            raise ConfigError(
                f"role {seat.role}: expected policies below {size}, the size of its pool, got {int(drawn.max())}"
            )
        if size < least:
            raise ConfigError(f"role {seat.role}: expected a pool of at least {least} policies, got {size}")


def narrow(game: Game, matchups: Tensor) -> tuple[dict[str, list[int]], Tensor]:
    """Return by role the indices in matchups (K, S), ascending, and the matchups as positions in these lists."""
    narrowed, indices = matchups.clone(), dict[str, list[int]]()
    for role in game.roles:
        seats = list(game.seats_of(role))
        columns = matchups[:, seats]
        policies = columns[columns != LEARNER].unique()
        narrowed[:, seats] = torch.where(columns == LEARNER, LEARNER, torch.searchsorted(policies, columns))
        indices[role] = policies.tolist()
    return indices, narrowed


def widen(game: Game, indices: Mapping[str, Sequence[int]], narrowed: Tensor) -> Tensor:
    """Return matchups (K, S) from the result of `narrow`."""
    matchups = narrowed.clone()
    for index, seat in enumerate(game.seats):
        policies, column = torch.tensor([LEARNER, *indices[seat.role]]), narrowed[:, index]
        matchups[:, index] = policies[column + 1]
    return matchups


def filled(value: Tensor | None) -> Tensor:
    """Return a field that the construction has filled in; see `MatchupDistribution` for its shape."""
    assert value is not None
    return value

"""Simulation of matchups: the return of every seat, from one batched rollout over all matchups.

Every world simulates one episode of its own matchup and then idles, so that short episodes are not over-represented.
Every world has its own random stream, so the estimates of two matchups are independent.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.runtime.core import Core
from league.game import Game
from league.rollout.seat_policies import BUDGET, NO_POLICY, SeatPolicies
from trainers.models.policy import PolicyProtocol

__all__ = ["MAX_ENVS", "STEP", "MatchupResults", "scores", "simulate_matchups"]

MAX_ENVS = 16_384
"""Default of the largest number of simultaneous worlds."""
STEP = 1024
"""Batch sizes are multiples of this number, so that few different batches have to be built."""


@dataclass(frozen=True)
class MatchupResults:
    """Sums over the episodes of K matchups with S seats, on the host."""

    count: Tensor
    """Number of episodes (K,) int64."""
    total: Tensor
    """Sums of the returns of each seat's policy (K, S) float64."""
    square: Tensor
    """Sums of the squared returns (K, S) float64."""
    score: Tensor
    """Sums of the scores (K, S) float64, see `scores`."""

    @property
    def mean(self) -> Tensor:
        """Mean return of each seat's policy (K, S); NaN without episodes."""
        return self.total / self.count[:, None]


def simulate_matchups(
    policies: Mapping[str, Sequence[PolicyProtocol]],
    *,
    game: Game,
    matchups: Tensor | np.ndarray | Sequence[Sequence[int]],
    episodes: int | Tensor | np.ndarray | Sequence[int],
    seed: int,
    device: str = "cpu",
    max_envs: int = MAX_ENVS,
    greedy: bool = False,
    draw_margin: float = 0.0,
    max_steps: int = 100_000,
    budget: int = BUDGET,
) -> MatchupResults:
    """Simulate episodes of matchups and return the sums of their returns.

    In a game with a shared population the policies of a matchup take the seats in every order, one order per episode
    in turn. With more than five seats only the cyclic orders are used. A return is credited to the policy that earned
    it, whatever its seat.

    Args:
        policies: Policies by role.
        game: Game to play.
        matchups: (K, S), index of each seat's policy in the population of the seat's role.
        episodes: Number of episodes of every matchup, or (K,).
        seed: Random seed of environments and actions. Equal arguments give equal results.
        device: Device of the simulation.
        max_envs: Largest number of simultaneous worlds.
        greedy: Take the most probable actions instead of samples.
        draw_margin: Two seats: return difference (first minus second seat) that counts as a draw.
        max_steps: Largest number of steps of an episode.
        budget: Weights of each seat's policies on the device [bytes], see `SeatPolicies`.

    Raises:
        ConfigError: A policy of a matchup does not exist, or an entry of `episodes` is not an integer >= 0.
        GpuEnvsError: An episode has more than `max_steps` steps.
    """
    who, worlds = _check(game, policies, matchups, episodes)
    results = _zeros(len(who), len(game.seats))
    if not len(worlds):
        return results
    passes = -(-len(worlds) // max_envs)
    size = -(-len(worlds) // passes)  # of a pass
    size = min(-(-size // STEP) * STEP, max_envs)
    streams = np.random.SeedSequence(seed).generate_state(passes + len(game.seats), np.uint64).tolist()
    core = _core(json.dumps(game.to_json()), size, device)
    used = [who[:, place].unique() for place in range(len(game.seats))]  # indices of the policies that play
    if game.shared:
        used = [who.unique()] * len(game.seats)
    with torch.no_grad():
        seats = [
            SeatPolicies([policies[seat.role][index] for index in used[place].tolist()], core, seat, budget)
            for place, seat in enumerate(game.seats)
        ]
        for seat, stream in zip(seats, streams[passes:], strict=True):
            seat.seed(stream)
        chosen = torch.stack(
            [torch.searchsorted(each, who[:, place].contiguous()) for place, each in enumerate(used)], 1
        )
        orders = _orders(game)
        first = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(worlds, minlength=len(who)).cumsum(0)])
        number = torch.arange(len(worlds)) - first[worlds]  # of an episode among those of its matchup
        for index in range(passes):
            part = slice(index * size, (index + 1) * size)
            matchup, order = worlds[part], orders[number[part] % len(orders)]
            assigned = torch.full((size, len(game.seats)), NO_POLICY)  # surplus worlds of the last pass stay empty
            assigned[: len(matchup)] = chosen[matchup].gather(1, order)
            for place, seat in enumerate(seats):
                seat.assign(assigned[:, place])
            earned = _simulate_batch(core, seats, len(matchup), streams[index], greedy, max_steps)
            earned = torch.empty_like(earned).scatter_(1, order, earned)  # from seats back to the matchup's policies
            _credit(results, matchup, earned, draw_margin)
    return results


@functools.lru_cache(maxsize=4)
def _core(game: str, size: int, device: str) -> Core:
    """Return worlds without autoreset, cached because building them takes longer than an episode of Kuhn poker."""
    return Game.from_json(json.loads(game), "game").core(size, device, autoreset="disabled")


def _simulate_batch(
    core: Core, seats: Sequence[SeatPolicies], count: int, seed: int, greedy: bool, max_steps: int
) -> Tensor:
    """Simulate one episode in the first `count` worlds; return the returns (count, S) float64 on the host."""
    obs, info = core.reset(seed=seed)
    action = torch.zeros_like(core.action_buffer)
    every = 1 if core.device.type == "cpu" else 16  # steps between two synchronizations with the device
    for step in range(1, max_steps + 1):
        if count < core.num_envs:
            action = core.sample_actions()  # of worlds without policies
        for seat in seats:
            seat.act(obs, info, greedy, into=action)
        obs, _, _, _, info = core.step(action)
        if step % every == 0 and not bool(info["alive"][:count].any()):
            break
    else:
        if unfinished := int(info["alive"][:count].any(1).sum()):
            raise GpuEnvsError(
                f"{core.id}: {unfinished} of {count} episodes lasted over {max_steps} steps; raise max_steps"
            )
    returns = info["episode_return"][:count].double()
    return torch.stack([returns[:, seat.agents.rows].sum(1) for seat in seats], 1).cpu()


def _credit(results: MatchupResults, matchup: Tensor, earned: Tensor, draw_margin: float) -> None:
    """Add the returns (W, S) of worlds with the matchups (W,) to the results."""
    results.count.index_add_(0, matchup, torch.ones_like(matchup))
    results.total.index_add_(0, matchup, earned)
    results.square.index_add_(0, matchup, earned.square())
    results.score.index_add_(0, matchup, scores(earned, draw_margin))


def scores(earned: Tensor, draw_margin: float | Tensor = 0.0) -> Tensor:
    """Return the scores (..., S) of returns (..., S): the share of the other seats with a lower return.

    Seats with an equal return count half. With two seats a win is 1, a draw 1/2 and a loss 0; `draw_margin` is
    the return difference (first minus second seat) that counts as a draw. A single seat has 1/2. NaN ranks equal to
    every return.
    """
    seats = earned.shape[-1]
    if seats == 2:
        won = 0.5 + 0.5 * (earned[..., 0] - earned[..., 1] - draw_margin).sign().nan_to_num(0.0)
        return torch.stack([won, 1.0 - won], -1)
    ahead = earned.unsqueeze(-1) - earned.unsqueeze(-2)  # difference to each other seat
    beaten = ahead.sign().nan_to_num(0.0).sum(-1)  # minus the seats with a higher return
    return 0.5 + 0.5 * beaten / max(seats - 1, 1)


def _orders(game: Game) -> Tensor:
    """Return the permutations of a matchup's policies over the seats, (orders, S)."""
    seats = range(len(game.seats))
    if not game.shared:
        return torch.tensor([list(seats)])
    if len(seats) <= 5:
        return torch.tensor(list(itertools.permutations(seats)))
    return torch.tensor([[(seat + by) % len(seats) for seat in seats] for by in seats])


def _zeros(matchups: int, seats: int) -> MatchupResults:
    return MatchupResults(
        torch.zeros(matchups, dtype=torch.int64),
        *(torch.zeros((matchups, seats), dtype=torch.float64) for _ in range(3)),
    )


def _check(
    game: Game,
    populations: Mapping[str, Sequence[PolicyProtocol]],
    matchups: Tensor | np.ndarray | Sequence[Sequence[int]],
    episodes: int | Tensor | np.ndarray | Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Return the matchups (K, S) and the matchup of each world (W,), ascending."""
    who = torch.as_tensor(matchups, dtype=torch.int64, device="cpu").reshape(-1, len(game.seats))
    for place, seat in enumerate(game.seats):
        size = len(populations.get(seat.role, ()))
        wrong = (who[:, place] < 0) | (who[:, place] >= size)
        if wrong.any():
            at = int(wrong.int().argmax())
            raise ConfigError(
                f"{game.env_id}: matchup {tuple(who[at].tolist())}: {seat.name}: expected a policy of 0 to {size - 1} "
                f"in the population {seat.role!r}"
            )
    count = torch.as_tensor(episodes, device="cpu")
    if (
        count.is_floating_point()
        or count.dtype == torch.bool
        or (count < 0).any()
        or count.shape not in ((), who[:, 0].shape)
    ):
        raise ConfigError(
            f"{game.env_id}: episodes: expected an int >= 0 or one for each matchup, got {episodes!r:.100}"
        )
    return who, torch.repeat_interleave(torch.arange(len(who)), count.long().expand(len(who)))

"""Matchups, played: what every seat earns, from one batched rollout over all of them.

Every world seats a matchup of its own, plays one episode of it and then waits for the others, so that short episodes
are not over-represented. Worlds have streams of their own, so estimates of two matchups are independent.
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

from gpu_envs.core import Core
from gpu_envs.errors import ConfigError, GpuEnvsError
from league.ensemble import BUDGET, NOBODY, Ensemble
from league.game import Game
from trainers.policy import Plays

MAX_ENVS = 16_384
"""Worlds at a time, unless told otherwise."""
STEP = 1024
"""Batches are multiples of it, so that few different ones have to be made."""


@dataclass(frozen=True)
class Results:
    """Sums over the episodes of K matchups with S seats each; on the host."""

    count: Tensor
    """(K,) int64, episodes."""
    total: Tensor
    """(K, S) float64, sum of what each seat's policy earned."""
    square: Tensor
    """(K, S) float64, sum of its squares."""
    score: Tensor
    """(K, S) float64, sum of scores: of two, 1 for a win and 1/2 for a draw; of more, the share of others behind."""

    @property
    def mean(self) -> Tensor:
        """(K, S), what each seat's policy earns in an episode; NaN without episodes."""
        return self.total / self.count[:, None]


@torch.no_grad()
def play_matchups(
    game: Game,
    populations: Mapping[str, Sequence[Plays]],
    matchups: Tensor | np.ndarray | Sequence[Sequence[int]],
    episodes: int | Tensor | np.ndarray | Sequence[int],
    seed: int,
    device: str = "cpu",
    max_envs: int = MAX_ENVS,
    *,
    greedy: bool = False,
    even: float = 0.0,
    max_steps: int = 100_000,
    budget: int = BUDGET,
) -> Results:
    """Plays matchups.

    Where the population is shared, the policies of a matchup take every order of the seats in turn, one episode after
    the other (more than five seats: only those that move all on by as many seats); what is earned is credited to the
    policy, whatever seat it sat in.

    Args:
        game: What is played.
        populations: Policies by role.
        matchups: (K, S), a policy for each seat: its place in the population of the seat's role.
        episodes: Of each matchup, one number or (K,).
        seed: Of worlds and samples. The same call gives the same results.
        device: Where it is played.
        max_envs: Worlds at a time, at most.
        greedy: Policies take their most probable actions instead of samples.
        even: Of two seats: by how much the first earns more than the second in a draw.
        max_steps: Raise GpuEnvsError if an episode has not ended by then.
        budget: Of the ensemble of each seat, see there.

    Raises:
        ConfigError: A matchup of policies that are not there, or episodes that are not whole numbers >= 0.
    """
    who, worlds = _check(game, populations, matchups, episodes)
    results = _zeros(len(who), len(game.seats))
    if not len(worlds):
        return results
    passes = -(-len(worlds) // max_envs)
    size = -(-len(worlds) // passes)  # of a pass
    size = min(-(-size // STEP) * STEP, max_envs)
    streams = np.random.SeedSequence(seed).generate_state(passes + len(game.seats), np.uint64).tolist()
    core = _core(json.dumps(game.to_json()), size, device)
    asked = [who[:, place].unique() for place in range(len(game.seats))]  # of a population the policies that play
    if game.shared:
        asked = [who.unique()] * len(game.seats)
    ensembles = [
        Ensemble([populations[seat.role][index] for index in asked[place].tolist()], core, seat, budget)
        for place, seat in enumerate(game.seats)
    ]
    for ensemble, stream in zip(ensembles, streams[passes:], strict=True):
        ensemble.seed(stream)
    chosen = torch.stack([torch.searchsorted(each, who[:, place].contiguous()) for place, each in enumerate(asked)], 1)
    orders = _orders(game)
    first = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(worlds, minlength=len(who)).cumsum(0)])
    number = torch.arange(len(worlds)) - first[worlds]  # of an episode among those of its matchup
    for index in range(passes):
        part = slice(index * size, (index + 1) * size)
        matchup, order = worlds[part], orders[number[part] % len(orders)]
        sitting = torch.full((size, len(game.seats)), NOBODY)  # where there are worlds too many
        sitting[: len(matchup)] = chosen[matchup].gather(1, order)
        for place, ensemble in enumerate(ensembles):
            ensemble.seat(sitting[:, place])
        earned = _play(core, ensembles, len(matchup), streams[index], greedy, max_steps)
        earned = torch.empty_like(earned).scatter_(1, order, earned)  # from seats back to who sat there
        _credit(results, matchup, earned, even)
    return results


@functools.lru_cache(maxsize=4)
def _core(game: str, size: int, device: str) -> Core:
    """Worlds whose episodes end for good; kept, as it takes longer to make them than to play Kuhn poker in them."""
    return Game.from_json(json.loads(game), "game").core(size, device, autoreset="disabled")


def _play(core: Core, ensembles: Sequence[Ensemble], count: int, seed: int, greedy: bool, max_steps: int) -> Tensor:
    """One episode in the first worlds; returns what each seat earned (count, S) float64, on the host."""
    obs, info = core.reset(seed=seed)
    action = torch.zeros_like(core.action_buffer)
    every = 1 if core.device.type == "cpu" else 16  # steps between two waits for the device
    for step in range(1, max_steps + 1):
        if count < core.num_envs:
            action = core.sample_actions()  # where nobody sits
        for ensemble in ensembles:
            ensemble.act(obs, info, greedy, into=action)
        obs, _, _, _, info = core.step(action)
        if step % every == 0 and not bool(info["alive"][:count].any()):
            break
    else:
        if going_on := int(info["alive"][:count].any(1).sum()):
            raise GpuEnvsError(
                f"{core.id}: {going_on} of {count} episodes lasted over {max_steps} steps; raise max_steps"
            )
    returns = info["episode_return"][:count].double()
    return torch.stack([returns[:, ensemble.agents.rows].sum(1) for ensemble in ensembles], 1).cpu()


def _credit(results: Results, matchup: Tensor, earned: Tensor, even: float) -> None:
    """Adds the returns (W, S) of worlds that played the matchups (W,)."""
    results.count.index_add_(0, matchup, torch.ones_like(matchup))
    results.total.index_add_(0, matchup, earned)
    results.square.index_add_(0, matchup, earned.square())
    results.score.index_add_(0, matchup, scores(earned, even))


def scores(earned: Tensor, even: float | Tensor = 0.0) -> Tensor:
    """Scores (..., S) of what seats earned (..., S): the share of the others that earned less, those equal half.

    Of two seats it is 1 for a win, 1/2 for a draw and 0 for a loss; `even` is what the first earns more in a draw. A
    seat alone has 1/2. What is not a number ranks as equal to all.
    """
    seats = earned.shape[-1]
    if seats == 2:
        won = 0.5 + 0.5 * (earned[..., 0] - earned[..., 1] - even).sign().nan_to_num(0.0)
        return torch.stack([won, 1.0 - won], -1)
    ahead = earned.unsqueeze(-1) - earned.unsqueeze(-2)  # of whom, by how much
    beaten = ahead.sign().nan_to_num(0.0).sum(-1)  # less those that beat it
    return 0.5 + 0.5 * beaten / max(seats - 1, 1)


def _orders(game: Game) -> Tensor:
    """Who of a matchup sits in each seat, (orders, S)."""
    seats = range(len(game.seats))
    if not game.shared:
        return torch.tensor([list(seats)])
    if len(seats) <= 5:
        return torch.tensor(list(itertools.permutations(seats)))
    return torch.tensor([[(seat + by) % len(seats) for seat in seats] for by in seats])


def _zeros(matchups: int, seats: int) -> Results:
    return Results(
        torch.zeros(matchups, dtype=torch.int64),
        *(torch.zeros((matchups, seats), dtype=torch.float64) for _ in range(3)),
    )


def _check(
    game: Game,
    populations: Mapping[str, Sequence[Plays]],
    matchups: Tensor | np.ndarray | Sequence[Sequence[int]],
    episodes: int | Tensor | np.ndarray | Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Matchups (K, S), and which of them each of all worlds plays (W,), ascending."""
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

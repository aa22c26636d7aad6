"""Simulation of matchups: the return of every seat, from one batched rollout over all matchups.

Every world simulates one episode of its own matchup and then idles, so that short episodes are not over-represented.
Every world has its own random stream, so the estimates of two matchups are independent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.runtime.core import Core
from league.game import Game
from league.matchups.kernel_matchups import KernelMatchups, Worlds, num_parameters, plays_in_kernels
from league.matchups.lineups import Lineups, MatchupAdder
from trainers.base.agent_group import agent_rows_of
from trainers.base.learner_spec import ENGINES
from trainers.base.torch_threads import torch_threads
from trainers.evaluation.kernel_episodes import KernelPlayers
from trainers.models.policy import PolicyProtocol
from trainers.models.policy_set import PolicySet
from warp_kernels.framework.policies import NO_POLICY

MAX_ENVS = 16_384
"""Default of the largest number of simultaneous worlds."""
STEP = 1024
"""Batch sizes are multiples of this number, so that few different batches have to be built."""
HOST_STEP, MAX_HOST_ENVS = 16, 256
"""The same two numbers for worlds in plain Python, which play one after the other and take long to make."""
MIN_MATCHUP_OPERATIONS = 10**7
"""Fewest operations of the networks, if every seat decided once per episode, for which kernels are compiled."""


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
    engine: str = "auto",
) -> MatchupResults:
    """Simulate episodes of matchups and return the sums of their returns.

    Matchups of dense networks, random policies and mixtures of them are played inside the kernels, see `engine`: all
    matchups of a batch are one launch.

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
        engine: "kernel" plays inside the kernels wherever they support all policies of a matchup, "torch" never, and
            "auto" where so many episodes are worth the compilation, on a GPU only with networks up to 32 wide.

    Raises:
        ConfigError: A policy of a matchup does not exist or does not fit its seat, or an entry of `episodes` is not an
            integer >= 0.
        GpuEnvsError: An episode has more than `max_steps` steps.
    """
    if engine not in ENGINES:
        raise ConfigError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
    indices, count = _check(game, matchups, episodes)
    loaded = _loaded(game, policies, indices)
    sums, games = np.zeros((3, *indices.shape)), int(count.sum())
    inside = _in_kernels(game, indices, count, games, loaded, engine, torch.device(device))
    of_kernels = games if inside is count else int(inside.sum())
    for kind, total in ((SeatMatchups, games - of_kernels), (KernelMatchups, of_kernels)):
        if not total:
            continue
        share = inside if kind is KernelMatchups else count - inside
        lineups = Lineups.of(game, indices, share)
        step, largest = (STEP, max_envs) if game.has_kernels else (HOST_STEP, min(max_envs, MAX_HOST_ENVS))
        passes = -(-total // largest)
        size = -(-total // passes)  # of a pass
        size = min(-(-size // step) * step, largest)
        # matchups in kernels and others have different random streams
        entropy = np.random.SeedSequence(seed, spawn_key=() if kind is SeatMatchups else (1,))
        seeds = entropy.generate_state(passes + len(game.seats), np.uint64).tolist()
        playing = loaded if total == games else _loaded(game, policies, indices[share > 0])
        with torch_threads(torch.get_num_threads() if kind is SeatMatchups else 1):
            worlds = _worlds(game, size, device)
            simulator = kind(game, worlds, playing, seeds[passes:])
            for number in range(passes):
                part = lineups if passes == 1 else lineups.part(number * size, (number + 1) * size)
                earned = simulator.simulate(part, seeds[number], greedy, max_steps)
                worlds.adder.add(sums, part, earned, draw_margin)
    return MatchupResults(*map(torch.from_numpy, (count, *sums)))


_CACHE: OrderedDict[tuple[object, ...], Worlds] = OrderedDict()
"""Worlds of the last games and sizes."""
MAX_CACHED = 4
"""Largest number of cached worlds."""


def _worlds(game: Game, size: int, device: str) -> Worlds:
    """Return worlds without autoreset, cached because building them takes longer than an episode of Kuhn poker."""
    key = (game.env_id, game.seats, repr(sorted(game.env.items())), size, device)
    if key not in _CACHE:
        core = game.core(size, device, autoreset="disabled")
        rows = [agent_rows_of(core, seat.members) for seat in game.seats]
        _CACHE[key] = Worlds(core, rows, MatchupAdder(size, len(rows)), KernelPlayers(core))
    _CACHE.move_to_end(key)
    while len(_CACHE) > MAX_CACHED:
        _CACHE.popitem(last=False)
    return _CACHE[key]


def _loaded(
    game: Game, populations: Mapping[str, Sequence[PolicyProtocol]], indices: np.ndarray
) -> dict[str, dict[int, PolicyProtocol]]:
    """Return the policies in matchups (K, S) by role and index, ascending; raise ConfigError if one does not exist."""
    used: dict[str, set[int]] = {}
    for seat, column in zip(game.seats, indices.T.tolist(), strict=True):
        numbers, size = set(column), len(populations.get(seat.role, ()))
        if numbers and not 0 <= min(numbers) <= max(numbers) < size:
            wrong = next(row for row, index in enumerate(column) if not 0 <= index < size)
            raise ConfigError(
                f"{game.env_id}: matchup {tuple(indices[wrong].tolist())}: {seat.name}: expected a policy of 0 to "
                f"{size - 1} in the population {seat.role!r}"
            )
        used[seat.role] = used.get(seat.role, numbers) | numbers
    return {role: {index: populations[role][index] for index in sorted(numbers)} for role, numbers in used.items()}


def _in_kernels(
    game: Game,
    indices: np.ndarray,
    count: np.ndarray,
    games: int,
    policies: Mapping[str, Mapping[int, PolicyProtocol]],
    engine: str,
    device: torch.device,
) -> np.ndarray:
    """Return the numbers of episodes (K,) that are played inside the kernels; `count` itself, if all are."""
    if engine == "kernel" and not game.has_kernels:
        raise ConfigError(
            f"{game.env_id}: engine = 'kernel': expected an environment with rules for kernels; use 'auto'"
        )
    if engine == "torch" or not game.has_kernels:
        return np.zeros_like(count)
    excluded: dict[str, list[int]] = {role: [] for role in policies}
    largest = 0  # of the networks
    for role, pool in policies.items():
        for index, policy in pool.items():
            if plays_in_kernels(policy, device, engine):
                largest = max(largest, num_parameters(policy))
            else:
                excluded[role].append(index)
    steps = 2 * largest * games * len(game.seats)
    if not steps or (engine == "auto" and steps < MIN_MATCHUP_OPERATIONS):
        return np.zeros_like(count)
    result = count
    for column, seat in enumerate(game.seats):
        if excluded[seat.role]:
            result = np.where(np.isin(indices[:, column], excluded[seat.role]), 0, result)
    return result


class SeatMatchups:
    """Policies of a game's seats that act between steps, and what plays their matchups."""

    def __init__(
        self,
        game: Game,
        worlds: Worlds,
        policies: Mapping[str, Mapping[int, PolicyProtocol]],
        seeds: Sequence[int],
    ) -> None:
        """Copy the policies.

        Args:
            game: Game to play.
            worlds: Worlds that play the matchups.
            policies: Policies by role and index.
            seeds: Random seeds of the seats' policies.

        Raises:
            ConfigError: A policy does not fit its seat.
        """
        self.core: Core = worlds.core
        self._places = [_places(policies[seat.role]) for seat in game.seats]
        self._seats: list[PolicySet] = []
        for seat, seed in zip(game.seats, seeds, strict=True):
            worlds.check(policies[seat.role], seat)
            self._seats.append(PolicySet([*policies[seat.role].values()], self.core, [seat.members], seed))

    @torch.no_grad()
    def simulate(self, lineups: Lineups, seed: int, greedy: bool, max_steps: int) -> np.ndarray:
        """Play the episodes of lineups, one in each of the first W worlds.

        Args:
            lineups: Policies of the seats, and numbers of episodes.
            seed: Random seed of the environments.
            greedy: Take the most probable actions instead of samples.
            max_steps: Largest number of steps of an episode.

        Returns:
            (W, S) float32 or float64, return of every seat, on the host.

        Raises:
            GpuEnvsError: An episode has more than `max_steps` steps.
        """
        core, assigned = self.core, torch.from_numpy(lineups.policies[lineups.of_worlds])
        count = len(assigned)
        for column, (seat, places) in enumerate(zip(self._seats, self._places, strict=True)):
            slots = torch.full((core.num_envs,), NO_POLICY)  # surplus worlds stay empty
            slots[:count] = places[assigned[:, column]]
            seat.assign(slots)
        obs, info = core.reset(seed=seed)
        action = torch.zeros_like(core.action_buffer)
        interval = 1 if core.device.type == "cpu" else 16  # steps between two synchronizations with the device
        for step in range(1, max_steps + 1):
            if count < core.num_envs:
                action = core.sample_actions()  # of worlds without policies
            for seat in self._seats:
                seat.act(obs, info, action, greedy)
            obs, _, _, _, info = core.step(action)
            if step % interval == 0 and not bool(info["alive"][:count].any()):
                break
        else:
            if unfinished := int(info["alive"][:count].any(1).sum()):
                raise GpuEnvsError(
                    f"{core.id}: {unfinished} of {count} episodes lasted over {max_steps} steps; raise max_steps"
                )
        returns = info["episode_return"][:count].double()
        return torch.stack([returns[:, seat.agents[0].rows].sum(1) for seat in self._seats], 1).cpu().numpy()


def _places(policies: Mapping[int, PolicyProtocol]) -> Tensor:
    """Return the place of every index among the given ones."""
    places = torch.full((max(policies) + 1,), NO_POLICY)
    places[list(policies)] = torch.arange(len(policies))
    return places


def scores(earned: Tensor, draw_margin: float | Tensor = 0.0) -> Tensor:
    """Return the scores (..., S) of returns (..., S): the share of the other seats with a lower return.

    Seats with an equal return count half. With two seats a win is 1, a draw 1/2 and a loss 0; `draw_margin` is
    the return difference (first minus second seat) that counts as a draw. A single seat has 1/2. NaN ranks equal to
    every return.
    """
    seats = earned.shape[-1]
    if seats == 2:
        ahead = (earned[..., 0] - earned[..., 1] - draw_margin).sign_().nan_to_num_(0.0)
        return torch.stack([ahead, -ahead], -1).mul_(0.5).add_(0.5)
    ahead = earned.unsqueeze(-1) - earned.unsqueeze(-2)  # difference to each other seat
    beaten = ahead.sign().nan_to_num(0.0).sum(-1)  # minus the seats with a higher return
    return 0.5 + 0.5 * beaten / max(seats - 1, 1)


def pair_scores(earned: Tensor) -> Tensor:
    """Return the scores (..., S (S - 1) / 2) of pairs of seats for returns (..., S) of more than two seats.

    The pairs are (0, 1), (0, 2), ..., (1, 2), ... A score is 1 if the return of the first seat of the pair is higher,
    1/2 if both are equal, else 0. Two seats have none, because `scores` has theirs.
    """
    seats = earned.shape[-1]
    if seats < 3:
        return earned[..., :0]
    first, second = torch.triu_indices(seats, seats, 1, device=earned.device)
    return (earned[..., first] - earned[..., second]).sign_().nan_to_num_(0.0).mul_(0.5).add_(0.5)


def _check(
    game: Game,
    matchups: Tensor | np.ndarray | Sequence[Sequence[int]],
    episodes: int | Tensor | np.ndarray | Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the matchups (K, S) and their numbers of episodes (K,), int64."""
    array = matchups.cpu() if isinstance(matchups, Tensor) else matchups
    indices = np.asarray(array, np.int64).reshape(-1, len(game.seats))
    if type(episodes) is int and episodes >= 0:
        return indices, np.full(len(indices), episodes)
    count = np.asarray(episodes.cpu() if isinstance(episodes, Tensor) else episodes)
    if count.dtype.kind not in "iu" or count.shape not in ((), (len(indices),)) or (count < 0).any():
        raise ConfigError(
            f"{game.env_id}: episodes: expected an int >= 0 or one for each matchup, got {episodes!r:.100}"
        )
    return indices, np.zeros(len(indices), np.int64) + count.astype(np.int64)

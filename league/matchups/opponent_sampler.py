"""Sample opponents at the start of every episode, and let their policies act."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu_envs.errors import CheckpointError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import MatchupDraw
from gpu_envs.runtime.rollout.trace import RolloutTrace
from league.game import Game
from league.matchups.episode_tally import EpisodeTally
from league.matchups.kernel_matchups import agent_numbers, plays_in_kernels
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution, check_draw, filled
from league.matchups.matchups import pair_scores, scores
from league.policies.mixture import MixturePolicy
from league.policies.team import check_seat_policies
from trainers.base.agent_group import agent_rows_of
from trainers.base.random_streams import SEEDS, derive_seed
from trainers.base.serialization import check_tensors
from trainers.base.state import State, restore_generator, select_prefix
from trainers.evaluation.kernel_episodes import Networks
from trainers.models.kernel_networks import kernel_policies
from trainers.models.policy import PolicyProtocol
from trainers.models.policy_set import PolicySet
from warp_kernels.framework.policies import NO_POLICY

MAX_UNUSED_ROWS = 4096
"""Number of matchups in the tables that the distribution no longer has, from which unused ones are removed."""
DRAW_STREAM = 1007
"""Index of the random stream of matchups in kernels, see `derive_seed`; the streams of seats have the first indices."""


class OpponentSampler:
    """Opponents of a training (see `trainers.runner.opponents`): the matchups of all worlds, and their results.

    Every world samples a matchup at its reset and keeps it for the whole episode, across rollouts and across changes of
    the distribution. Results are summed on the device, and read once per iteration.
    """

    def __init__(
        self,
        core: Core,
        game: Game,
        draw: MatchupDistribution,
        pools: Mapping[str, Sequence[PolicyProtocol]],
        seed: int = 0,
        draw_margin: float = 0.0,
    ) -> None:
        """Sample the first matchup of every world.

        Args:
            core: Worlds of the game, with autoreset.
            game: Game with the seats.
            draw: Distribution over matchups. Its learners' roles are the roles with learners, also later.
            pools: Policies by role, in the order of `MatchupDistribution.matchups`. Roles without sampled policies can
                be omitted.
            seed: Random seed of matchups and of the policies' actions.
            draw_margin: Two seats: return difference (first minus second seat) that counts as a draw.

        Raises:
            ConfigError: The distribution does not fit the game or the pools.
        """
        self.core: Core = core
        self.game: Game = game
        self.seed: int = seed
        self.draw_margin: Tensor = torch.tensor(
            draw_margin, dtype=torch.float64, device=core.device
        )  # a captured CUDA graph reads it
        self.roles: tuple[str, ...] = tuple(  # with a learner
            role
            for role in game.roles
            if draw.matchups.shape[1] == len(game.seats)
            and bool((draw.matchups[:, list(game.seats_of(role))] == LEARNER).any())
        )
        device, seats = core.device, len(game.seats)
        shape = (core.num_envs, core.num_agents)
        self.generator: torch.Generator = torch.Generator(device).manual_seed(seed)
        self.side: Tensor = torch.zeros(core.num_agents, dtype=torch.int64, device=device)  # the seat of each agent
        for index, seat in enumerate(game.seats):
            self.side[agent_rows_of(core, seat.members)] = index
        self.drawn: Tensor = torch.zeros(core.num_envs, dtype=torch.int64, device=device)  # row of each world's matchup
        self.assigned: Tensor = torch.full((core.num_envs, seats), LEARNER, device=device)  # matchup of each world
        self.learns: Tensor = torch.zeros(shape, dtype=torch.bool, device=device)
        self.rows: dict[tuple[tuple[int, ...], tuple[bool, ...]], int] = {}  # by matchup and learning seats
        self.stale = True  # the seats' policies are not assigned yet
        self.kernel_version: int = 0
        self._action_seed = seed
        self._draw_seed = torch.tensor([derive_seed(seed, DRAW_STREAM)], device=device)
        self.version, self.pools = 0, {role: list(pools.get(role, ())) for role in game.roles}
        self.seat_policies: dict[int, PolicySet] = {}  # policies that act between steps, by seat
        # by row: matchup, learning agents, cumulative probability, and the sums of `EpisodeTally`
        self.matchups, self.learning, self.cumulative = self.assigned[:0], self.learns[:0], self.drawn[:0]
        pairs = pair_scores(torch.zeros(seats)).numel()
        self.sums = torch.zeros((0, 2 + 3 * seats + pairs), dtype=torch.float64, device=device)
        self.replace(draw)
        self._sample(torch.ones(core.num_envs, dtype=torch.bool, device=device))

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of the learners, see `Game.learners_of`."""
        return tuple(name for role in self.roles for name in self.game.learners_of(role))

    @property
    def acting_core(self) -> Core:
        """Worlds in which opponents act between steps."""
        return self.core

    def prepare(self) -> bool:
        """Copy the weights of opponents for a rollout between steps, and return whether it waits: False."""
        copied = [policies.prepare() for policies in self.seat_policies.values()]
        if any(copied):
            self.version, self.stale = self.version + 1, True
        return False

    @property
    def generators(self) -> list[torch.Generator]:
        """Random streams of matchups, and of the actions of policies that act between steps."""
        drawn = [generator for policies in self.seat_policies.values() for generator in policies.generators]
        return list({id(generator): generator for generator in (self.generator, *drawn)}.values())

    def act(self, core: Core, info: Mapping[str, Tensor], into: Tensor) -> None:
        """Write the actions of all agents without a learner into the actions of all agents (E, A[, K])."""
        self.prepare()
        for seat, policies in self.seat_policies.items():
            if self.stale or core.device.type != "cpu":  # on a GPU always: every replay of a CUDA graph starts here
                policies.assign(self.assigned[:, seat])
            policies.act(core.obs, info, into)
        self.stale = False

    def observe(self, core: Core, info: Mapping[str, Tensor], restarted: Tensor) -> None:
        """Count the finished episodes, and sample matchups of the restarted worlds (E,) bool."""
        if core.device.type == "cpu" and not self._any_restarted(restarted):
            return
        ended = restarted.unsqueeze(1)
        earned = torch.zeros_like(self.assigned, dtype=torch.float64).index_add_(
            1, self.side, info["episode_return"].double()
        )
        self.sums[:, 1:].index_add_(0, self.drawn, self._sums_of(ended, earned))
        self._sample(restarted)

    def _sample(self, restarted: Tensor) -> None:
        """Sample a matchup for the worlds (E,) bool."""
        # the first row whose cumulative probability is greater
        rows = torch.searchsorted(self.cumulative, self._uniform(), right=True)
        self.drawn.copy_(torch.where(restarted, rows, self.drawn))
        self.sums[:, 0].index_add_(0, self.drawn, restarted.double())
        self._update_assigned()

    def _any_restarted(self, restarted: Tensor) -> bool:
        """Return whether any world was reset, (E,) bool."""
        return bool(restarted.any())

    def _uniform(self) -> Tensor:
        """Return a uniform number per world (E,) float64."""
        count, device = self.acting_core.num_envs, self.core.device
        return torch.rand(count, generator=self.generator, dtype=torch.float64, device=device)

    def _update_assigned(self) -> None:
        """Update matchups and learning agents from the rows of the worlds."""
        torch.index_select(self.matchups, 0, self.drawn, out=self.assigned)
        torch.index_select(self.learning, 0, self.drawn, out=self.learns)
        self.stale = True

    def store(self, trace: RolloutTrace, matchup: Tensor) -> Tensor:
        """Count the episodes of a rollout in kernels, see `trainers.runner.opponents`."""
        ended, shape = trace.restarted.unsqueeze(-1), (*trace.restarted.shape, len(self.game.seats))
        earned = trace.episode_return.new_zeros(shape, dtype=torch.float64)
        earned.index_add_(2, self.side, trace.episode_return.double())
        played = trace.matchup.long()
        self.sums[:, 1:].index_add_(0, played.flatten(), self._sums_of(ended, earned).flatten(0, 1))
        self.drawn.copy_(matchup)
        started = torch.cat([played[1:], self.drawn.unsqueeze(0)])
        self.sums[:, 0].index_add_(0, started.flatten(), trace.restarted.flatten().double())
        self._update_assigned()
        return self.learning[played]

    def _sums_of(self, ended: Tensor, earned: Tensor) -> Tensor:
        """Return what steps add to `sums` after its first column, for ended episodes (..., 1) and returns (..., S)."""
        parts = [ended, earned, earned.square(), scores(earned, self.draw_margin), pair_scores(earned)]
        return torch.cat(parts, -1).masked_fill_(~ended, 0.0)

    # ---------------------------------------------------------------- between rollouts

    def replace(
        self,
        draw: MatchupDistribution,
        pools: Mapping[str, Sequence[PolicyProtocol]] | None = None,
        draw_margin: float | None = None,
    ) -> None:
        """Replace the distribution, from which every world samples at its next reset.

        Args:
            draw: Distribution with learners of no other roles than the first one.
            pools: Policies by role, if they changed: longer lists, or other policies at the same indices. These replace
                the earlier ones at once, within an episode.
            draw_margin: Return difference that counts as a draw; None: unchanged.

        Raises:
            ConfigError: The distribution does not fit the game or the pools; nothing has changed.
        """
        pools = {**self.pools, **{role: list(pool) for role, pool in (pools or {}).items()}}
        check_draw(self.game, draw, pools, self.pools, self.roles)
        keys = _keys(draw.matchups, filled(draw.learns))
        if len(self.rows) >= MAX_UNUSED_ROWS + len(keys):
            self._remove_unused_rows(keys)
        for key in keys:
            self.rows.setdefault(key, len(self.rows))
        self._update_tables()
        rows = torch.tensor([self.rows[key] for key in keys])
        weight = torch.zeros(len(self.cumulative), dtype=torch.float64).index_add_(0, rows, filled(draw.probability))
        self.cumulative.copy_(weight.cumsum(0) / weight.cumsum(0)[-1])
        for index, seat in enumerate(self.game.seats):
            self._update_seat(index, pools[seat.role], bool((draw.matchups[:, index] != LEARNER).any()))
        self.pools: dict[str, list[PolicyProtocol]] = pools
        self.kernel_version += 1
        if draw_margin is not None:
            self.draw_margin.fill_(draw_margin)

    def reseed(self, seed: int) -> None:
        """Seed the random streams of the policies' actions, not the stream of the matchups."""
        for seat, policies in self.seat_policies.items():
            policies.seed(derive_seed(seed, 1 + seat))
        self._action_seed = seed
        self.kernel_version += 1

    def kernel_table(self, learners: Sequence[str]) -> tuple[list[KernelPolicy], Tensor] | None:
        """Return the opponents for rollouts in kernels, see `trainers.runner.opponents`."""
        game, device, rows = self.game, self.core.device, self.matchups.cpu()
        networks, index = Networks(len(learners)), torch.empty((len(rows), len(self.side)), dtype=torch.int64)
        for column, seat in enumerate(game.seats):
            agents, numbers = agent_rows_of(self.core, seat.members), list[list[int]]()  # by policy
            indices, inverse = rows[:, column].unique(return_inverse=True)
            for opponent in indices.tolist():
                numbers.append([NO_POLICY] * len(agents))
                if opponent == LEARNER:
                    for part, name in zip(game.parts[column], game.learners_of(seat.role), strict=True):
                        for agent in part.places:
                            numbers[-1][agent] = learners.index(name) if name in learners else NO_POLICY
                    continue
                policy = self.pools[seat.role][opponent]
                if isinstance(policy, MixturePolicy) or not plays_in_kernels(policy, device):
                    return None
                numbers[-1] = agent_numbers(networks, policy, len(agents))
            index[:, agents] = torch.tensor(numbers)[inverse]
        return kernel_policies(networks.members, device, self._action_seed % SEEDS), index

    def read(self) -> EpisodeTally:
        """Return and clear the sums since the last call; this is a host synchronization."""
        sums = self._total(self.sums[: len(self.rows)]).to("cpu", copy=True)
        self.sums.zero_()
        active = sums[:, :2].any(1)
        matchups, learns = self._table
        (started, count), seats = sums[active, :2].long().T, len(self.game.seats)
        by_seat = sums[active, 2:].split([seats, seats, seats, sums.shape[1] - 2 - 3 * seats], 1)
        return EpisodeTally(matchups[active], learns[active], started, count, *by_seat)

    def _total(self, sums: Tensor) -> Tensor:
        """Return the sums of all processes that train together."""
        return sums

    def state_dict(self) -> State:
        """Return matchups, distribution, sums since the last `read`, random streams and hidden states.

        Stored states have these names: "kept" are the sums, "ensemble" the policies of a seat.
        """
        count, (matchups, learns) = len(self.rows), self._table
        state: State = {"matchups": matchups, "learns": learns, "drawn": self.drawn.clone()}
        state |= {"cumulative": self.cumulative[:count].clone(), "kept": self.sums[:count].clone()}
        state["generator"] = self.generator.get_state()
        for seat, policies in self.seat_policies.items():
            state |= {f"ensemble.{seat}.{name}": value for name, value in policies.state_dict().items()}
        return state

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`, with equal or larger pools; raise CheckpointError if it does not fit."""
        listed, sums, seats = state.get("matchups"), state.get("kept"), len(self.game.seats)
        count = len(listed) if isinstance(listed, Tensor) else 0
        if isinstance(sums, Tensor) and sums.shape == (count, 2 + 3 * seats):  # before pairs of seats were counted
            sums = pad(sums, (0, self.sums.shape[1] - 2 - 3 * seats))
        like = {
            "matchups": self.assigned.new_zeros((count, seats)),
            "learns": self.learns.new_zeros((count, seats)),
            "drawn": self.drawn,
            "cumulative": self.cumulative.new_zeros(count),
            "kept": self.sums.new_zeros((count, self.sums.shape[1])),
            "generator": self.generator.get_state(),
        }
        tensors = check_tensors("opponents", {**state, "kept": sums}, like)
        for seat, highest in zip(self.game.seats, tensors["matchups"].amax(0).tolist(), strict=True):
            if highest >= (size := len(self.pools[seat.role])):
                raise CheckpointError(
                    f"opponents: seat {seat.name}: expected more than {highest} policies, got a pool of {size}"
                )
        drawn = tensors["drawn"]
        if tensors["matchups"].min() < LEARNER or drawn.min() < 0 or drawn.max() >= count:
            raise CheckpointError(f"opponents: expected matchups >= {LEARNER}, drawn in [0, {count}), got others")
        restore_generator("opponents generator", self.generator, tensors["generator"])
        self.rows = {key: row for row, key in enumerate(_keys(tensors["matchups"], tensors["learns"]))}
        self._update_tables()
        self.cumulative.fill_(1.0)[: len(self.rows)].copy_(tensors["cumulative"])
        self.sums.zero_()[: len(self.rows)].copy_(tensors["kept"])
        self.drawn.copy_(tensors["drawn"])
        for index, seat in enumerate(self.game.seats):
            self._update_seat(index, self.pools[seat.role], bool((tensors["matchups"][:, index] != LEARNER).any()))
        self._update_assigned()
        self.kernel_version += 1
        for index, policies in self.seat_policies.items():
            policies.load_state_dict(select_prefix(state, f"ensemble.{index}."))

    def _remove_unused_rows(self, keys: Iterable[tuple[tuple[int, ...], tuple[bool, ...]]]) -> None:
        """Remove rows that are not among the keys, that no world plays, and that have no sums.

        With many seats a distribution has thousands of rows, and a league would collect the rows of all its iterations.
        """
        used = torch.zeros_like(self.cumulative).index_fill_(0, self.drawn, 1.0)
        used += self.sums[:, :2].any(1)
        unused = set(self._total(used).eq(0).nonzero().flatten().tolist()) - {self.rows.get(key) for key in keys}
        rows = torch.tensor([row for row in self.rows.values() if row not in unused], device=self.core.device)
        self.rows = {key: row for row, key in enumerate(key for key, row in self.rows.items() if row not in unused)}
        self.drawn.copy_(torch.searchsorted(rows, self.drawn))
        sums = self.sums[rows]
        self.sums.zero_()[: len(rows)].copy_(sums)
        self.matchups.fill_(LEARNER)  # so that kernels do not keep the policies of removed rows

    def _update_tables(self) -> None:
        """Update the tables on the device from `rows`; enlarge them if necessary."""
        device, seats, capacity = self.core.device, len(self.game.seats), len(self.cumulative)
        if len(self.rows) > capacity:
            capacity, earlier = max(64, 1 << (len(self.rows) - 1).bit_length()), self.sums
            self.matchups: Tensor = torch.full((capacity, seats), LEARNER, device=device)
            self.learning: Tensor = torch.zeros((capacity, len(self.side)), dtype=torch.bool, device=device)
            self.cumulative: Tensor = torch.ones(capacity, dtype=torch.float64, device=device)
            self.sums: Tensor = torch.zeros((capacity, earlier.shape[1]), dtype=torch.float64, device=device)
            self.sums[: len(earlier)].copy_(earlier)
            self.draw: MatchupDraw = MatchupDraw(self.cumulative, self._draw_seed)
            self.version += 1
        matchups, learns = (torch.tensor(column) for column in zip(*self.rows, strict=True))
        self._table: tuple[Tensor, Tensor] = matchups, learns  # of all rows, (R, S)
        self.matchups[: len(matchups)].copy_(matchups)
        self.learning[: len(learns)].copy_(learns[:, self.side.cpu()])

    def _update_seat(self, index: int, pool: Sequence[PolicyProtocol], needed: bool) -> None:
        """Set the pool of a seat, if a matchup needs one or it has one."""
        seat, current = self.game.seats[index], self.seat_policies.get(index)
        earlier = [] if current is None else current.policies
        if not (needed or earlier) or (len(pool) == len(earlier) and all(map(operator.is_, pool, earlier))):
            return
        check_seat_policies(dict(enumerate(pool)), self.core, seat)
        if current is not None:
            current.replace(pool)
            return
        seed = derive_seed(self.seed, 1 + index)
        self.seat_policies[index] = PolicySet(pool, self.acting_core, [seat.members], seed)


def _keys(matchups: Tensor, learns: Tensor) -> list[tuple[tuple[int, ...], tuple[bool, ...]]]:
    return [(tuple(matchup), tuple(flags)) for matchup, flags in zip(matchups.tolist(), learns.tolist(), strict=True)]

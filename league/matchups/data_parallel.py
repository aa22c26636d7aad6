"""Best-response training by several processes (ranks), each with a share of the worlds, see `trainers.base.shard`.

A world has the same matchups, opponents and noise on any rank, and every rank returns the tally of all worlds. Kernels
number worlds over all ranks, so that their rollouts exchange nothing. Opponents that act between steps have one random
stream for all worlds. Every rank computes their actions in all worlds, from the observations of all ranks, and keeps
the actions of its own worlds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from league.game import Game
from league.matchups.matchup_distribution import MatchupDistribution
from league.matchups.opponent_sampler import OpponentSampler
from trainers.base.shard import Shard
from trainers.base.state import State
from trainers.config.train_config import TrainConfig
from trainers.distributed.checkpoint_state import gather_state, select_state
from trainers.models.policy import PolicyProtocol

AXES = {"opponents.drawn": 0}
"""Axis of worlds in entries of an opponent sampler's state, see `gather_state`."""
KEPT = "opponents.kept"
"""Entry with the sums of episodes since the last `OpponentSampler.read`."""


def joined_shard(config: TrainConfig, sharded: bool) -> Shard | None:
    """Return the share of this process in a training, or None if it trains alone.

    Args:
        config: Settings of the training, whose `prepare` was called.
        sharded: Join the process group of the environment variables, see `Shard.from_env`.

    Raises:
        ConfigError: There are more processes than worlds, or the GPUs are of different kinds.
    """
    return Shard.from_env(config.num_envs, config.device) if sharded else None


class ShardedOpponentSampler(OpponentSampler):
    """Sample the opponents of one rank's worlds as a single process does for the worlds of all ranks."""

    def __init__(
        self,
        core: Core,
        game: Game,
        draw: MatchupDistribution,
        pools: Mapping[str, Sequence[PolicyProtocol]],
        seed: int,
        draw_margin: float,
        shard: Shard,
    ) -> None:
        """Sample the first matchup of every world of a shard; other arguments as in `OpponentSampler`."""
        self.shard: Shard = shard
        self.all_worlds: _AllWorlds = _AllWorlds(core, shard)
        super().__init__(core, game, draw, pools, seed, draw_margin)

    def prepare(self) -> bool:
        """Return True: ranks exchange observations at every step."""
        super().prepare()
        return True

    @property
    def acting_core(self) -> Core:
        """Worlds of all ranks, in which opponents act between steps."""
        return cast("Core", self.all_worlds)

    def act(self, core: Core, info: Mapping[str, Tensor], into: Tensor) -> None:
        """Write the actions of all agents without a learner into the actions of all agents (E, A[, K])."""
        if not self.seat_policies:
            return
        worlds = self.all_worlds
        worlds.elapsed_steps, obs, assigned = map(worlds.gather, (core.elapsed_steps, core.obs, self.assigned))
        names = [name for name in ("alive", "action_mask", "to_move") if name in info]
        whole_info = {name: worlds.gather(info[name]) for name in names}
        actions = into.new_zeros((worlds.num_envs, *into.shape[1:]))
        actions[worlds.rows] = into
        for seat, policies in self.seat_policies.items():
            policies.assign(assigned[:, seat])
            policies.act(obs, whole_info, actions)
        into.copy_(actions[worlds.rows])

    def _any_restarted(self, restarted: Tensor) -> bool:
        return bool(self.shard.all_reduce_max(int(restarted.any())))

    def _uniform(self) -> Tensor:
        return super()._uniform()[self.all_worlds.rows]

    def _total(self, sums: Tensor) -> Tensor:
        return self.shard.sum(sums)


class _AllWorlds:
    """The worlds of all ranks, as far as policies of a seat need them; other attributes come from the core."""

    def __init__(self, core: Core, shard: Shard) -> None:
        self._core = core
        self._shard = shard
        self.num_envs: int = shard.num_envs_total
        self.rows = slice(shard.offset, shard.offset + shard.num_envs)
        self.elapsed_steps: Tensor = torch.zeros(self.num_envs, dtype=torch.int32, device=core.device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def gather(self, values: Tensor) -> Tensor:
        """Return the values (E, ...) of the worlds of all ranks, bit for bit: the sum of bytes that one rank has."""
        result = values.new_zeros((self.num_envs, *values.shape[1:]))
        result[self.rows] = values
        return self._shard.sum(result.view(-1).view(torch.uint8)).view(values.dtype).view(result.shape)


def gather_training(shard: Shard, state: State, core: Core, axes: Mapping[str, int]) -> State:
    """Return on rank 0 the state that a single process would save, and on other ranks one without meaning.

    Args:
        shard: Shard of this rank.
        state: State of a best-response training of this rank.
        core: Worlds of this rank.
        axes: `LearnerGroup.env_axes`.
    """
    if shard.ranks == 1:
        return state
    sums = state[KEPT]
    assert isinstance(sums, Tensor)
    return gather_state(shard, {**state, KEPT: shard.sum(sums)}, core, {**axes, **AXES})


def select_training(shard: Shard, state: State, core: Core, axes: Mapping[str, int]) -> State:
    """Return this rank's share of a state that a single process, or rank 0, has saved; arguments as above.

    Raises:
        CheckpointError: The state has another number of worlds.
    """
    share = select_state(shard, state, core, {**axes, **AXES})
    sums = share.get(KEPT)
    if shard.is_rank0 or not isinstance(sums, Tensor):
        return share
    return {**share, KEPT: torch.zeros_like(sums)}  # rank 0 has the sums so far

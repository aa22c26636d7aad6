"""Policies of a rollout and the buffers for its results, as kernels read them."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from warp_kernels import episode, philox
from warp_kernels.episode import IO
from warp_kernels.networks.mlp import Mlp
from warp_kernels.networks.rows import rows_at_once
from warp_kernels.rules import Rules

NO_POLICY = -1
"""Policy, and its kind, of agents that take random legal actions."""


@dataclass(frozen=True)
class PolicyKind:
    """Shape that several policies have in common."""

    mlp: Mlp
    """Sizes of the network."""
    head: str
    """Distribution: "categorical", "gaussian" or "tanh_gaussian". Without chance: "values", the largest of action
    values or, with one more output, of a dueling network's advantages; and "tanh" of the outputs."""
    sizes: tuple[int, ...]
    """Number of choices of each categorical, or (K,) for K dimensions."""
    bounded: bool = False
    """Whether continuous actions are scaled to a bounded box."""
    explores: bool = False
    """Whether actions are uniformly random with a probability, the first extra parameter of the network. The second one
    of "tanh" is the standard deviation of noise. Such policies store actions as the environment receives them."""

    @property
    def continuous(self) -> bool:
        """Whether actions are continuous."""
        return self.head not in ("categorical", "values")


@dataclass(frozen=True)
class Acting:
    """Properties of policies and buffers for which the kernels of a rollout are built."""

    kinds: tuple[PolicyKind, ...]
    """Kinds of the policies."""
    kinds_of: tuple[tuple[int, ...], ...]
    """Kinds that the policies of each agent can have: indices of `kinds`, or NO_POLICY."""
    shared: bool
    """Whether an agent has the same policy in all worlds."""
    draws: bool = False
    """Whether worlds draw a matchup at the start of every episode."""
    traced: bool = True
    """Whether every step is stored; otherwise only the result of each world's first episode is."""
    tile_rows: tuple[int, ...] = ()
    """Rows of a tile of every kind, 0 where a thread computes the outputs of a row; () if all threads do."""
    memo: bool = False
    """Whether a thread remembers the outputs of policies for observations until the launch ends."""

    def rows_of_tile(self, kind: int) -> int:
        """Return the rows of a tile of a kind, or 0."""
        return self.tile_rows[kind] if self.tile_rows else 0


@wp.struct
class Policies:
    """Policies of a rollout. A matchup assigns a policy to every agent, and every world plays one."""

    addresses: wp.array(dtype=wp.uint64)  # (P,) of the packed weights of every policy
    seeds: wp.array(dtype=wp.uint64)  # (P,) key of the policy's random stream
    kinds: wp.array(dtype=int)  # (P,)
    index: wp.array2d(dtype=int)  # (R, A) policy of every agent by matchup
    matchup: wp.array(dtype=int)  # (E,) of every world; empty where all play matchup 0
    cumulative: wp.array(dtype=wp.float64)  # (R,) probabilities of matchups; empty unless worlds draw them
    draw_seed: wp.array(dtype=wp.uint64)  # (1,) key of the draws
    outputs: wp.array2d(dtype=float)  # (E * A, K) outputs of networks that blocks compute in tiles; else empty
    memo: wp.array2d(dtype=float)  # (N, S) known observations and outputs of networks; else empty
    memo_owners: wp.array(dtype=int)  # (N,) 1 + policy of every entry, 0 without one


@wp.struct
class Trace:
    """Buffers of T steps of E worlds with A agents; arrays that an environment does not need are empty."""

    obs: wp.array4d(dtype=float)  # (T + 1, E, A, D) before every step, and after the last
    mask: wp.array4d(dtype=wp.bool)  # (T + 1, E, A, n)
    to_move: wp.array3d(dtype=wp.bool)  # (T + 1, E, A)
    choice: wp.array4d(dtype=wp.int64)  # (T, E, A, K)
    control: wp.array4d(dtype=float)  # (T, E, A, K) as the policy stores them
    log_prob: wp.array3d(dtype=float)  # (T, E, A)
    reward: wp.array3d(dtype=float)  # (T, E, A)
    terminated: wp.array3d(dtype=wp.bool)  # (T, E, A)
    truncated: wp.array3d(dtype=wp.bool)  # (T, E, A)
    valid: wp.array3d(dtype=wp.bool)  # (T, E, A)
    restarted: wp.array2d(dtype=wp.bool)  # (T, E) the step has started an episode
    episode_return: wp.array3d(dtype=float)  # (T, E, A) of each agent's last finished episode
    episode_length: wp.array3d(dtype=int)  # (T, E, A)
    episode_results: wp.array4d(dtype=float)  # (T, E, A, R) declared results of each agent's last finished episode
    final_obs: wp.array2d(dtype=float)  # (E * A * C + 1, D) last observations of truncated agents, C per agent
    final_slot: wp.array3d(dtype=wp.int64)  # (T, E, A) row of final_obs; the last row for none
    final_count: wp.array2d(dtype=int)  # (E, A) truncations, also those without a row
    matchup: wp.array2d(dtype=int)  # (T, E) matchup of the step; empty unless worlds draw them
    finished: wp.array2d(dtype=wp.bool)  # (E, A) the result of the agent's first episode is stored; else empty


def worlds_at_once(rules: Rules, acting: Acting) -> int:
    """Return the number of worlds whose agents act together on a CPU; a GPU thread has registers for one.

    Where agents take turns, worlds act together only in their first episodes, whose turns mostly coincide. They do not
    if outputs are remembered, because few are computed.
    """
    if not acting.kinds or acting.memo or (rules.turn_based and acting.traced):
        return 1
    return min(rows_at_once(kind.mlp) for kind in acting.kinds)


@cache
def policy_of(shared: bool) -> Any:
    """Build ``policy_of(policies, env, agent)``, which returns the policy of an agent."""

    @wp.func(inline=True)
    def of_all(policies: Policies, env: int, agent: int):
        return policies.index[0, agent]

    @wp.func(inline=True)
    def of_matchup(policies: Policies, env: int, agent: int):
        return policies.index[policies.matchup[env], agent]

    return of_all if shared else of_matchup


@cache
def decides_of(turn_based: bool) -> Any:
    """Build ``decides(io, env, agent)``, which returns whether an agent chooses an action."""

    @wp.func(inline=True)
    def decides(io: IO, env: int, agent: int):
        is_deciding = io.alive[env, agent]
        if wp.static(turn_based):
            is_deciding = is_deciding and io.to_move[env, agent]
        return is_deciding

    return decides


@wp.func
def draw_matchup(io: IO, policies: Policies, env: int):
    """Draw the matchup of the episode that a world starts: the first whose cumulative probability is greater."""
    rng = episode.foreign_stream(io, env, policies.draw_seed[0])
    rng.step = wp.uint32(0)
    word = philox.bits(rng, 0, philox.MATCHUP, 0)
    high = wp.float64(word[0] >> wp.uint32(5)) * wp.float64(67108864.0)  # 27 and 26 bits, as in NumPy
    uniform = (high + wp.float64(word[1] >> wp.uint32(6))) / wp.float64(9007199254740992.0)
    low = int(0)
    end = policies.cumulative.shape[0] - 1
    while low < end:
        middle = (low + end) // 2
        if policies.cumulative[middle] > uniform:
            end = middle
        else:
            low = middle + 1
    policies.matchup[env] = low

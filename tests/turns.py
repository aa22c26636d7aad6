"""Nim as a small turn-based game: the player that takes the last stone wins.

It has a phase over heaps, and illegal moves.

An action is heap * MOST + (stones - 1). An agent sees the heaps as shares of their largest size, then whether it moves.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, box, index, integers
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase, item_phase, world_phase

MOST = 3
"""Stones that a move may take."""
LARGEST = 100
"""Stones of a heap at most."""


@wp.struct
class Params:
    largest: int  # stones of a heap at the start, at most


@wp.struct
class State:
    stones: wp.array2d(dtype=int)  # (E, heaps)
    mover: wp.array(dtype=int)  # (E,)
    winner: wp.array(dtype=int)  # (E,) -1: none yet


@dataclass(frozen=True)
class Config:
    """Settings of the game."""

    players: int = setting(2, ge=1)
    heaps: int = setting(3, ge=1)
    largest: int = setting(5, ge=1, le=LARGEST)
    max_steps: int = setting(0, ge=0, le=MAX_INT)


@cache
def rules(heaps: int, players: int) -> Rules:
    @wp.func
    def take(params: Params, state: State, io: IO, env: int, heap: int):
        """Write the stones of the heap."""
        choice = int(io.choice[env, state.mover[env], 0])
        if choice // MOST == heap:
            state.stones[env, heap] = state.stones[env, heap] - (choice % MOST + 1)

    @wp.func
    def judge(params: Params, state: State, io: IO, env: int):
        left = int(0)
        for heap in range(heaps):
            left += state.stones[env, heap]
        if left == 0:
            state.winner[env] = state.mover[env]
        state.mover[env] = (state.mover[env] + 1) % players

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        if state.winner[env] >= 0:
            io.reward[env, agent] = wp.where(state.winner[env] == agent, 1.0, -1.0)
            io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        moves = state.mover[env] == agent and state.winner[env] < 0
        io.to_move[env, agent] = moves
        io.obs[env, agent, heaps] = wp.where(moves, 1.0, 0.0)
        for heap in range(heaps):
            io.obs[env, agent, heap] = float(state.stones[env, heap]) / float(params.largest)
            for stones in range(MOST):
                io.action_mask[env, agent, heap * MOST + stones] = state.stones[env, heap] > stones

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        for heap in range(heaps):
            word = philox.bits(rng, 0, philox.RESET, heap)[0]
            state.stones[env, heap] = 1 + philox.below(word, params.largest)
        state.mover[env] = philox.below(philox.bits(rng, 1, philox.RESET, 0)[0], players)
        state.winner[env] = -1

    return Rules(
        key=f"nim {heaps} {players}",
        params=Params,
        state=State,
        num_agents=players,
        action_size=1,
        continuous=False,
        phases=(item_phase(heaps, take), world_phase(judge), agent_phase(score)),
        observe=observe,
        reset=reset,
        masked=True,
        turn_based=True,
    )


def build(config: Config) -> EnvDefinition:
    agents = tuple(f"player_{index}" for index in range(config.players))
    return EnvDefinition(
        rules=rules(config.heaps, config.players),
        params={"largest": config.largest},
        state={
            "stones": integers((config.heaps,), 0, LARGEST),
            "mover": index((), config.players),
            "winner": integers((), -1, config.players - 1),
        },
        agents=agents,
        groups={"player": tuple(range(config.players))},
        observation_spaces={agent: box(config.heaps + 1, 0.0, 1.0) for agent in agents},
        action_spaces={agent: spaces.Discrete(config.heaps * MOST) for agent in agents},
        max_episode_steps=config.max_steps,
        time_limit_terminates=False,
        draw=lambda core, envs: None,
        zero_sum=config.players == 2,
    )

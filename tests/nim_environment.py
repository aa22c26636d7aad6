"""Source of a game of turns in which tests plant faults: two players take one or two stones; the last stone wins."""

from dataclasses import dataclass
from functools import cache

import warp as wp
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, box, integers
from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase, world_phase

STONES = 7  # most stones of a heap


@wp.struct
class Params:
    """Parameters of the game."""

    stones: int  # most stones of a heap


@wp.struct
class State:
    """State of E worlds with A = 2 players."""

    heap: wp.array(dtype=int)  # (E,) stones left
    player: wp.array(dtype=int)  # (E,) to move


@dataclass(frozen=True)
class Config:
    """Settings of the game."""


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func
    def take(params: Params, state: State, io: IO, env: int):
        player = state.player[env]
        state.heap[env] = state.heap[env] - int(io.choice[env, player, 0])
        state.player[env] = 1 - player

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        if state.heap[env] == 0:
            io.reward[env, agent] = wp.where(state.player[env] == agent, -1.0, 1.0)
            io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        io.obs[env, agent, 0] = float(state.heap[env]) / float(params.stones)
        mine = state.player[env] == agent
        io.obs[env, agent, 1] = wp.where(mine, 1.0, 0.0)
        io.to_move[env, agent] = mine
        io.action_mask[env, agent, 0] = not mine
        io.action_mask[env, agent, 1] = mine
        io.action_mask[env, agent, 2] = mine and state.heap[env] > 1

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        word = philox.bits(rng, 0, philox.RESET, 0)
        state.heap[env] = 3 + philox.below(word[0], params.stones - 2)
        state.player[env] = philox.below(word[1], 2)

    return Rules(
        key=f"nim {STONES}",
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        phases=(world_phase(take), agent_phase(score)),
        observe=observe,
        reset=reset,
        masked=True,
        turn_based=True,
    )


def build(config: Config) -> EnvDefinition:
    """Put the game together."""
    agents = ("player_0", "player_1")
    return EnvDefinition(
        rules=rules(),
        params={"stones": STONES},
        state={"heap": integers((), 0, STONES), "player": integers((), 0, 1)},
        agents=agents,
        groups={"player": (0, 1)},
        observation_spaces={agent: box(2, 0.0, 1.0) for agent in agents},
        action_spaces={agent: spaces.Discrete(3) for agent in agents},
        max_episode_steps=0,
        time_limit_terminates=False,
        draw=lambda core, envs: None,
        roles={"first": ("player_0",), "second": ("player_1",)},
        zero_sum=True,
    )

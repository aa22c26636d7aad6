"""A guess of a coin: one player sees the coin and says heads or tails, the other one guesses the coin.

Params switch further chance on, which a definition may have forgotten to declare.
"""

import dataclasses
from collections.abc import Mapping
from functools import cache, partial
from types import SimpleNamespace

import own_kuhn
import warp as wp
from gymnasium import spaces

from gpu_envs.definition import Chance, EnvDefinition, box, index
from warp_kernels import philox
from warp_kernels.episode import IO, stream
from warp_kernels.rules import Rules, world_phase


@wp.struct
class Params:
    bonus: float  # of a second coin, drawn at the reset and paid at the end
    noise: float  # in the reward of a guess, drawn in its step


@wp.struct
class State:
    coin: wp.array(dtype=int)  # (E,) 0 in 3 of 4 resets, else 1
    second: wp.array(dtype=int)  # (E,) 0 or 1, equally likely
    called: wp.array(dtype=int)  # (E,) 0: nothing yet, 1: a 0, 2: a 1


@cache
def rules() -> Rules:
    @wp.func
    def act(params: Params, state: State, io: IO, env: int):
        if state.called[env] == 0:
            state.called[env] = 1 + int(io.choice[env, 0, 0])
        else:
            word = philox.bits(stream(io, env), 0, philox.STEP, 0)
            won = wp.where(int(io.choice[env, 1, 0]) == state.coin[env], -1.0, 1.0)
            won += params.bonus * float(state.second[env]) + params.noise * philox.unit(word[0])
            io.reward[env, 0] = won
            io.reward[env, 1] = -won
            io.terminated[env, 0] = True
            io.terminated[env, 1] = True

    @wp.func
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        io.to_move[env, agent] = wp.where(state.called[env] == 0, 0, 1) == agent
        io.action_mask[env, agent, 0] = True
        io.action_mask[env, agent, 1] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        io.obs[env, agent, 0] = wp.where(agent == 0, float(state.coin[env]), 0.5)
        io.obs[env, agent, 1] = 0.5 * float(state.called[env])

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        word = philox.bits(rng, 0, philox.RESET, 0)
        state.coin[env] = wp.where(philox.below(word[0], 4) == 0, 1, 0)
        state.second[env] = philox.below(word[1], 2)
        state.called[env] = 0

    functions = {"phases": (world_phase(act),), "observe": observe, "legal": legal, "reset": reset}
    return dataclasses.replace(own_kuhn.rules(), key="own_coin", params=Params, state=State, **functions)


def coin(heads: int, tails: int) -> Chance:
    """Return the chance of the coin with these weights."""
    return Chance("coin", 2, lambda: {(0,): heads, (1,): tails})


def host(chance: Chance, params: Mapping[str, float]) -> SimpleNamespace:
    """Return a host file that declares this chance, with these params."""
    return SimpleNamespace(Config=own_kuhn.Config, build=partial(_build, chance, params))


def _build(chance: Chance, params: Mapping[str, float], config: own_kuhn.Config) -> EnvDefinition:
    players = own_kuhn.build(config)
    return dataclasses.replace(
        players,
        rules=rules(),
        params={"bonus": 0.0, "noise": 0.0, **params},
        state={"coin": index((), 2), "second": index((), 2), "called": index((), 3)},
        observation_spaces=dict.fromkeys(players.agents, box(2, 0.0, 1.0)),
        action_spaces=dict.fromkeys(players.agents, spaces.Discrete(2)),
        max_episode_steps=2,
        chance=chance,
    )

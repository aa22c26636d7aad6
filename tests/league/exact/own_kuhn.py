"""Kuhn poker as the author of an environment would write it, with another state than KuhnPoker-v0."""

from dataclasses import dataclass
from functools import cache

import warp as wp
from gymnasium import spaces

from gpu_envs.definition import EnvDefinition, box, deal, index
from warp_kernels import helpers, philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase


@wp.struct
class Params:
    ante: float  # also the size of a bet


@wp.struct
class State:
    deck: wp.array2d(dtype=int)  # (E, 3) cards of player 0, of player 1, and the one that nobody has
    node: wp.array(dtype=int)  # (E,) 0: start, 1: passed, 2: bet, 3: passed and bet


@dataclass(frozen=True)
class Config:
    """It has no settings."""


@cache
def rules() -> Rules:
    @wp.func
    def act(params: Params, state: State, io: IO, env: int):
        node = state.node[env]
        player = wp.where(node == 1 or node == 2, 1, 0)
        bets = io.choice[env, player, 0] == wp.int64(1)
        won = float(0.0)  # by player 0
        better = wp.where(state.deck[env, 0] > state.deck[env, 1], 1.0, -1.0)
        over = bool(True)
        if node < 2 and (node == 0 or bets):
            over = False
            state.node[env] = wp.where(node == 1, 3, wp.where(bets, 2, 1))
        elif node == 1:
            won = better
        elif bets:
            won = 2.0 * better
        else:
            won = wp.where(node == 2, 1.0, -1.0)
        io.reward[env, 0] = won * params.ante
        io.reward[env, 1] = -won * params.ante
        io.terminated[env, 0] = over
        io.terminated[env, 1] = over

    @wp.func
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        node = state.node[env]
        io.to_move[env, agent] = wp.where(node == 1 or node == 2, 1, 0) == agent
        io.action_mask[env, agent, 0] = True
        io.action_mask[env, agent, 1] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        for card in range(3):
            io.obs[env, agent, card] = float(state.deck[env, agent] == card)
        for node in range(4):
            io.obs[env, agent, 3 + node] = float(state.node[env] == node)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        for card in range(3):
            state.deck[env, card] = card
        helpers.shuffle(state.deck, env, 3, rng, philox.RESET, 0)
        state.node[env] = 0

    return Rules(
        key="own_kuhn",
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        num_choices=2,
        phases=(world_phase(act),),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
    )


def build(config: Config) -> EnvDefinition:
    players = ("one", "two")
    return EnvDefinition(
        rules=rules(),
        params={"ante": 1.0},
        state={"deck": index((3,), 3), "node": index((), 4)},
        agents=players,
        groups={player: (row,) for row, player in enumerate(players)},
        roles={player: (player,) for player in players},
        zero_sum=True,
        observation_spaces=dict.fromkeys(players, box(7, 0.0, 1.0)),
        action_spaces=dict.fromkeys(players, spaces.Discrete(2)),
        max_episode_steps=3,
        time_limit_terminates=True,
        chance=deal("deck", 3, 3),
        draw=lambda core, envs: None,
    )

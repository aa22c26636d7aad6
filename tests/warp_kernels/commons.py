"""A commons on a grid: agents that see a part of it harvest apples, which grow again near other apples.

Its observation is written as an author would, with loops over constants: 11 x 11 cells, four kinds of each. Unrolled,
a step has 156,000 operations.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, box, index, integers
from gpu_envs.utils.settings import setting
from warp_kernels import philox
from warp_kernels.episode import IO, stream
from warp_kernels.rules import Rules, agent_phase, item_phase

ROWS, COLUMNS = wp.constant(16), wp.constant(24)
KINDS = 4  # apple, agent, itself, outside


@wp.struct
class Params:
    growth: float  # chance per step that an apple grows beside another one
    apples: float  # share of the cells with an apple at the start


@wp.struct
class State:
    apple: wp.array3d(dtype=int)  # (E, rows, columns) 1 where there is one
    count: wp.array3d(dtype=int)  # (E, rows, columns) apples around, as of the last step
    row: wp.array2d(dtype=int)  # (E, A) [cells]
    column: wp.array2d(dtype=int)  # (E, A) [cells]


@dataclass(frozen=True)
class Config:
    """Settings of the commons."""

    num_agents: int = setting(7, ge=1)
    view: int = setting(5, ge=1, le=9)
    max_unroll: int = setting(16, ge=1)


@cache
def rules(num_agents: int, view: int, max_unroll: int) -> Rules:
    width = 2 * view + 1

    @wp.func(inline=True)
    def move(params: Params, state: State, io: IO, env: int, agent: int):
        choice = int(io.choice[env, agent, 0])
        row = state.row[env, agent] + wp.where(choice == 1, 1, 0) - wp.where(choice == 2, 1, 0)
        column = state.column[env, agent] + wp.where(choice == 3, 1, 0) - wp.where(choice == 4, 1, 0)
        state.row[env, agent] = wp.clamp(row, 0, ROWS - 1)
        state.column[env, agent] = wp.clamp(column, 0, COLUMNS - 1)

    @wp.func(inline=True)
    def harvest(params: Params, state: State, io: IO, env: int, agent: int):
        row = state.row[env, agent]
        column = state.column[env, agent]
        first = bool(True)  # the agent of the lowest index harvests
        for other in range(num_agents):
            if other < agent and state.row[env, other] == row and state.column[env, other] == column:
                first = False
        io.reward[env, agent] = wp.where(first and state.apple[env, row, column] == 1, 1.0, 0.0)

    @wp.func(inline=True)
    def count(params: Params, state: State, io: IO, env: int, item: int):
        row = item / COLUMNS
        column = item - row * COLUMNS
        near = int(0)
        for down in range(3):
            for right in range(3):
                y = row + down - 1
                x = column + right - 1
                if y >= 0 and y < ROWS and x >= 0 and x < COLUMNS:
                    near += state.apple[env, y, x]
        state.count[env, row, column] = near

    @wp.func(inline=True)
    def grow(params: Params, state: State, io: IO, env: int, item: int):
        row = item / COLUMNS
        column = item - row * COLUMNS
        is_taken = bool(False)
        for agent in range(num_agents):
            is_taken = is_taken or (state.row[env, agent] == row and state.column[env, agent] == column)
        chance = params.growth * float(state.count[env, row, column])
        if is_taken:
            state.apple[env, row, column] = 0
        elif philox.unit(philox.bits(stream(io, env), item, philox.STEP, 0)[0]) < chance:
            state.apple[env, row, column] = 1

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        for down in range(width):
            for right in range(width):
                row = state.row[env, agent] + down - view
                column = state.column[env, agent] + right - view
                first = (down * width + right) * KINDS
                for kind in range(KINDS):
                    io.obs[env, agent, first + kind] = 0.0
                if row < 0 or row >= ROWS or column < 0 or column >= COLUMNS:
                    io.obs[env, agent, first + 3] = 1.0
                else:
                    io.obs[env, agent, first] = float(state.apple[env, row, column])
                    for other in range(num_agents):
                        if state.row[env, other] == row and state.column[env, other] == column:
                            io.obs[env, agent, first + wp.where(other == agent, 2, 1)] = 1.0

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        for item in range(ROWS * COLUMNS):
            word = philox.bits(rng, item, philox.RESET, 0)
            state.apple[env, item / COLUMNS, item % COLUMNS] = wp.where(philox.unit(word[0]) < params.apples, 1, 0)
            state.count[env, item / COLUMNS, item % COLUMNS] = 0

    @wp.func(inline=True)
    def reset_agent(params: Params, state: State, env: int, agent: int, rng: philox.Stream):
        word = philox.bits(rng, agent, philox.RESET, 1)
        state.row[env, agent] = philox.below(word[0], ROWS)
        state.column[env, agent] = philox.below(word[1], COLUMNS)

    return Rules(
        key=f"commons {num_agents} {view} {max_unroll}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        num_choices=5,
        phases=(
            agent_phase(move),
            agent_phase(harvest),
            item_phase(ROWS * COLUMNS, count),
            item_phase(ROWS * COLUMNS, grow),
        ),
        observe=observe,
        reset=reset,
        reset_agent=reset_agent,
        max_unroll=max_unroll,
    )


def build(config: Config) -> EnvDefinition:
    agents = tuple(f"harvester_{row}" for row in range(config.num_agents))
    width = KINDS * (2 * config.view + 1) ** 2
    return EnvDefinition(
        rules=rules(config.num_agents, config.view, config.max_unroll),
        params={"growth": 0.01, "apples": 0.3},
        state={
            "apple": integers((ROWS, COLUMNS), 0, 1),
            "count": integers((ROWS, COLUMNS), 0, 9),
            "row": index((len(agents),), ROWS),
            "column": index((len(agents),), COLUMNS),
        },
        agents=agents,
        groups={"harvester": tuple(range(len(agents)))},
        observation_spaces={agent: box(width, 0.0, 1.0) for agent in agents},
        action_spaces={agent: spaces.Discrete(5) for agent in agents},
        max_episode_steps=100,
        time_limit_terminates=False,
        draw=lambda core, envs: None,
    )

"""Source of an environment in which tests plant faults: agents of a line who share food.

Agents stand on cells 0..length and stay, go down or go up; no step leaves the line. Who has no energy left starves and
leaves the episode. Food lies on one cell and moves every few steps. Agents on it eat. All see all.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, box, integers
from gpu_envs.utils.settings import setting
from warp_kernels import philox
from warp_kernels.episode import IO, stream
from warp_kernels.rules import Rules, agent_phase, world_phase

LIMIT = 40  # steps of an episode
LENGTH = 4  # last cell


@wp.struct
class Params:
    """Parameters of the environment."""

    length: int  # last cell
    gain: float  # energy of a meal


@wp.struct
class State:
    """State of E worlds with A agents."""

    cell: wp.array2d(dtype=int)  # (E, A)
    energy: wp.array2d(dtype=float)  # (E, A)
    meals: wp.array2d(dtype=float)  # (E, A) of this episode
    food: wp.array(dtype=int)  # (E,) cell


@dataclass(frozen=True)
class Config:
    """Settings of the environment."""

    num_agents: int = setting(3, ge=1)


@wp.func
def clamped(cell: int, length: int) -> int:
    """Return the nearest cell of the line."""
    return wp.clamp(cell, 0, length)


@cache
def rules(num_agents: int) -> Rules:
    """Build the rules."""

    @wp.func
    def move(params: Params, state: State, io: IO, env: int, agent: int):
        if io.alive[env, agent]:
            choice = int(io.choice[env, agent, 0])
            step = wp.where(choice == 2, 1, 0) - wp.where(choice == 1, 1, 0)
            state.cell[env, agent] = clamped(state.cell[env, agent] + step, params.length)
            state.energy[env, agent] = state.energy[env, agent] - 0.02

    @wp.func
    def grow(params: Params, state: State, io: IO, env: int):
        if io.step[env] % 3 == 0:
            word = philox.bits(stream(io, env), 0, philox.STEP, 0)
            state.food[env] = philox.below(word[0], params.length + 1)

    @wp.func
    def eat(params: Params, state: State, io: IO, env: int, agent: int):
        if io.alive[env, agent]:
            reward = float(0.0)
            if state.cell[env, agent] == state.food[env]:
                reward = params.gain
                state.meals[env, agent] = state.meals[env, agent] + 1.0
            state.energy[env, agent] = wp.min(state.energy[env, agent] + reward, 2.0)
            io.reward[env, agent] = reward
            if state.energy[env, agent] <= 0.0:
                io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        cell = state.cell[env, agent]
        io.obs[env, agent, 0] = float(cell) / float(params.length)
        io.obs[env, agent, 1] = wp.max(state.energy[env, agent], 0.0) / 2.0
        io.obs[env, agent, 2] = float(state.food[env]) / float(params.length)
        for other in range(num_agents):
            io.obs[env, agent, 3 + other] = float(state.cell[env, other]) / float(params.length)
        io.action_mask[env, agent, 0] = True
        io.action_mask[env, agent, 1] = cell > 0
        io.action_mask[env, agent, 2] = cell < params.length

    @wp.func
    def central(params: Params, state: State, io: IO, env: int, agent: int):
        io.global_state[env, agent] = state.energy[env, agent]

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        state.food[env] = philox.below(philox.bits(rng, 0, philox.RESET, 1)[0], params.length + 1)

    @wp.func
    def reset_agent(params: Params, state: State, env: int, agent: int, rng: philox.Stream):
        state.cell[env, agent] = philox.below(philox.bits(rng, agent, philox.RESET, 0)[0], params.length + 1)
        state.energy[env, agent] = 0.1 + philox.unit(philox.bits(rng, agent, philox.RESET, 1)[0])
        state.meals[env, agent] = 0.0

    return Rules(
        key=f"walk {num_agents}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(agent_phase(move), world_phase(grow), agent_phase(eat)),
        observe=observe,
        reset=reset,
        reset_agent=reset_agent,
        global_state=central,
        masked=True,
    )


def build(config: Config) -> EnvDefinition:
    """Put the environment together."""
    agents = tuple(f"walker_{index}" for index in range(config.num_agents))
    count = len(agents)
    return EnvDefinition(
        rules=rules(config.num_agents),
        params={"length": LENGTH, "gain": 0.05},
        state={
            "cell": integers((count,), 0, LENGTH),
            "energy": (count,),
            "meals": (count,),
            "food": integers((), 0, LENGTH),
        },
        agents=agents,
        groups={"walker": tuple(range(count))},
        observation_spaces={agent: box(3 + count, 0.0, 1.0) for agent in agents},
        action_spaces={agent: spaces.Discrete(3) for agent in agents},
        max_episode_steps=LIMIT,
        time_limit_terminates=False,
        draw=lambda core, envs: None,
        info={"meals": "meals"},
        global_state_size=count,
    )

"""A tiny environment with illegal actions.

Agents walk on a line of cells 0..length: stay, left, right; stepping off either end is illegal. Who reaches the last
cell has finished and leaves. Reward: the cell. An agent sees its own cell and the mean cell, as shares of the length.
"""

from dataclasses import dataclass
from functools import cache

import gymnasium
import pettingzoo
import warp as wp
from gymnasium import spaces

from gpu_envs.definition import registry
from gpu_envs.definition.environment import EnvDefinition, box, integers
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase

LONGEST = 1_000_000


@wp.struct
class Params:
    length: int  # last cell
    tires: int  # an agent in cell 0 at this step or later is truncated; 0: none [steps]


@wp.struct
class State:
    cell: wp.array2d(dtype=int)  # (E, A)


@dataclass(frozen=True)
class Config:
    """Settings of the toy."""

    num_agents: int = setting(3, ge=1)
    length: int = setting(4, ge=1, le=LONGEST)
    masked: bool = setting(True)
    max_steps: int = setting(8, ge=0, le=MAX_INT)
    limit_terminates: bool = setting(False)
    tires: int = setting(0, ge=0, le=MAX_INT)


@cache
def rules(num_agents: int, masked: bool) -> Rules:
    @wp.func
    def walk(params: Params, state: State, io: IO, env: int, agent: int):
        choice = int(io.choice[env, agent, 0])
        cell = state.cell[env, agent] + wp.where(choice == 2, 1, 0) - wp.where(choice == 1, 1, 0)
        state.cell[env, agent] = wp.clamp(cell, 0, params.length)

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        io.reward[env, agent] = float(state.cell[env, agent])
        if state.cell[env, agent] == params.length:
            io.terminated[env, agent] = True
        if params.tires > 0 and io.step[env] >= params.tires and state.cell[env, agent] == 0:
            io.truncated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        cell = state.cell[env, agent]
        total = int(0)
        for other in range(num_agents):
            total += state.cell[env, other]
        io.obs[env, agent, 0] = float(cell) / float(params.length)
        io.obs[env, agent, 1] = float(total) / float(params.length * num_agents)
        if wp.static(masked):
            io.action_mask[env, agent, 0] = True
            io.action_mask[env, agent, 1] = cell > 0
            io.action_mask[env, agent, 2] = cell < params.length

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        for agent in range(num_agents):
            state.cell[env, agent] = philox.below(philox.bits(rng, agent, philox.RESET, 0)[0], params.length)

    return Rules(
        key=f"toy {num_agents} {masked}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(agent_phase(walk), agent_phase(score)),
        observe=observe,
        reset=reset,
        masked=masked,
    )


def build(config: Config) -> EnvDefinition:
    agents = tuple(f"walker_{index}" for index in range(config.num_agents))
    return EnvDefinition(
        rules=rules(config.num_agents, config.masked),
        params={"length": config.length, "tires": config.tires},
        state={"cell": integers((len(agents),), 0, LONGEST)},
        agents=agents,
        groups={"walker": tuple(range(len(agents)))},
        observation_spaces={agent: box(2, 0.0, 1.0) for agent in agents},
        action_spaces={agent: spaces.Discrete(3) for agent in agents},
        max_episode_steps=config.max_steps,
        time_limit_terminates=config.limit_terminates,
        draw=lambda core, envs: None,
        info={"place": "cell"},
    )


def announce(monkeypatch, name="Toy-v0", host=None, **fields) -> None:
    """Register a toy for one test, so that the tests over all registered environments never meet it.

    ``host`` is a module with Config and build, this one if None; ``fields`` are further arguments of ``register``.
    """
    registry.register(name, config=host.Config if host else Config, build=host.build if host else build, **fields)
    full = f"gpu_envs/{name}"
    registries = [getattr(pettingzoo, f"{kind}_registry", {full: None}) for kind in ("parallel", "aec")]  # since 1.27
    for table, key in ((registry._entries, name), (gymnasium.registry, full), *((other, full) for other in registries)):
        monkeypatch.setitem(table, key, table.pop(key))  # out again after the test

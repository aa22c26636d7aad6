"""A tiny environment whose sums, ends and global states are known: agents climb by their choice, from height 0.

An agent leaves at the height ``top``, or is cut at the time limit. Its reward is its choice; it observes its height.
The global state has all heights, then who is alive. Info has fields of several dtypes and shapes.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, box, integers
from gpu_envs.utils.settings import setting
from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase

HIGHEST = 1000
GONE = wp.constant(9)
"""Height of an agent after its end, which nobody should see as the height of its end."""


@wp.struct
class Params:
    top: int  # height at which an agent leaves


@wp.struct
class State:
    height: wp.array2d(dtype=int)  # (E, A)
    score: wp.array2d(dtype=float)  # (E, A) half of the height
    point: wp.array2d(dtype=wp.vec2)  # (E, A) height, and its negative
    is_high: wp.array2d(dtype=wp.bool)  # (E, A) the height is above 3
    log: wp.array3d(dtype=int)  # (E, A, 2) height and step


@dataclass(frozen=True)
class Config:
    """Settings of the climbers."""

    num_agents: int = setting(2, ge=1)
    top: int = setting(6, ge=1, le=HIGHEST)
    max_steps: int = setting(5, ge=1, le=HIGHEST)
    has_state: bool = setting(True)


@cache
def rules(num_agents: int, has_state: bool) -> Rules:
    @wp.func
    def write(state: State, env: int, agent: int, height: int, step: int):
        state.height[env, agent] = height
        state.score[env, agent] = 0.5 * float(height)
        state.point[env, agent] = wp.vec2(float(height), -float(height))
        state.is_high[env, agent] = height > 3
        state.log[env, agent, 0] = height
        state.log[env, agent, 1] = step

    @wp.func
    def climb(params: Params, state: State, io: IO, env: int, agent: int):
        choice = int(io.choice[env, agent, 0])
        write(state, env, agent, state.height[env, agent] + choice, io.step[env])
        io.reward[env, agent] = float(choice)
        if state.height[env, agent] >= params.top:
            io.terminated[env, agent] = True
        if not io.valid[env, agent]:
            write(state, env, agent, GONE, io.step[env])

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        io.obs[env, agent, 0] = float(state.height[env, agent])

    @wp.func
    def show_state(params: Params, state: State, io: IO, env: int, agent: int):
        io.global_state[env, agent] = float(state.height[env, agent])
        io.global_state[env, num_agents + agent] = wp.where(io.alive[env, agent], 1.0, 0.0)

    @wp.func
    def reset_agent(params: Params, state: State, env: int, agent: int, rng: philox.Stream):
        write(state, env, agent, 0, 0)

    return Rules(
        key=f"climbers {num_agents} {has_state}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(agent_phase(climb),),
        observe=observe,
        reset_agent=reset_agent,
        global_state=show_state if has_state else None,
    )


def build(config: Config) -> EnvDefinition:
    count = config.num_agents
    agents = tuple(f"climber_{index}" for index in range(count))
    return EnvDefinition(
        rules=rules(count, config.has_state),
        params={"top": config.top},
        state={
            "height": integers((count,), 0, HIGHEST),
            "score": (count,),
            "point": (count,),
            "is_high": (count,),
            "log": integers((count, 2), 0, HIGHEST),
        },
        agents=agents,
        groups={"climber": tuple(range(count))},
        observation_spaces={agent: box(1, 0.0, HIGHEST) for agent in agents},
        action_spaces={agent: spaces.Discrete(3) for agent in agents},
        max_episode_steps=config.max_steps,
        time_limit_terminates=False,
        draw=lambda core, envs: None,
        info={name: name for name in ("height", "score", "point", "is_high", "log")},
        results=("height", "is_high"),
        global_state_size=2 * count if config.has_state else 0,
    )

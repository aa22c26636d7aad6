"""Dispersion: VMAS's dispersion as in VMAS 1.5.2. Agents that start together eat food at different places."""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Disc, Physics
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import random_point, rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, agent_phase, item_phase, world_phase

AGENT_RADIUS: float = wp.constant(0.035)  # [m]
LATE: float = wp.constant(-0.01)  # reward of a step without food, with `penalise_by_time`


@wp.struct
class Params:
    """Environment parameters."""

    food_radius: float  # [m]
    pos_range: float  # agents and food stay in [-pos_range, pos_range]^2 [m]
    share_reward: int  # 1: every agent is rewarded for all food
    penalise_by_time: int  # 1: an agent without a reward has the reward -0.01


@wp.struct
class State:
    """State of E worlds, A agents, F food."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A + F) of agents and food [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    eaten: wp.array2d(dtype=int)  # (E, F) 1: the food has been eaten
    eaters: wp.array2d(dtype=int)  # (E, F) agents on the food in this step, 0 where it was eaten before


@cache
def physics(num_agents: int, num_food: int) -> Physics:
    """Return the scene."""
    return Physics(
        bodies=(
            Body("agent", Disc(AGENT_RADIUS), count=num_agents, is_movable=True, collides=False),
            Body("food", Disc("food_radius"), count=num_food, collides=False),
        ),
        agents=num_agents,
        half_width="pos_range",
        half_height="pos_range",
    )


@cache
def rules(num_agents: int, num_food: int, continuous: bool) -> Rules:
    """Build the rules for a number of agents and of food."""
    scene = physics(num_agents, num_food)
    stop = rest(scene, State)

    @wp.func(inline=True)
    def is_on_food(params: Params, state: State, env: int, agent: int, food: int):
        way = state.pos[env, agent] - state.pos[env, num_agents + food]
        return wp.length(way) < AGENT_RADIUS + params.food_radius

    @wp.func(inline=True)
    def eat(params: Params, state: State, io: IO, env: int, food: int):
        """Count the agents on a food that was not eaten before, and mark it as eaten."""
        eaters = int(0)
        if state.eaten[env, food] == 0:
            for agent in range(num_agents):
                if is_on_food(params, state, env, agent, food):
                    eaters += 1
        state.eaters[env, food] = eaters
        if eaters > 0:
            state.eaten[env, food] = 1

    @wp.func(inline=True)
    def judge(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward: 1 for each food, or an equal share of it for the agents on it."""
        reward = float(0.0)
        for food in range(num_food):
            eaters = state.eaters[env, food]
            if eaters > 0:
                if params.share_reward == 1:
                    reward += 1.0
                elif is_on_food(params, state, env, agent, food):
                    reward += 1.0 / float(eaters)
        if params.penalise_by_time == 1 and reward == 0.0:
            reward = LATE
        io.reward[env, agent] = reward

    @wp.func(inline=True)
    def end(params: Params, state: State, io: IO, env: int):
        """Terminate when all food has been eaten."""
        left = int(num_food)
        for food in range(num_food):
            left -= state.eaten[env, food]
        if left == 0:
            for agent in range(num_agents):
                io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, and of all food the way to it and whether it was eaten."""
        position = state.pos[env, agent]
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        for food in range(num_food):
            column = write_vector(io, env, agent, column, state.pos[env, num_agents + food] - position)
            io.obs[env, agent, column] = float(state.eaten[env, food])
            column += 1

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents in the middle and food at random."""
        stop(state, env)
        for agent in range(num_agents):
            state.pos[env, agent] = wp.vec2(0.0, 0.0)
        for food in range(num_food):
            row = num_agents + food
            state.pos[env, row] = random_point(rng, row, wp.vec2(params.pos_range, params.pos_range))
            state.eaten[env, food] = 0
            state.eaters[env, food] = 0

    phases = (
        item_phase(num_food, eat, reads="pos eaten", writes="eaten eaters"),
        agent_phase(judge, reads="pos eaters", writes="io.reward"),
        world_phase(end, reads="eaten", writes="io.terminated"),
    )
    return scenario_rules("vmas dispersion", scene, Params, State, continuous, phases, observe, reset)

"""Navigation: VMAS's navigation as in VMAS 1.5.2. Agents move to their goals and see each other by LIDAR."""

from functools import cache
from typing import NamedTuple

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Disc, Physics
from warp_kernels.physics2d.lidar import lidar
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import rest, separate_point
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, agent_phase

GOAL_RADIUS: float = wp.constant(0.05)  # [m]
SPACE: float = wp.constant(0.05)  # between agents and goals at the start, where they have the size of agents [m]


class Sizes(NamedTuple):
    """What the kernels capture."""

    num_agents: int
    collisions: bool
    """Agents collide, and see each other by LIDAR."""
    rays: int
    """Number of rays of a LIDAR."""
    shared_goal: int
    """The first agents that share a goal."""
    split_goals: bool
    """Every so many agents share a goal."""
    all_goals: bool
    """Agents observe all goals."""
    is_bounded: bool
    """Agents stay in the area of the starts."""

    @property
    def width(self) -> int:
        """Width of an observation."""
        return 4 + 2 * (self.num_agents if self.all_goals else 1) + self.rays * self.collisions


@wp.struct
class Params:
    """Environment parameters."""

    agent_radius: float  # [m]
    lidar_range: float  # [m]
    world_spawning_x: float  # agents and goals start with x in [-world_spawning_x, world_spawning_x) [m]
    world_spawning_y: float  # agents and goals start with y in [-world_spawning_y, world_spawning_y) [m]
    shared_rew: int  # 1: an agent is rewarded for the progress of all
    pos_shaping_factor: float  # reward per meter that an agent comes nearer to its goal [1/m]
    final_reward: float  # reward of a step at whose end all agents are on their goals
    agent_collision_penalty: float  # reward of an agent per other agent nearer than min_collision_distance
    min_collision_distance: float  # [m]


@wp.struct
class State:
    """State of E worlds, A agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, 2 A) of agents and their goals [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A) in the current substep, unused without collisions [N]
    gap: wp.array2d(dtype=float)  # (E, A) distance of an agent to its goal [m]
    progress: wp.array2d(dtype=float)  # (E, A) of the step: how much nearer the agent came to its goal [m]


@cache
def physics(sizes: Sizes) -> Physics:
    """Return the scene."""
    return Physics(
        bodies=(
            Body("agent", Disc("agent_radius"), count=sizes.num_agents, is_movable=True, collides=sizes.collisions),
            Body("goal", Disc(GOAL_RADIUS), count=sizes.num_agents, collides=False),
        ),
        agents=sizes.num_agents,
        substeps=2,
        half_width="world_spawning_x" if sizes.is_bounded else None,
        half_height="world_spawning_y" if sizes.is_bounded else None,
    )


@cache
def rules(sizes: Sizes, continuous: bool) -> Rules:
    """Build the rules."""
    scene, num_agents, rays = physics(sizes), sizes.num_agents, sizes.rays
    stop = rest(scene, State)
    scan = lidar(scene, Params, State, ("agent",), rays) if sizes.collisions else None

    @wp.func(inline=True)
    def measure(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the distance to the own goal, and how much nearer the agent came."""
        gap = wp.length(state.pos[env, agent] - state.pos[env, num_agents + agent])
        state.progress[env, agent] = state.gap[env, agent] - gap
        state.gap[env, agent] = gap

    @wp.func(inline=True)
    def judge(params: Params, state: State, io: IO, env: int, agent: int):
        """Write reward and terminated."""
        progress = state.progress[env, agent]
        are_there = bool(True)
        arrived = bool(True)
        if params.shared_rew == 1:
            progress = float(0.0)
        for other in range(num_agents):
            if params.shared_rew == 1:
                progress += state.progress[env, other]
            are_there = are_there and state.gap[env, other] < GOAL_RADIUS
            arrived = arrived and state.gap[env, other] < params.agent_radius
        reward = progress * params.pos_shaping_factor
        if are_there:
            reward += params.final_reward
        if wp.static(sizes.collisions):
            collision_distance = 2.0 * params.agent_radius + params.min_collision_distance
            for other in range(num_agents):
                if other != agent and wp.length(state.pos[env, other] - state.pos[env, agent]) <= collision_distance:
                    reward += params.agent_collision_penalty
        io.reward[env, agent] = reward
        if arrived:
            io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, the way from goals, and how near others are along the rays."""
        position = state.pos[env, agent]
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        if wp.static(sizes.all_goals):
            for other in range(num_agents):
                column = write_vector(io, env, agent, column, position - state.pos[env, num_agents + other])
        else:
            column = write_vector(io, env, agent, column, position - state.pos[env, num_agents + agent])
        if wp.static(sizes.collisions):
            scan(params, state, io, env, agent, params.lidar_range, column)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents and goals apart from each other; the agents of a goal have it at the same place."""
        stop(state, env)
        area = wp.vec2(params.world_spawning_x, params.world_spawning_y)
        for row in range(2 * num_agents):
            apart = 2.0 * params.agent_radius + SPACE
            state.pos[env, row] = separate_point(state.pos, env, row, row, -1, apart, area, rng, philox.RESET)
        for index in range(num_agents):
            agent = num_agents - 1 - index  # backward, as agents share the goals of agents before them
            goal = int(agent)
            if wp.static(sizes.split_goals):
                goal = agent // wp.static(sizes.shared_goal)
            elif agent < wp.static(sizes.shared_goal):
                goal = 0
            state.pos[env, num_agents + agent] = state.pos[env, num_agents + goal]
            gap = wp.length(state.pos[env, agent] - state.pos[env, num_agents + agent])
            state.gap[env, agent] = gap
            state.progress[env, agent] = 0.0

    phases = (
        agent_phase(measure, reads="pos gap", writes="gap progress"),
        agent_phase(judge, reads="pos gap progress", writes="io.reward io.terminated"),
    )
    name = f"vmas navigation {' '.join(map(str, sizes))}"
    return scenario_rules(name, scene, Params, State, continuous, phases, observe, reset)

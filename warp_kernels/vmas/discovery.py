"""Discovery: VMAS's discovery as in VMAS 1.5.2. Agents cover targets together, which then move to other places."""

from functools import cache
from typing import NamedTuple

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, stream
from warp_kernels.physics2d.bodies import Body, Disc, Physics
from warp_kernels.physics2d.distances import count_near
from warp_kernels.physics2d.lidar import lidar
from warp_kernels.physics2d.observations import write_vectors
from warp_kernels.physics2d.placement import rest, separate_point
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, agent_phase, item_phase, world_phase

RADIUS: float = wp.constant(0.05)  # of agents and targets [m]
AGENT_ANGLE = 0.05  # of the first ray that sees agents [rad]
OUTSIDE: float = wp.constant(-1000.0)  # coordinates of a target that is gone, times x_semidim


class Sizes(NamedTuple):
    """What the kernels capture."""

    num_agents: int
    """Number of agents A."""
    num_targets: int
    """Number of targets T."""
    target_rays: int
    """Number of rays that see targets."""
    agent_rays: int
    """Number of rays that see agents; 0 without."""
    targets_respawn: bool
    """A target that was covered moves to another place, instead of out of the world."""


@wp.struct
class Params:
    """Environment parameters."""

    x_semidim: float  # centers of agents stay in [-x_semidim, x_semidim] [m]
    y_semidim: float  # [m]
    min_dist_between_entities: float  # of centers at their random places [m]
    lidar_range: float  # [m]
    covering_range: float  # an agent nearer to the center of a target covers it [m]
    agents_per_target: int  # so many agents cover a target together
    shared_reward: int  # 1: agents are rewarded for all covered targets
    agent_collision_penalty: float  # reward of an agent per other agent nearer than min_collision_distance
    covering_rew_coeff: float  # reward per target that the agent covers [1]
    time_penalty: float  # reward of every step
    min_collision_distance: float  # [m]


@wp.struct
class State:
    """State of E worlds, A agents, T targets."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A + T) of agents and targets [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A) in the current substep [N]
    coverers: wp.array2d(dtype=int)  # (E, T) agents that cover the target in this step, 0 if there are too few
    covered: wp.array2d(dtype=int)  # (E, T) 1: the target is gone


@cache
def physics(num_agents: int, num_targets: int) -> Physics:
    """Return the scene."""
    return Physics(
        bodies=(
            Body("agent", Disc(RADIUS), count=num_agents, is_movable=True),
            Body("target", Disc(RADIUS), count=num_targets),
        ),
        agents=num_agents,
        substeps=2,
        contact_force=500.0,
        half_width="x_semidim",
        half_height="y_semidim",
    )


@cache
def rules(sizes: Sizes, continuous: bool) -> Rules:
    """Build the rules."""
    num_agents, num_targets = sizes.num_agents, sizes.num_targets
    scene = physics(num_agents, num_targets)
    near_agents = count_near(scene, Params, State, "agent", ("agent",))
    scan_targets = lidar(scene, Params, State, ("target",), sizes.target_rays)
    scan_agents = lidar(scene, Params, State, ("agent",), sizes.agent_rays, start=AGENT_ANGLE)
    stop = rest(scene, State)

    @wp.func(inline=True)
    def is_covering(params: Params, state: State, env: int, agent: int, target: int):
        return wp.length(state.pos[env, agent] - state.pos[env, num_agents + target]) < params.covering_range

    @wp.func(inline=True)
    def cover(params: Params, state: State, io: IO, env: int, target: int):
        """Count the agents that cover a target."""
        count = int(0)
        for agent in range(num_agents):
            if is_covering(params, state, env, agent, target):
                count += 1
        state.coverers[env, target] = wp.where(count >= params.agents_per_target, count, 0)

    @wp.func(inline=True)
    def judge(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward: of covered targets at the agent, or a half for each agent on each covered target."""
        count = float(0.0)
        for target in range(num_targets):
            coverers = state.coverers[env, target]
            if params.shared_reward == 1:
                count += 0.5 * float(coverers)
            elif coverers > 0 and is_covering(params, state, env, agent, target):
                count += 1.0
        collisions = float(near_agents(params, state, env, agent, params.min_collision_distance))
        reward = collisions * params.agent_collision_penalty + count * params.covering_rew_coeff
        io.reward[env, agent] = reward + params.time_penalty

    @wp.func
    def random_place(params: Params, state: State, env: int, row: int, rng: philox.Stream, purpose: int):
        """Return a random place of a body that is not near to others."""
        half = wp.vec2(params.x_semidim, params.y_semidim)
        apart = params.min_dist_between_entities
        return separate_point(state.pos, env, row, num_agents + num_targets, -1, apart, half, rng, purpose)

    @wp.func
    def outside(params: Params):
        """Return the place of targets that are gone."""
        return wp.vec2(OUTSIDE * params.x_semidim, OUTSIDE * params.x_semidim)

    @wp.func
    def move_targets(params: Params, state: State, io: IO, env: int):
        """Move covered targets, one after another; terminate when all are gone."""
        left = int(num_targets)
        for target in range(num_targets):
            row = num_agents + target
            if state.coverers[env, target] > 0:
                if wp.static(sizes.targets_respawn):
                    state.pos[env, row] = random_place(params, state, env, row, stream(io, env), philox.STEP)
                else:
                    state.covered[env, target] = 1
                    state.pos[env, row] = outside(params)
            left -= state.covered[env, target]
        if left == 0:
            for agent in range(num_agents):
                io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, and the distances of targets and agents along the rays."""
        first = write_vectors(io, env, agent, 0, state.pos[env, agent], state.vel[env, agent])
        column = scan_targets(params, state, io, env, agent, params.lidar_range, first)
        if wp.static(sizes.agent_rays > 0):
            column = scan_agents(params, state, io, env, agent, params.lidar_range, column)
        for ray in range(first, column):
            io.obs[env, agent, ray] = params.lidar_range - io.obs[env, agent, ray]

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place targets, then agents, apart from each other."""
        stop(state, env)
        for row in range(num_agents + num_targets):
            state.pos[env, row] = outside(params)
        for target in range(num_targets):
            row = num_agents + target
            state.pos[env, row] = random_place(params, state, env, row, rng, philox.RESET)
            state.coverers[env, target] = 0
            state.covered[env, target] = 0
        for agent in range(num_agents):
            state.pos[env, agent] = random_place(params, state, env, agent, rng, philox.RESET)

    phases = (
        item_phase(num_targets, cover, reads="pos", writes="coverers"),
        agent_phase(judge, reads="pos coverers", writes="io.reward"),
        world_phase(
            move_targets,
            reads="pos coverers covered io.episode io.seed io.step io.world",
            writes="pos covered io.terminated",
        ),
    )
    name = f"vmas discovery {' '.join(map(str, sizes))}"
    return scenario_rules(name, scene, Params, State, continuous, phases, observe, reset)

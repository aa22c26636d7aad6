"""Give way: VMAS's give_way as in VMAS 1.5.2. Two agents pass each other in a corridor with room for one."""

import math
from functools import cache
from typing import NamedTuple

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Disc, Line, Physics
from warp_kernels.physics2d.distances import count_near
from warp_kernels.physics2d.motion import continuous_throttle, discrete_throttle
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import random_point, rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.physics2d.velocity_controller import velocity_controller
from warp_kernels.rules import Rules, agent_phase

GOAL_RADIUS: float = wp.constant(0.08)  # [m]
LENGTH: float = wp.constant(5.0)  # of the corridor [m]
WIDTH: float = wp.constant(0.4)  # of the corridor and of a passage [m]
DEPTH: float = wp.constant(0.48)  # of a passage [m]
START: float = wp.constant(2.0)  # distance of agents from the middle at the start [m]
GOAL: float = wp.constant(2.29)  # distance of goals from the middle [m]
NOISE: float = wp.constant(0.02)  # of the starts of agents along each axis [m]
STEP = 0.05  # [s]
GAIN = 2.0  # of the controller [kg/s]
INTEGRAL = 6.0  # the error is integrated over this many seconds
DERIVATIVE = 0.002  # time over which the error is extrapolated [s]


class Sizes(NamedTuple):
    """What the kernels capture."""

    use_velocity_controller: bool
    """Actions are velocities instead of forces."""
    mirror_passage: bool
    """There is a second passage on the other side of the corridor."""
    observe_rel_pos: bool
    """Agents observe the way from each other."""


@wp.struct
class Params:
    """Environment parameters."""

    v_range: float  # largest speed along each axis [m/s]
    f_range: float  # largest force along each axis [N]
    linear_friction: float  # deceleration [m/s^2]
    done_on_completion: int  # 1: an episode terminates when both agents are on their goals
    pos_shaping_factor: float  # reward per meter that an agent comes nearer to its goal [1/m]
    final_reward: float  # reward of a step at whose end both agents are on their goals
    energy_rew_coeff: float  # cost of the largest force along both axes for a step [1]
    agent_collision_penalty: float  # reward of a step at whose end the agents are nearer than min_collision_distance
    passage_collision_penalty: float  # the same per wall of a passage
    obstacle_collision_penalty: float  # the same per other wall
    min_input_norm: float  # velocities below it are 0 [m/s]
    min_collision_distance: float  # [m]


@wp.struct
class State:
    """State of E worlds with two agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) of agents, goals and walls [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, 2) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, 2) in the current substep [N]
    drive: wp.array2d(dtype=wp.vec2)  # (E, 2) force by which an agent pushes itself, before it is limited [N]
    error: wp.array2d(dtype=wp.vec2)  # (E, 2) of the velocity in the last step [m/s]
    error_sum: wp.array2d(dtype=wp.vec2)  # (E, 2) integral of the error [m]
    gap: wp.array2d(dtype=float)  # (E, 2) distance of an agent to its goal [m]
    progress: wp.array2d(dtype=float)  # (E, 2) of the step: how much nearer the agent came to its goal [m]


@cache
def physics(sizes: Sizes) -> Physics:
    """Return the scene."""
    passages = 2 if sizes.mirror_passage else 1
    floor = () if sizes.mirror_passage else (Body("floor", Line(LENGTH)),)
    agent = Body(
        "agent",
        Disc(0.16),
        count=2,
        is_movable=True,
        force_range="f_range",
        speed_range="v_range",
        linear_friction="linear_friction",
    )
    return Physics(
        bodies=(
            agent,
            Body("goal", Disc(GOAL_RADIUS), count=2, collides=False),
            Body("wall", Line(WIDTH), count=2, angle=0.5 * math.pi),
            Body("ceiling", Line(0.5 * (LENGTH - WIDTH)), count=2 * passages),
            Body("side", Line(DEPTH), count=2 * passages, angle=0.5 * math.pi),
            Body("end", Line(WIDTH), count=passages),
            *floor,
        ),
        agents=2,
        driven=2,
        step=STEP,
        substeps=5,
        drag=0.0,
        contact_force=500.0,
    )


@cache
def rules(sizes: Sizes, continuous: bool) -> Rules:
    """Build the rules."""
    scene = physics(sizes)
    wall, ceiling, side, end = (scene.named(name).first for name in ("wall", "ceiling", "side", "end"))
    num_passages = 2 if sizes.mirror_passage else 1
    walls = ("wall", "ceiling") if sizes.mirror_passage else ("wall", "ceiling", "floor")
    near_agents = count_near(scene, Params, State, "agent", ("agent",))
    near_passages = count_near(scene, Params, State, "agent", ("side", "end"))
    near_walls = count_near(scene, Params, State, "agent", walls)
    throttle = continuous_throttle if continuous else discrete_throttle
    command, control = velocity_controller(Params, State, STEP, GAIN, INTEGRAL, DERIVATIVE)
    stop = rest(scene, State)

    @wp.func(inline=True)
    def steer(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the force of an agent: its action, or that of a PID controller toward the velocity of its action."""
        action = wp.vec2(throttle(io, env, agent, 0, 3), throttle(io, env, agent, 1, 1))
        if wp.static(sizes.use_velocity_controller):
            if wp.static(not continuous):
                action *= params.v_range
            velocity = command(state, env, agent, action, params.v_range, params.min_input_norm)
            action = control(params, state, env, agent, velocity)
        elif wp.static(not continuous):
            action *= params.f_range
        state.drive[env, agent] = action

    @wp.func(inline=True)
    def measure(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the distance to the own goal, and how much nearer the agent came."""
        gap = wp.length(state.pos[env, agent] - state.pos[env, 2 + agent])
        state.progress[env, agent] = state.gap[env, agent] - gap
        state.gap[env, agent] = gap

    @wp.func(inline=True)
    def judge(params: Params, state: State, io: IO, env: int, agent: int):
        """Write reward and terminated."""
        reward = (state.progress[env, 0] + state.progress[env, 1]) * params.pos_shaping_factor
        reach = params.min_collision_distance
        reward += params.agent_collision_penalty * float(near_agents(params, state, env, agent, reach))
        reward += params.passage_collision_penalty * float(near_passages(params, state, env, agent, reach))
        reward += params.obstacle_collision_penalty * float(near_walls(params, state, env, agent, reach))
        reward -= params.energy_rew_coeff * wp.length(state.drive[env, agent]) / (params.f_range * wp.sqrt(2.0))
        if state.gap[env, 0] < GOAL_RADIUS and state.gap[env, 1] < GOAL_RADIUS:
            reward += params.final_reward
            if params.done_on_completion == 1:
                io.terminated[env, agent] = True
        io.reward[env, agent] = reward

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, and the way from the other agent."""
        position = state.pos[env, agent]
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        if wp.static(sizes.observe_rel_pos):
            write_vector(io, env, agent, column, position - state.pos[env, 1 - agent])

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place the agents near the ends of the corridor, the goal of each at the other end, and the walls."""
        stop(state, env)
        for agent in range(2):
            sign = float(2 * agent - 1)
            state.pos[env, agent] = wp.vec2(sign * START, 0.0) + random_point(rng, agent, wp.vec2(NOISE, NOISE))
            state.pos[env, 2 + agent] = wp.vec2(-sign * GOAL, 0.0)
            state.pos[env, wall + agent] = wp.vec2(0.5 * sign * LENGTH, 0.0)
            state.drive[env, agent] = wp.vec2(0.0, 0.0)
            state.error[env, agent] = wp.vec2(0.0, 0.0)
            state.error_sum[env, agent] = wp.vec2(0.0, 0.0)
            state.gap[env, agent] = wp.length(state.pos[env, agent] - state.pos[env, 2 + agent])
            state.progress[env, agent] = 0.0
        for index in range(2 * num_passages):
            sign = float(2 * (index % 2) - 1)
            up = float(1 - 2 * (index / 2))
            state.pos[env, ceiling + index] = wp.vec2(sign * 0.25 * (LENGTH + WIDTH), 0.5 * up * WIDTH)
            state.pos[env, side + index] = wp.vec2(0.5 * sign * WIDTH, 0.5 * up * (WIDTH + DEPTH))
        for index in range(num_passages):
            up = float(1 - 2 * index)
            state.pos[env, end + index] = wp.vec2(0.0, up * (0.5 * WIDTH + DEPTH))
        if wp.static(not sizes.mirror_passage):
            state.pos[env, end + 1] = wp.vec2(0.0, -0.5 * WIDTH)

    steering = agent_phase(
        steer, reads=f"vel error error_sum io.{'control' if continuous else 'choice'}", writes="drive error error_sum"
    )
    phases = (
        agent_phase(measure, reads="pos gap", writes="gap progress"),
        agent_phase(judge, reads="pos gap progress drive", writes="io.reward io.terminated"),
    )
    name = f"vmas give_way {' '.join(map(str, sizes))}"
    return scenario_rules(name, scene, Params, State, continuous, phases, observe, reset, controls=(steering,))

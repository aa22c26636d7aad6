"""Multi give way: VMAS's multi_give_way as in VMAS 1.5.2. Four agents pass each other where two corridors cross."""

import math
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Disc, Line, Physics
from warp_kernels.physics2d.distances import count_near
from warp_kernels.physics2d.motion import continuous_throttle, discrete_throttle
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.physics2d.velocity_controller import velocity_controller
from warp_kernels.rules import Rules, agent_phase

NUM_AGENTS: int = wp.constant(4)
"""Number of agents."""
GOAL_RADIUS: float = wp.constant(0.08)  # [m]
LENGTH: float = wp.constant(5.0)  # of a corridor [m]
WIDTH: float = wp.constant(0.4)  # of a corridor [m]
START: float = wp.constant(2.0)  # distance of agents from the middle at the start [m]
GOAL: float = wp.constant(2.29)  # distance of goals from the middle [m]
COLLISION: float = wp.constant(0.005)  # agents that are nearer than this collide [m]
UNSHAPED: float = wp.constant(-0.0001)  # reward per meter from the goal if pos_shaping_factor is 0 [1/m]
STEP, GAIN, INTEGRAL, DERIVATIVE = 0.1, 2.0, 6.0, 0.002  # of the controller, see `velocity_controller`


@wp.struct
class Params:
    """Environment parameters."""

    u_range: float  # largest commanded speed [m/s]
    f_range: float  # largest force along each axis [N]
    linear_friction: float  # deceleration [m/s^2]
    min_input_norm: float  # velocities below it are 0 [m/s]
    shared_rew: int  # 1: an agent is rewarded for the progress of all
    pos_shaping_factor: float  # reward per meter that an agent comes nearer to its goal [1/m]
    final_reward: float  # reward of a step at whose end all agents are on their goals
    agent_collision_penalty: float  # reward of an agent per other agent that is nearer than 0.005 m


@wp.struct
class State:
    """State of E worlds with four agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) of agents, goals and walls [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, 4) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, 4) in the current substep [N]
    drive: wp.array2d(dtype=wp.vec2)  # (E, 4) force by which an agent pushes itself, before it is limited [N]
    error: wp.array2d(dtype=wp.vec2)  # (E, 4) of the velocity in the last step [m/s]
    error_sum: wp.array2d(dtype=wp.vec2)  # (E, 4) integral of the error [m]
    gap: wp.array2d(dtype=float)  # (E, 4) distance of an agent to its goal [m]
    progress: wp.array2d(dtype=float)  # (E, 4) of the step: how much nearer the agent came to its goal [m]


@cache
def physics() -> Physics:
    """Return the scene."""
    wall, limits = Line(0.5 * (LENGTH - WIDTH)), {"force_range": "f_range", "linear_friction": "linear_friction"}
    return Physics(
        bodies=(
            Body("agent", Disc(0.16), count=NUM_AGENTS, is_movable=True, **limits),
            Body("goal", Disc(GOAL_RADIUS), count=NUM_AGENTS, collides=False),
            Body("horizontal", wall, count=4),
            Body("vertical", wall, count=4, angle=0.5 * math.pi),
            Body("end", Line(WIDTH), count=2, angle=0.5 * math.pi),
            Body("cap", Line(WIDTH), count=2),
        ),
        agents=NUM_AGENTS,
        driven=NUM_AGENTS,
        step=STEP,
        substeps=5,
        drag=0.0,
        contact_force=500.0,
    )


@cache
def rules(continuous: bool) -> Rules:
    """Build the rules."""
    scene = physics()
    horizontal, vertical, end, cap = (scene.named(name).first for name in ("horizontal", "vertical", "end", "cap"))
    near_agents = count_near(scene, Params, State, "agent", ("agent",))
    throttle = continuous_throttle if continuous else discrete_throttle
    command, control = velocity_controller(Params, State, STEP, GAIN, INTEGRAL, DERIVATIVE)
    stop = rest(scene, State)

    @wp.func(inline=True)
    def steer(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the force of an agent toward the velocity of its action."""
        action = wp.vec2(throttle(io, env, agent, 0, 3), throttle(io, env, agent, 1, 1))
        if wp.static(not continuous):
            action *= params.u_range
        velocity = command(state, env, agent, action, params.u_range, params.min_input_norm)
        state.drive[env, agent] = control(params, state, env, agent, velocity)

    @wp.func(inline=True)
    def measure(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the distance to the own goal, and how much nearer the agent came."""
        gap = wp.length(state.pos[env, agent] - state.pos[env, NUM_AGENTS + agent])
        state.progress[env, agent] = state.gap[env, agent] - gap
        state.gap[env, agent] = gap

    @wp.func(inline=True)
    def judge(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward."""
        reward = params.agent_collision_penalty * float(near_agents(params, state, env, agent, COLLISION))
        all_at_goals = bool(True)
        for other in range(NUM_AGENTS):
            all_at_goals = all_at_goals and state.gap[env, other] < GOAL_RADIUS
            if other == agent or params.shared_rew == 1:
                if params.pos_shaping_factor == 0.0:
                    reward += state.gap[env, other] * UNSHAPED
                else:
                    reward += state.progress[env, other] * params.pos_shaping_factor
        if all_at_goals:
            reward += params.final_reward
        io.reward[env, agent] = reward

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, the way from the goal and its length."""
        position = state.pos[env, agent]
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        goal = position - state.pos[env, NUM_AGENTS + agent]
        column = write_vector(io, env, agent, column, goal)
        io.obs[env, agent, column] = wp.length(goal)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place the agents at the ends of the corridors, each goal where the agent before starts, and the walls."""
        stop(state, env)
        for agent in range(NUM_AGENTS):  # left, top, right, bottom
            sign = float(wp.where(agent == 0 or agent == 3, -1, 1))
            way = wp.where(agent % 2 == 0, wp.vec2(sign, 0.0), wp.vec2(0.0, sign))
            state.pos[env, agent] = way * START
            state.pos[env, NUM_AGENTS + (agent + 1) % NUM_AGENTS] = way * GOAL
            state.drive[env, agent] = wp.vec2(0.0, 0.0)
            state.error[env, agent] = wp.vec2(0.0, 0.0)
            state.error_sum[env, agent] = wp.vec2(0.0, 0.0)
            state.progress[env, agent] = 0.0
        for index in range(4):
            along = float(2 * (index / 2) - 1) * 0.25 * (LENGTH + WIDTH)
            across = float(2 * (index % 2) - 1) * 0.5 * WIDTH
            state.pos[env, horizontal + index] = wp.vec2(along, across)
            state.pos[env, vertical + index] = wp.vec2(across, along)
            state.gap[env, index] = wp.length(state.pos[env, index] - state.pos[env, NUM_AGENTS + index])
        for index in range(2):
            along = float(2 * index - 1) * 0.5 * LENGTH
            state.pos[env, end + index] = wp.vec2(along, 0.0)
            state.pos[env, cap + index] = wp.vec2(0.0, along)

    steering = agent_phase(
        steer, reads=f"vel error error_sum io.{'control' if continuous else 'choice'}", writes="drive error error_sum"
    )
    phases = (
        agent_phase(measure, reads="pos gap", writes="gap progress"),
        agent_phase(judge, reads="pos gap progress", writes="io.reward"),
    )
    return scenario_rules(
        "vmas multi_give_way", scene, Params, State, continuous, phases, observe, reset, controls=(steering,)
    )

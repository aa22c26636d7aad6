"""Football: VMAS's football as in VMAS 1.5.2. Two teams push a ball into the goal of the other one."""

import math
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, stream
from warp_kernels.physics2d.geometry import direction, remainder, turned
from warp_kernels.physics2d.motion import continuous_throttle, discrete_throttle
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, agent_phase, item_phase
from warp_kernels.vmas.football.pitch import ATTACKERS, PLAYERS, Params, Sizes, State, physics
from warp_kernels.vmas.football.script import script

PI: float = wp.constant(math.pi)  # half a turn [rad]
WALL_SPEED: float = wp.constant(0.3)  # at it, walls no longer repel the ball [m/s]
WALL_FORCE: float = wp.constant(0.05)  # largest force by which a wall repels the ball [N]
SHOT: float = wp.constant(2.67)  # factor of the force of a shot


@wp.func(inline=True)
def normal4(rng: philox.Stream, row: int, purpose: int, draw: int) -> wp.vec4:
    """Return four standard normal numbers by the method of Box and Muller 1958."""
    u = philox.uniform4(rng, row, purpose, draw)
    first = wp.sqrt(-2.0 * wp.log(1.0 - u[0]))
    second = wp.sqrt(-2.0 * wp.log(1.0 - u[2]))
    angle = 2.0 * PI * u[1]
    other_angle = 2.0 * PI * u[3]
    return wp.vec4(
        first * wp.cos(angle), first * wp.sin(angle), second * wp.cos(other_angle), second * wp.sin(other_angle)
    )


@cache
def rules(sizes: Sizes, continuous: bool) -> Rules:
    """Build the rules."""
    scene = physics(sizes)
    num_blue, num_red, ball_row, num_agents = sizes.num_blue, sizes.num_red, sizes.ball, sizes.num_agents
    num_scripted, num_teams, shooting = sizes.num_scripted, sizes.num_teams, sizes.shooting
    half_length, half_width = 0.5 * sizes.pitch_length, 0.5 * sizes.pitch_width
    size, goal_size, depth = sizes.agent_size, sizes.goal_size, sizes.goal_depth
    line = half_length + 0.5 * sizes.ball_size
    wall, back, side = (scene.named(name).first for name in ("wall", "goal_back", "goal_side"))
    wall_y = 0.5 * half_width + 0.25 * goal_size
    has_formation = [sizes.column > 0, sizes.column > 0 and not sizes.blue_formation_only]
    column = max(sizes.column, 1)
    digits = 4 if shooting else 2
    divisors = [3 ** (digits - 1 - axis) for axis in range(4)] if shooting else [3, 1, 0, 0]
    throttle = continuous_throttle if continuous else discrete_throttle
    think = script(sizes) if num_scripted else None
    stop = rest(scene, State)

    @wp.func(inline=True)
    def goal_of(state: State, env: int) -> float:
        """Return 1 if the ball is in the red goal on the right, -1 in the blue one, 0 otherwise."""
        ball = state.pos[env, ball_row]
        result = float(0.0)
        if wp.abs(ball[1]) <= 0.5 * goal_size:
            if ball[0] > line:
                result = 1.0
            if ball[0] < -line:
                result = -1.0
        return result

    @wp.func(inline=True)
    def nearest(state: State, env: int, team: int) -> float:
        """Return the distance of the nearest player of a team to the ball."""
        least = float(wp.inf)
        for player in range(wp.where(team == 0, 0, num_blue), wp.where(team == 0, num_blue, ball_row)):
            least = wp.min(least, wp.length(state.pos[env, player] - state.pos[env, ball_row]))
        return least

    @wp.func(inline=True)
    def way_to_goal(state: State, env: int, team: int) -> float:
        """Return the distance of the ball to the goal of the opponents of a team."""
        return wp.length(state.pos[env, ball_row] - wp.vec2(wp.where(team == 0, line, -line), 0.0))

    @wp.func(inline=True)
    def shoot(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the force of an agent's shot: the agent is the nearest one, and the ball is in range before it."""
        way = state.pos[env, ball_row] - state.pos[env, agent]
        distance = wp.length(way)
        angle = state.rot[env, agent] - wp.atan2(way[1], way[0])
        angle = remainder(angle + PI, 2.0 * PI) - PI
        can_shoot = distance <= params.shooting_radius and wp.abs(angle) <= 0.5 * params.shooting_angle
        for player in range(ball_row):
            can_shoot = can_shoot and distance <= wp.length(state.pos[env, ball_row] - state.pos[env, player])
        strength = params.u_shoot_multiplier
        if wp.static(sizes.physically_different):
            if agent < ATTACKERS:
                strength -= 0.2
        power = throttle(io, env, agent, 3, wp.static(divisors[3])) * strength * SHOT * params.u_shoot_multiplier
        kick = wp.vec2(0.0, 0.0)
        if can_shoot:
            kick = turned(wp.vec2(power, 0.0), direction(state.rot[env, agent]))
        state.kick[env, agent] = kick

    @wp.func(inline=True)
    def steer(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the force of an agent, and that of its shot; forward is the direction to the goal of the opponents."""
        thrust = params.u_multiplier
        if wp.static(sizes.physically_different):
            if agent < ATTACKERS:
                thrust += 0.1
            if agent == PLAYERS - 1:
                thrust -= 0.05
        x = throttle(io, env, agent, 0, wp.static(divisors[0])) * thrust
        y = throttle(io, env, agent, 1, wp.static(divisors[1])) * thrust
        state.drive[env, agent] = wp.vec2(wp.where(agent < num_blue, x, -x), y)
        if wp.static(shooting):
            shoot(params, state, io, env, agent)

    @wp.func(inline=True)
    def repel(params: Params, state: State, env: int):
        """Write the force on the ball: that of walls nearby on a slow ball, and that of shots."""
        ball = state.pos[env, ball_row]
        near = 2.0 * size
        slowness = (1.0 - wp.min(wp.abs(state.vel[env, ball_row][1]), WALL_SPEED) / WALL_SPEED) * WALL_FORCE
        x = wp.min(half_length - ball[0], near) / near - wp.min(half_length + ball[0], near) / near
        y = wp.min(half_width - ball[1], near) / near - wp.min(half_width + ball[1], near) / near
        if wp.abs(ball[1]) < 0.5 * goal_size:
            x = 0.0
        force = wp.vec2(x, y) * slowness
        if wp.static(shooting):
            for agent in range(num_agents):
                force += state.kick[env, agent]
        state.drive[env, ball_row] = force

    @wp.func(inline=True)
    def follow_script(params: Params, state: State, io: IO, env: int, item: int):
        """Write the force of a scripted player or, for the last item, of the ball."""
        if item == num_scripted:
            repel(params, state, env)
        elif wp.static(num_scripted > 0):
            think(params, state, env, item)

    @wp.func(inline=True)
    def draw_noise(state: State, env: int, index: int, rng: philox.Stream, purpose: int):
        """Write the normal numbers of the next step of a scripted player."""
        for draw in range(3):
            numbers = normal4(rng, num_blue + index, purpose, draw + 1)
            for part in range(4):
                state.noise[env, index, 4 * draw + part] = numbers[part]

    @wp.func(inline=True)
    def settle(params: Params, state: State, io: IO, env: int, item: int):
        """Write the reward of a team and its distances, or the noise of a scripted player."""
        if item < num_teams:
            earned = params.scoring_reward * goal_of(state, env)
            if item == 1:
                earned = -earned
            to_goal = way_to_goal(state, env, item)
            to_ball = nearest(state, env, item)
            if params.dense_reward == 1:
                earned += (state.ball_to_goal[env, item] - to_goal) * params.pos_shaping_factor_ball_goal
                is_moving = wp.length(state.vel[env, ball_row]) > 1.0e-6
                if to_ball >= params.distance_to_ball_trigger and not is_moving:
                    earned += (state.agent_to_ball[env, item] - to_ball) * params.pos_shaping_factor_agent_ball
            state.ball_to_goal[env, item] = to_goal
            state.agent_to_ball[env, item] = to_ball
            state.earned[env, item] = earned
        else:
            draw_noise(state, env, item - num_teams, stream(io, env), philox.STEP)

    @wp.func(inline=True)
    def judge(params: Params, state: State, io: IO, env: int, agent: int):
        """Write reward, score and terminated."""
        io.reward[env, agent] = state.earned[env, wp.where(agent < num_blue, 0, 1)]
        goal = goal_of(state, env)
        state.score[env, agent] = wp.where(agent < num_blue, goal, -goal)
        if goal != 0.0:
            io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write what an agent sees of itself, ball, goal and players; red agents see the pitch mirrored."""
        flip = wp.vec2(wp.where(agent < num_blue, 1.0, -1.0), 1.0)
        goal = wp.vec2(line, 0.0)
        position = wp.cw_mul(state.pos[env, agent], flip)
        velocity = wp.cw_mul(state.vel[env, agent], flip)
        ball = wp.cw_mul(state.pos[env, ball_row], flip)
        ball_velocity = wp.cw_mul(state.vel[env, ball_row], flip)
        column = write_vectors(io, env, agent, 0, wp.cw_mul(state.drive[env, agent], flip), position - ball)
        column = write_vectors(io, env, agent, column, velocity - ball_velocity, ball - goal)
        column = write_vectors(io, env, agent, column, ball_velocity, wp.cw_mul(state.drive[env, ball_row], flip))
        if wp.static(shooting):
            io.obs[env, agent, column] = state.rot[env, agent] - wp.where(agent < num_blue, 0.0, PI)
            column += 1
        column = write_vectors(io, env, agent, column, position - goal, velocity)
        for group in range(2):  # adversaries, then teammates
            is_blue = (agent < num_blue) == (group == 1)
            is_seen = wp.static(sizes.observe_adversaries)
            if group == 1:
                is_seen = wp.static(sizes.observe_teammates)
            if is_seen:
                for player in range(wp.where(is_blue, 0, num_blue), wp.where(is_blue, num_blue, ball_row)):
                    if player != agent:
                        other_velocity = wp.cw_mul(state.vel[env, player], flip)
                        way = position - wp.cw_mul(state.pos[env, player], flip)
                        column = write_vectors(io, env, agent, column, way, velocity - other_velocity)
                        column = write_vector(io, env, agent, column, other_velocity)
                        column = write_vector(io, env, agent, column, wp.cw_mul(state.drive[env, player], flip))

    @wp.func
    def start_of(params: Params, first: int, count: int, player: int, rng: philox.Stream) -> wp.vec2:
        """Return where a player starts in the formation of its team."""
        u = philox.uniform4(rng, first + player, philox.RESET, 0)
        index = int(player)
        if wp.static(sizes.random_order):
            word = philox.bits(rng, first + player, philox.RESET, 4)[0]
            rank = int(0)
            for mate in range(count):
                other = philox.bits(rng, first + mate, philox.RESET, 4)[0]
                if other < word or (other == word and mate < player):
                    rank += 1
            index = rank
        row = index // column
        members = wp.min(count - row * column, column)
        x = -float(row + 1) / float(count // column + 2) * (half_length + depth)
        y = half_width - 2.0 * half_width * float(index % column + 1) / float(members + 1)
        noise = wp.vec2(u[0] - 0.5, u[1] - 0.5) * params.formation_noise
        return wp.vec2(wp.where(first == 0, x, -x), y) + noise

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place the ball in the middle, the players in their halves, and the walls."""
        stop(state, env)
        state.pos[env, ball_row] = wp.vec2(0.0, 0.0)
        state.drive[env, ball_row] = wp.vec2(0.0, 0.0)
        for player in range(ball_row):
            u = philox.uniform4(rng, player, philox.RESET, 0)
            x = u[0] * half_length
            y = u[1] * 2.0 * half_width - half_width
            if player < num_blue:
                state.pos[env, player] = wp.vec2(x - half_length + size, y)
                if wp.static(has_formation[0]):
                    state.pos[env, player] = start_of(params, 0, num_blue, player, rng)
            else:
                state.pos[env, player] = wp.vec2(x - size, y)
                if wp.static(has_formation[1]):
                    state.pos[env, player] = start_of(params, num_blue, num_red, player - num_blue, rng)
                elif wp.static(shooting and not sizes.ai_red):
                    state.rot[env, player] = PI
            state.drive[env, player] = wp.vec2(0.0, 0.0)
        for agent in range(num_agents):
            state.score[env, agent] = 0.0
            if wp.static(shooting):
                state.kick[env, agent] = wp.vec2(0.0, 0.0)
        for index in range(4):
            x = wp.where(index % 2 == 0, 1.0, -1.0)
            y = wp.where(index // 2 == 0, 1.0, -1.0)
            state.pos[env, wall + index] = wp.vec2(x * half_length, y * wall_y)
            state.pos[env, side + index] = wp.vec2(x * (half_length + 0.5 * depth - size), 0.5 * y * goal_size)
            if index < 2:
                state.pos[env, back + index] = wp.vec2(x * (half_length + depth - size), 0.0)
        for index in range(num_scripted):
            state.target[env, index] = wp.vec2(0.0, 0.0)
            state.lead[env, index] = wp.vec2(0.0, 0.0)
            draw_noise(state, env, index, rng, philox.RESET)
        for team in range(num_teams):
            state.ball_to_goal[env, team] = way_to_goal(state, env, team)
            state.agent_to_ball[env, team] = nearest(state, env, team)
            state.earned[env, team] = 0.0

    actions = "io.control" if continuous else "io.choice"
    motor = agent_phase(
        steer, reads=f"{actions} pos rot" if shooting else actions, writes="drive kick" if shooting else "drive"
    )
    brain = item_phase(
        num_scripted + 1,
        follow_script,
        reads=f"pos vel{' kick' if shooting else ''}{' target lead noise' if num_scripted else ''}",
        writes=f"drive{' target lead' if num_scripted else ''}",
    )
    phases = (
        item_phase(
            num_teams + num_scripted,
            settle,
            reads=f"pos vel ball_to_goal agent_to_ball{' io.episode io.seed io.step io.world' if num_scripted else ''}",
            writes=f"ball_to_goal agent_to_ball earned{' noise' if num_scripted else ''}",
        ),
        agent_phase(judge, reads="pos earned", writes="score io.reward io.terminated"),
    )
    name = f"vmas football {' '.join(map(str, sizes))}"
    return scenario_rules(name, scene, Params, State, continuous, phases, observe, reset, controls=(motor, brain))

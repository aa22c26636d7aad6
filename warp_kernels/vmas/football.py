"""Football: VMAS's football as in VMAS 1.5.2. Two teams push a ball into the goal of the other one."""

import math
from functools import cache
from typing import NamedTuple

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, stream
from warp_kernels.physics2d.bodies import Body, Disc, Line, Physics
from warp_kernels.physics2d.geometry import direction, remainder, turned
from warp_kernels.physics2d.motion import continuous_throttle, discrete_throttle
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, agent_phase, item_phase

PI: float = wp.constant(math.pi)  # half a turn [rad]
NOISE: int = wp.constant(12)  # normal numbers of a scripted player for a step
WALL_SPEED: float = wp.constant(0.3)  # at it, walls no longer repel the ball [m/s]
WALL_FORCE: float = wp.constant(0.05)  # largest force by which a wall repels the ball [N]
SHOT: float = wp.constant(2.67)  # factor of the force of a shot
LOOKAHEAD: float = wp.constant(0.5)  # time after which the nearest player to the ball has it [s]
CONTROL_GAIN: float = wp.constant(25.0)  # of the errors of a scripted player's place and velocity
SPREAD: float = wp.constant(0.5)  # standard deviation of the places that a scripted player considers [m]
SPLINE_TIME: float = wp.constant(0.01)  # share of the way at which a scripted player looks for place and velocity
ATTACKERS, DEFENDERS, KEEPERS = 2, 2, 1
"""Blue players in the order of their rows if they differ physically."""
PLAYERS = ATTACKERS + DEFENDERS + KEEPERS
"""Number of them."""


class Sizes(NamedTuple):
    """What the kernels capture."""

    num_blue: int
    """Number of blue players B."""
    num_red: int
    """Number of red players R."""
    ai_red: bool
    """Red players follow a script and are no agents."""
    physically_different: bool
    """Blue players are two attackers, two defenders and a goalkeeper."""
    column: int
    """Players of a column of the formation; 0: players start at random points."""
    blue_formation_only: bool
    """Red players start at random points."""
    random_order: bool
    """The places of the formation are drawn."""
    shooting: bool
    """Agents turn and shoot."""
    observe_teammates: bool
    """Agents observe the other players of their team."""
    observe_adversaries: bool
    """Agents observe the players of the other team."""
    agent_size: float
    """Radius of a player [m]."""
    goal_size: float
    """Width of a goal [m]."""
    goal_depth: float
    """Depth of a goal [m]."""
    pitch_length: float
    """Distance of the goals [m]."""
    pitch_width: float
    """Width of the pitch [m]."""
    ball_size: float
    """Radius of the ball [m]."""
    max_speed: float
    """Largest speed of players [m/s]."""
    u_rot_multiplier: float
    """Torque of an agent at full throttle [Nm]."""

    @property
    def num_agents(self) -> int:
        """Number of agents."""
        return self.num_blue + (0 if self.ai_red else self.num_red)

    @property
    def num_scripted(self) -> int:
        """Number of scripted players."""
        return self.num_red if self.ai_red else 0

    @property
    def ball(self) -> int:
        """Row of the ball."""
        return self.num_blue + self.num_red

    @property
    def num_teams(self) -> int:
        """Number of teams of agents."""
        return 1 if self.ai_red else 2

    def width(self, is_red: bool) -> int:
        """Return the width of the observation of a blue or red agent."""
        mates, opponents = (self.num_red, self.num_blue) if is_red else (self.num_blue, self.num_red)
        players = (mates - 1) * self.observe_teammates + opponents * self.observe_adversaries
        return 16 + self.shooting + 8 * players

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return shapes of the fields of State that do not belong to bodies, and of unused ones."""
        scripted, teams = self.num_scripted, self.num_teams
        return {
            **dict.fromkeys(("rot", "spin", "torque"), (0,)),
            "kick": (self.num_agents * self.shooting,),
            "target": (scripted,),
            "lead": (scripted,),
            "noise": (scripted, int(NOISE)),
            **dict.fromkeys(("ball_to_goal", "agent_to_ball", "earned"), (teams,)),
            "score": (self.num_agents,),
        }


@wp.struct
class Params:
    """Environment parameters."""

    ball_mass: float  # [kg]
    ball_max_speed: float  # [m/s]
    u_multiplier: float  # force of an agent at full throttle along each axis [N]
    u_shoot_multiplier: float  # strength of shots [N^0.5]
    shooting_radius: float  # largest distance of a ball that an agent shoots [m]
    shooting_angle: float  # angle in front of an agent, in which it shoots the ball [rad]
    ai_strength: float  # speed of scripted players, 0 to 1 [1]
    ai_decision_strength: float  # their choice of places and of who goes for the ball, 0 to 1 [1]
    ai_precision_strength: float  # how exactly they move, 0 to 1 [1]
    disable_ai_red: int  # 1: scripted players do not push themselves
    formation_noise: float  # side of the square of starts around a place of the formation [m]
    dense_reward: int  # 1: agents are rewarded for the way of the ball, and for theirs to the ball
    pos_shaping_factor_ball_goal: float  # reward per meter that the ball comes nearer to the goal [1/m]
    pos_shaping_factor_agent_ball: float  # reward per meter that the nearest agent comes nearer to the ball [1/m]
    distance_to_ball_trigger: float  # only agents at least so far from the ball are rewarded for their way to it [m]
    scoring_reward: float  # reward of a goal


@wp.struct
class State:
    """State of E worlds: B blue and R red players, A agents, S scripted players, T teams of agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) of blue and red players, ball and walls [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, B + R + 1) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, B + R + 1) in the current substep [N]
    rot: wp.array2d(dtype=float)  # (E, A) with shooting: directions [rad]
    spin: wp.array2d(dtype=float)  # (E, A) with shooting [rad/s]
    torque: wp.array2d(dtype=float)  # (E, A) with shooting, in the current substep [Nm]
    drive: wp.array2d(dtype=wp.vec2)  # (E, B + R + 1) force by which a player pushes itself, and that on the ball [N]
    kick: wp.array2d(dtype=wp.vec2)  # (E, A) with shooting: force of an agent's shot on the ball [N]
    target: wp.array2d(dtype=wp.vec2)  # (E, S) where a scripted player goes [m]
    lead: wp.array2d(dtype=wp.vec2)  # (E, S) the same, relative to the ball when it was chosen [m]
    noise: wp.array3d(dtype=float)  # (E, S, 12) normal numbers of the next step: 1 of the choice of who goes for the
    # ball, 2 of each of two new places, 3 of the values of places, 2 of the target, 2 of the velocity there
    ball_to_goal: wp.array2d(dtype=float)  # (E, T) distance of the ball to the goal of the opponents [m]
    agent_to_ball: wp.array2d(dtype=float)  # (E, T) distance of the nearest agent to the ball [m]
    earned: wp.array2d(dtype=float)  # (E, T) reward of the step
    score: wp.array2d(dtype=float)  # (E, A) of the step: 1 if the agent's team has scored, -1 if the other one has


@cache
def physics(sizes: Sizes) -> Physics:
    """Return the scene."""
    size, speed, turn = sizes.agent_size, sizes.max_speed, sizes.u_rot_multiplier

    def players(name: str, count: int, radius: float, speed: float, turn: float, is_agent: bool = True) -> Body:
        turns = sizes.shooting and is_agent
        thrust = turn if turns else 0.0
        return Body(
            name,
            Disc(radius),
            count=count,
            is_movable=True,
            is_rotatable=turns,
            turning_thrust=thrust,
            max_speed=speed,
        )

    if sizes.physically_different:
        blue = (
            players("attacker", ATTACKERS, size - 0.005, speed + 0.05, turn),
            players("defender", DEFENDERS, size, speed, turn),
            players("goalkeeper", KEEPERS, size + 0.01, speed - 0.1, turn + 0.2),
        )
    else:
        blue = (players("blue", sizes.num_blue, size, speed, turn),)
    wall = 0.5 * sizes.pitch_width - size - 0.5 * sizes.goal_size
    return Physics(
        bodies=(
            *blue,
            players("red", sizes.num_red, size, speed, -turn, not sizes.ai_red),
            Body("ball", Disc(sizes.ball_size), is_movable=True, mass="ball_mass", max_speed="ball_max_speed"),
            Body("wall", Line(wall), count=4, angle=0.5 * math.pi),
            Body("goal_back", Line(sizes.goal_size), count=2, angle=0.5 * math.pi),
            Body("goal_side", Line(sizes.goal_depth), count=4),
        ),
        agents=sizes.num_agents,
        driven=sizes.ball + 1,
        extra_throttles=int(sizes.shooting),
        substeps=2,
        drag=0.05,
        half_width=0.5 * sizes.pitch_length + sizes.goal_depth - size,
        half_height=0.5 * sizes.pitch_width - size,
    )


@wp.func(inline=True)
def unit_of(vector: wp.vec2) -> wp.vec2:
    """Return the unit vector along a vector; that of 0 is 0."""
    length = wp.length(vector)
    result = vector
    if length > 0.0:
        result = vector / length
    return result


@wp.func
def start_velocity(target: wp.vec2, velocity: wp.vec2, position: wp.vec2, speed: float) -> wp.vec2:
    """Return the velocity at the start of a way to a target, which is reached at a velocity of this speed [m/s].

    It points to a place before the target, from which the way goes on in the direction of the velocity.
    """
    along = velocity
    if speed > 0.0:
        along = velocity / speed
    return unit_of(target - along * (0.6 * wp.length(target - position)) - position) * speed


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
def script(sizes: Sizes):
    """Build ``think(params, state, env, index)``, which writes the force of a scripted red player."""
    num_blue, num_red, ball_row, size = sizes.num_blue, sizes.num_red, sizes.ball, sizes.agent_size
    half_length, half_width = 0.5 * sizes.pitch_length, 0.5 * sizes.pitch_width
    net = half_length + 0.5 * sizes.goal_depth - 0.5 * size
    reach = 0.7 * (sizes.ball_size + size)
    mouth, depth = 0.5 * sizes.goal_size - size, sizes.goal_depth
    square = SPLINE_TIME * SPLINE_TIME
    cube = square * SPLINE_TIME

    @wp.func(inline=True)
    def on_pitch(place: wp.vec2) -> wp.vec2:
        """Return the nearest place on the pitch and in the goals."""
        y = wp.clamp(place[1], -(half_width - size), half_width - size)
        x_limit = half_length - size
        if wp.abs(y) < mouth:
            x_limit += depth
        return wp.vec2(wp.clamp(place[0], -x_limit, x_limit), y)

    @wp.func
    def worth(state: State, env: int, row: int, place: wp.vec2) -> float:
        """Return how good a place is for a red player that does not go for the ball."""
        ball = state.pos[env, ball_row]
        to_ball = unit_of(ball - place)
        distance = wp.length(place - ball)
        nearness = wp.exp(-2.0 * distance * distance * distance * distance)
        side = wp.min(wp.dot(to_ball, unit_of(wp.vec2(-net, 0.0) - place)) + 1.25, 1.0)
        defense = wp.max(-wp.dot(to_ball, wp.vec2(net, 0.0) - place), 0.0)
        crowd = float(0.0)
        for mate in range(num_red):
            if num_blue + mate != row:
                closeness = wp.exp(-5.0 * wp.length(state.pos[env, num_blue + mate] - place))
                crowd += closeness * closeness
        y = wp.exp(-8.0 * wp.abs(half_width - wp.abs(place[1])))
        x = wp.exp(-8.0 * wp.abs(half_length - wp.abs(place[0])))
        company = float(0.0)
        if num_red > 1:
            company = 1.0 - wp.sqrt(crowd)
        return (1.0 - wp.sqrt(x * x + y * y) + company + nearness + side + defense) / 5.0

    @wp.func
    def goes_for_ball(params: Params, state: State, env: int, index: int) -> bool:
        """Return whether a red player is the one of its team that goes for the ball."""
        ball = state.pos[env, ball_row]
        chosen = int(0)
        least = float(wp.inf)
        doubt = 1.0 - params.ai_decision_strength
        for mate in range(num_red):
            position = state.pos[env, num_blue + mate]
            way = ball - position
            ahead = way + (state.vel[env, ball_row] - state.vel[env, num_blue + mate]) * LOOKAHEAD
            side = wp.dot(unit_of(way), unit_of(wp.vec2(-net, 0.0) - position))
            distance = wp.length(ahead) - 0.5 * side * params.ai_decision_strength
            distance += 0.5 * state.noise[env, mate, 0] * doubt * doubt
            if distance < least:
                least = distance
                chosen = mate
        return chosen == index

    @wp.func
    def think(params: Params, state: State, env: int, index: int):
        """Write the force of a red player and where it goes."""
        row = num_blue + index
        position = state.pos[env, row]
        speed = state.vel[env, row]
        ball = state.pos[env, ball_row]
        doubt = 1.0 - params.ai_decision_strength
        target = position
        velocity = wp.vec2(0.0, 0.0)
        start = velocity
        if goes_for_ball(params, state, env, index):
            shot = unit_of(wp.vec2(-net, 0.0) - ball)
            velocity = shot * (0.16 + 0.16 * params.ai_strength)
            start = start_velocity(ball, velocity, position, wp.length(velocity))
            target = ball - unit_of(shot + 0.5 * unit_of(start)) * reach
        else:
            most = float(-wp.inf)
            for choice in range(3):
                place = state.lead[env, index] + ball
                if choice > 0:
                    sample = wp.vec2(state.noise[env, index, 2 * choice - 1], state.noise[env, index, 2 * choice])
                    center = ball
                    if choice == 2:
                        center = position
                    place = center + sample * (SPREAD * (1.0 + 3.0 * doubt))
                place = on_pitch(place)
                value = worth(state, env, row, place) + state.noise[env, index, 5 + choice] * doubt
                if choice == 0:
                    value += 3.0 * doubt
                if value > most:
                    most = value
                    target = place
            if wp.length(target - position) > 0.1:
                start = start_velocity(target, velocity, position, 1.0)
        blur = 1.0 - wp.exp(-wp.length(state.target[env, index] - target))
        blur *= 10.0 * (1.0 - params.ai_precision_strength)
        target += wp.vec2(state.noise[env, index, 8], state.noise[env, index, 9]) * blur
        velocity += wp.vec2(state.noise[env, index, 10], state.noise[env, index, 11]) * blur
        state.target[env, index] = target
        state.lead[env, index] = target - ball
        # place and velocity on the cubic Hermite spline from here to the target
        bend = 3.0 * square - 2.0 * cube
        place = (1.0 - bend) * position + bend * target + (cube - 2.0 * square + SPLINE_TIME) * start
        place += (cube - square) * velocity
        slope = 6.0 * (SPLINE_TIME - square)
        pace = slope * (target - position) + (3.0 * square - 4.0 * SPLINE_TIME + 1.0) * start
        pace += (3.0 * square - 2.0 * SPLINE_TIME) * velocity
        push = (0.5 * (place - position) + 0.5 * (pace - speed)) * (
            params.ai_strength * params.ai_strength * CONTROL_GAIN
        )
        push = wp.vec2(wp.clamp(push[0], -1.0, 1.0), wp.clamp(push[1], -1.0, 1.0)) * params.u_multiplier
        if params.disable_ai_red == 1:
            push = wp.vec2(0.0, 0.0)
        state.drive[env, row] = push

    return think


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
            reads="pos vel ball_to_goal agent_to_ball",
            writes=f"ball_to_goal agent_to_ball earned{' noise' if num_scripted else ''}",
        ),
        agent_phase(judge, reads="pos earned", writes="score io.reward io.terminated"),
    )
    name = f"vmas football {' '.join(map(str, sizes))}"
    return scenario_rules(name, scene, Params, State, continuous, phases, observe, reset, controls=(motor, brain))

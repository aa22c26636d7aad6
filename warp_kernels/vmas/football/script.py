"""Football: the script of red players, one of whom goes for the ball while the others choose among places."""

from functools import cache
from typing import Any

import warp as wp

from warp_kernels.vmas.football.pitch import Params, Sizes, State

LOOKAHEAD: float = wp.constant(0.5)  # time after which the nearest player to the ball has it [s]
CONTROL_GAIN: float = wp.constant(25.0)  # of the errors of a scripted player's place and velocity
SPREAD: float = wp.constant(0.5)  # standard deviation of the places that a scripted player considers [m]
SPLINE_TIME: float = wp.constant(0.01)  # share of the way at which a scripted player looks for place and velocity


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


@cache
def script(sizes: Sizes) -> Any:
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
            best_value = float(-wp.inf)
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
                if value > best_value:
                    best_value = value
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

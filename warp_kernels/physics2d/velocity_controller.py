"""PID controller of the velocity of agents, in the standard form of VMAS 1.5.2."""

from typing import Any

import warp as wp

from warp_kernels.physics2d.motion import capped


def velocity_controller(
    Params: type, State: type, step: float, gain: float, integral: float, derivative: float
) -> tuple[Any, Any]:
    """Build the functions of a controller.

    Args:
        Params: Params of the scenario with ``f_range``, the largest force along each axis [N].
        State: State of the scenario with ``error`` (E, A) vec2 [m/s], of the velocity in the last step, and
            ``error_sum`` (E, A) vec2 [m], its integral.
        step: Duration of a step [s].
        gain: Force per error of the velocity [kg/s].
        integral: The error is integrated over this many seconds.
        derivative: Time over which the error is extrapolated [s].

    Returns:
        ``command(state, env, agent, velocity, fastest, slowest) -> vec2``, a velocity shortened to ``fastest``, and 0
        below ``slowest``, where the controller forgets its errors; and ``control(params, state, env, agent, velocity)
        -> vec2``, the force [N] of an agent of 1 kg toward a velocity [m/s].
    """

    @wp.func
    def command(state: State, env: int, agent: int, velocity: wp.vec2, fastest: float, slowest: float):
        result = capped(velocity, fastest)
        if wp.length(result) < slowest:
            result = wp.vec2(0.0, 0.0)
        if wp.length(result) < 0.001:
            state.error[env, agent] = wp.vec2(0.0, 0.0)
            state.error_sum[env, agent] = wp.vec2(0.0, 0.0)
        return result

    @wp.func
    def control(params: Params, state: State, env: int, agent: int, velocity: wp.vec2):
        error = velocity - state.vel[env, agent]
        total = state.error_sum[env, agent] + error * step
        limit = 0.5 * params.f_range * integral / (step * gain)
        total = wp.vec2(wp.clamp(total[0], -limit, limit), wp.clamp(total[1], -limit, limit))
        rate = (error - state.error[env, agent]) / step
        state.error[env, agent] = error
        state.error_sum[env, agent] = total
        return (error + total / integral + rate * derivative) * gain

    return command, control

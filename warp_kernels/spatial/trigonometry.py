"""Joint sine and cosine in plain arithmetic, and wrapping of angles.

A call of the C library costs more than the arithmetic, because all registers are saved: without it a step of CartPole
is 20 % faster on a CPU. The last bits of the library differ between machines, but results of these functions do not.
"""

import warp as wp

# pi / 2 in three parts: the first two have few digits, so that their multiples are exact.
_HALF_PI_1 = wp.constant(1.5703125)
_HALF_PI_2 = wp.constant(0.00048375129699707031)
_HALF_PI_3 = wp.constant(7.549790126404332e-08)
# 2 pi in the same way.
_TWO_PI_1 = wp.constant(6.28125)
_TWO_PI_2 = wp.constant(0.0019353071795864769)


@wp.func(inline=True)
def sine_cosine(angle: float) -> wp.vec2:
    """Return sine and cosine of an angle of up to 4,096 rad with errors below 1e-7.

    Two minimax polynomials on [-pi/4, pi/4] are evaluated at the distance to the nearest multiple of pi/2. The
    multiple selects signs and order of the two values. Branches shorten the path of small angles, which are common.
    """
    x = angle
    quarter = int(0)
    if wp.abs(angle) > 0.78539816339744831:
        turns = wp.rint(angle * 0.63661977236758134)
        quarter = int(turns)
        x = ((angle - turns * _HALF_PI_1) - turns * _HALF_PI_2) - turns * _HALF_PI_3
    z = x * x
    near_0 = x + x * z * (-0.16666655242443085 + z * (0.008332176133990288 - z * 0.00019516977772582322))
    near_1 = 1.0 - 0.5 * z + z * z * (0.04166664555668831 + z * (-0.0013887364184483886 + z * 2.443809171381872e-05))
    sine = near_0
    cosine = near_1
    if quarter != 0:
        if (quarter & 1) == 1:
            sine = near_1
            cosine = near_0
        if (quarter & 2) == 2:
            sine = -sine
        if ((quarter + 1) & 2) == 2:
            cosine = -cosine
    return wp.vec2(sine, cosine)


@wp.func(inline=True)
def wrap(angle: float) -> float:
    """Return the angle wrapped to [-pi, pi] [rad]."""
    turns = wp.rint(angle * 0.15915494309189534)
    return (angle - turns * _TWO_PI_1) - turns * _TWO_PI_2

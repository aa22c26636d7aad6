"""The physics of the multi-agent particle environments (MPE), as in mpe2 1.1.1 ``_mpe_utils/core.py``.

Discs that push each other apart, damping, a speed cap. Integration is explicit Euler: a position moves by the *old*
velocity, then the velocity changes.
"""

import warp as wp

DT = wp.constant(0.1)  # [s]
KEPT_VELOCITY = wp.constant(0.75)  # 1 - damping 0.25
CONTACT_FORCE = wp.constant(100.0)  # [N/m]
CONTACT_MARGIN = wp.constant(1.0e-3)  # [m]
REACH = wp.constant(0.02)  # [m] beyond this gap the contact force is below 1e-7 N: exp(-20) * 1e-3 * 100


@wp.func(inline=True)
def contact(here: wp.vec2, there: wp.vec2, touch: float) -> wp.vec2:
    """Force [N] on a disc at ``here`` from one at ``there`` [m]; they touch at distance ``touch`` [m].

    mpe2: force = 100 * delta / dist * logaddexp(0, -(dist - touch) / 1e-3) * 1e-3.
    """
    delta = here - there
    squared = wp.dot(delta, delta)
    force = wp.vec2(0.0, 0.0)
    if squared < (touch + REACH) * (touch + REACH):
        dist = wp.sqrt(squared)
        z = (touch - dist) / CONTACT_MARGIN
        penetration = (wp.max(z, 0.0) + wp.log(1.0 + wp.exp(-wp.abs(z)))) * CONTACT_MARGIN
        force = (CONTACT_FORCE * penetration / wp.max(dist, 1.0e-8)) * delta  # mpe2 divides 0 by 0 where discs coincide
    return force


@wp.func(inline=True)
def accelerate(velocity: wp.vec2, force: wp.vec2, max_speed: float) -> wp.vec2:
    """The next velocity [m/s] of a unit mass: damped, pushed, capped."""
    v = velocity * KEPT_VELOCITY + force * DT
    squared = wp.dot(v, v)
    if squared > max_speed * max_speed:
        v = v * (max_speed / wp.sqrt(squared))
    return v

"""Phases of a step of physics: forces on all bodies, then semi-implicit Euler, in substeps, as in VMAS 1.5.2."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.generated_source import compiled
from warp_kernels.physics2d import contacts, geometry
from warp_kernels.physics2d.bodies import LINE_GAP, BodyRows, Joint, Number, Physics, inertia, reach, value
from warp_kernels.physics2d.source import (
    anchor,
    angle_row,
    by_rows,
    kind_of,
    place,
    product,
    rank_of,
    touched_arrays,
    unit,
)
from warp_kernels.rules import Phase, item_phase

CHOICES = 3
"""Choices along an axis: nothing, backward, forward."""


@wp.func
def friction(velocity: wp.vec2, deceleration: float, mass: float, step: float) -> wp.vec2:
    """Return the friction on a moving mass [N]; it does not turn the velocity around within a step."""
    speed = wp.length(velocity)
    force = wp.vec2(0.0, 0.0)
    if speed > 0.0:
        x = wp.min(deceleration * mass, wp.abs(velocity[0]) / step * mass)
        y = wp.min(deceleration * mass, wp.abs(velocity[1]) / step * mass)
        force = wp.vec2(-velocity[0] / speed * x, -velocity[1] / speed * y)
    return force


@wp.func
def turning_friction(spin: float, deceleration: float, inertia: float, step: float) -> float:
    """Return the friction on a turning body [Nm]; it does not turn the spin around within a step."""
    return -wp.sign(spin) * wp.min(deceleration * inertia, wp.abs(spin) / step * inertia)


@wp.func(inline=True)
def capped(vector: wp.vec2, most: float) -> wp.vec2:
    """Return a vector, shortened to a length if it is longer."""
    length = wp.length(vector)
    result = vector
    if length > most:
        result = vector * (most / length)
    return result


@wp.func
def holding_torque(angle: float, other_angle: float, stiffness: float) -> float:
    """Return the torque [Nm] on a body at an angle that shall be another one [rad]."""
    delta = angle - other_angle
    torque = float(0.0)
    if wp.abs(delta) >= 1.0e-9:
        torque = -stiffness * wp.sign(delta) * (wp.exp(wp.abs(delta)) - 1.0)
    return torque


@wp.func(inline=True)
def continuous_throttle(io: IO, env: int, agent: int, component: int, divisor: int) -> float:
    """Return the throttle of an agent along an axis, in [-1, 1]."""
    return io.control[env, agent, component]


@wp.func(inline=True)
def discrete_throttle(io: IO, env: int, agent: int, component: int, divisor: int) -> float:
    """Return the throttle of an agent along an axis, -1, 0 or 1: a digit of its choice in base 3."""
    digit = (int(io.choice[env, agent, 0]) // divisor) % CHOICES
    return wp.where(digit == 2, 1.0, 0.0) - wp.where(digit == 1, 1.0, 0.0)


def num_throttles(physics: Physics) -> int:
    """Return the number of components of an action: 2 of the force, 1 of the torque if agents have one, extra ones."""
    return 2 + any(body.turning_thrust != 0.0 for body in physics.bodies) + physics.extra_throttles


def motion(physics: Physics, Params: type, State: type, continuous: bool) -> tuple[Phase, ...]:
    """Build the phases that move all bodies by one step.

    Agents push themselves: continuous actions are the throttles along x and y in [-1, 1], and that of the torque if
    there is one. Discrete actions are a number in base 3 with a digit per component, the first one first: 0 nothing,
    1 backward, 2 forward.

    Args:
        physics: The scene.
        Params: Params of the scenario, with the fields that sizes and masses name.
        State: State of the scenario, with the fields of `Physics.fields`: ``pos`` (E, N) vec2 [m] of all bodies,
            ``vel`` (E, M) vec2 [m/s] and ``force`` (E, M) vec2 [N] of those that move or turn, ``rot`` (E, R) [rad],
            ``spin`` (E, R) [rad/s] and ``torque`` (E, R) [Nm] of those with an angle in State, ``drive`` (E, A) vec2
            [N] of the first `Physics.driven` rows.
        continuous: Continuous actions instead of discrete ones.

    Returns:
        Per substep, a phase for the forces and one that moves; a single one if bodies do not act on each other.
    """
    constants = {
        **{"Params": Params, "State": State, "IO": IO, "Stiffness": contacts.Stiffness},
        **{"throttle": continuous_throttle if continuous else discrete_throttle},
        **{function.key: function for function in (friction, turning_friction, capped, holding_torque)},
        **{f.key: f for f in (geometry.cross, geometry.direction, geometry.turned, contacts.spring)},
        **{name: getattr(contacts, name) for name in ("disc_disc", "line_disc", "line_line", "box_disc", "box_line")},
        "box_box": contacts.box_box,
    }
    moving = [rows for rows in physics.rows if rows.body.is_dynamic]
    actions = "io.control" if continuous else "io.choice"

    def phase(name: str, lines: list[str]) -> Phase:
        parameters = "params: Params, state: State, io: IO, env: int, body: int"
        used = {key: item for key, item in constants.items() if any(key in text for text in (parameters, *lines))}
        function = compiled(name, parameters, lines, used, kind="wp.func")
        return item_phase(physics.num_moving, function, **touched_arrays(lines, actions))

    forces = _force_lines(physics, moving)
    phases = []
    for substep in range(physics.substeps):
        moves = by_rows(moving, "body", lambda rows: _move_lines(physics, rows, substep == 0))  # noqa: B023
        start = ["position = state.pos[env, body]", "velocity = state.vel[env, body]"]
        if physics.has_forces:
            writes = by_rows(moving, "body", _store_lines)
            phases.append(phase("push", [*start, *forces, *writes]))
            phases.append(phase("move", [*start, *by_rows(moving, "body", _load_lines), *moves]))
        else:
            phases.append(phase("move", [*start, *forces, *moves]))
    return tuple(phases)


def _load_lines(rows: BodyRows) -> list[str]:
    angle = [f"torque = state.torque[env, {angle_row(rows, 'body')}]"] if rows.body.is_rotatable else []
    return ["force = state.force[env, body]", *angle]


def _store_lines(rows: BodyRows) -> list[str]:
    angle = [f"state.torque[env, {angle_row(rows, 'body')}] = torque"] if rows.body.is_rotatable else []
    return ["state.force[env, body] = force", *angle]


def _force_lines(physics: Physics, moving: list[BodyRows]) -> list[str]:
    """Return the lines that sum up force and torque of the body in the row ``body``."""
    lines = ["force = wp.vec2(0.0, 0.0)", *(["torque = float(0.0)"] if physics.num_angles else [])]
    if physics.has_forces:
        lines += ["k = Stiffness()", f"k.margin = {physics.contact_margin}"]
        lines += [f"k.force = {physics.contact_force}"]

    def lines_of(rows: BodyRows) -> list[str]:
        block = _own_lines(physics, rows)
        if rows.body.has_angle and kind_of(rows) != "disc":
            block.append(f"along = {unit(rows, 'body')}")
        for other in physics.rows:
            if other.body.count and rows.body.meets(other.body) and (rows is not other or rows.body.count > 1):
                block += _contact_lines(physics, rows, other)
        for joint in physics.joints:
            for name, is_first in ((joint.body, True), (joint.other, False)):
                if rows.first <= physics.row(name) < rows.end:
                    block += _joint_lines(physics, joint, is_first)
        return block

    return lines + by_rows(moving, "body", lines_of)


def _own_lines(physics: Physics, rows: BodyRows) -> list[str]:
    """Return the lines of forces that other bodies have no part in: throttle, friction, gravity."""
    body, lines, step = rows.body, [], physics.step / physics.substeps
    mass = value(body.mass)
    is_agent, is_driven = rows.first < physics.agents, rows.first < physics.driven
    if is_agent or is_driven:
        digits = num_throttles(physics)
        axes = [f"throttle(io, env, body, {axis}, {CHOICES ** (digits - 1 - axis)})" for axis in range(digits)]
        if body.is_movable:
            throttles = f"wp.vec2({axes[0]}, {axes[1]}) * {value(body.thrust)}"
            lines.append(f"force += {'state.drive[env, body]' if is_driven else throttles}")
            if body.max_force is not None:
                lines.append(f"force = capped(force, {value(body.max_force)})")
            if body.force_range is not None:
                lines.append(f"force = {_clamped('force', (body.force_range, body.force_range))}")
        if is_agent and body.is_rotatable and body.turning_thrust != 0.0:
            lines.append(f"torque += {axes[2]} * {value(body.turning_thrust)}")
    coefficient = physics.linear_friction if body.linear_friction is None else body.linear_friction
    if body.is_movable and coefficient != 0.0:
        lines.append(f"force += friction(velocity, {value(coefficient)}, {mass}, {step!r})")
    pull = [physics.gravity[axis] + body.gravity[axis] for axis in range(2)]
    if body.is_movable and any(pull):
        lines.append(f"force += wp.vec2({pull[0]!r}, {pull[1]!r}) * {mass}")
    coefficient = physics.angular_friction if body.angular_friction is None else body.angular_friction
    if body.is_rotatable and coefficient != 0.0:
        spin = f"state.spin[env, {angle_row(rows, 'body')}]"
        lines.append(f"torque += turning_friction({spin}, {value(coefficient)}, {inertia(body)}, {step!r})")
    return lines


def _contact_lines(physics: Physics, rows: BodyRows, other: BodyRows) -> list[str]:
    """Return the lines of the contacts of the body in the row ``body`` with other bodies."""
    contact_range = _sum(reach(rows.body.shape), reach(other.body.shape))
    if {kind_of(rows), kind_of(other)} != {"disc"}:
        contact_range = _sum(contact_range, LINE_GAP)
    lines = [
        f"for other in range({other.first}, {other.end}):",
        "    gap = position - state.pos[env, other]",
        f"    near = float({contact_range})",
        "    if wp.dot(gap, gap) <= near * near" + (" and other != body:" if rows is other else ":"),
    ]
    by_shape = rank_of(rows) - rank_of(other)
    if by_shape == 0 and kind_of(rows) != "disc" and rows is other:
        # two orders of equal shapes, so that the contact is the same from both sides
        blocks = (
            ["        if body < other:", *_contact_of(rows, other, True, 12)],
            ["        else:", *_contact_of(rows, other, False, 12)],
        )
        lines += [line for block in blocks for line in block]
    else:
        is_first = by_shape < 0 or (by_shape == 0 and (rows is other or rows.first < other.first))
        lines += _contact_of(rows, other, is_first, 8)
    pins = [joint for joint in physics.joints if joint.distance == 0.0]
    pinned = [pair for joint in pins for pair in _pinned(physics, joint, rows, other)]
    if pinned:
        condition = " or ".join(f"(body == {mine} and other == {it})" for mine, it in pinned)
        lines[3] = lines[3].replace("if ", "if (").replace(":", f") and not ({condition}):")
    return lines


def _pinned(physics: Physics, joint: Joint, rows: BodyRows, other: BodyRows) -> list[tuple[int, int]]:
    """Return the rows of bodies that a joint of distance 0 connects, if they are among these."""
    ends = physics.row(joint.body), physics.row(joint.other)
    return [
        (mine, it) for mine, it in (ends, ends[::-1]) if rows.first <= mine < rows.end and other.first <= it < other.end
    ]


def _contact_of(rows: BodyRows, other: BodyRows, is_first: bool, indent: int) -> list[str]:
    pair = ((rows, "body"), (other, "other")) if is_first else ((other, "other"), (rows, "body"))
    arguments = ", ".join(place(it, row, with_hollow=True) for it, row in pair)
    if rows.body.has_angle:
        arguments = arguments.replace(unit(rows, "body"), "along")
    sign, point = ("+", "point") if is_first else ("-", "other_point")
    lines = [f"contact = {kind_of(pair[0][0])}_{kind_of(pair[1][0])}({arguments}, k)"]
    if rows.body.is_movable:
        lines.append(f"force {sign}= contact.force")
    if rows.body.is_rotatable and kind_of(rows) != "disc":
        lines.append(f"torque {sign}= cross(contact.{point} - position, contact.force)")
    return [" " * indent + line for line in lines]


def _joint_lines(physics: Physics, joint: Joint, is_first: bool) -> list[str]:
    """Return the lines of a joint on its first or its other body."""
    row, other = physics.row(joint.body), physics.row(joint.other)
    mine, it = physics.rows_at(row), physics.rows_at(other)
    end, other_end = anchor(mine, row, joint.anchor), anchor(it, other, joint.other_anchor)
    sign, arm = ("+", "arm") if is_first else ("-", "other_arm")
    lines = [
        f"if body == {row if is_first else other}:",
        f"    arm = {end}",
        f"    other_arm = {other_end}",
        "    bond = Stiffness()",
        f"    bond.force = {physics.joint_force}",
        f"    bond.margin = {physics.contact_margin}",
        f"    delta = state.pos[env, {row}] + arm - state.pos[env, {other}] - other_arm",
        f"    pull = spring(delta, {float(joint.distance)!r}, bond)",
    ]
    body = (mine if is_first else it).body
    if body.is_movable:
        lines.append(f"    force {sign}= pull")
    if body.is_rotatable:
        lines.append(f"    torque {sign}= cross({arm}, pull)")
        if joint.angle is not None:
            angles = [_angle(mine, row), f"{_angle(it, other)} + {float(joint.angle)!r}"]
            lines.append(f"    torque {sign}= holding_torque({', '.join(angles)}, {physics.joint_torque})")
    return lines


def _angle(rows: BodyRows, row: int) -> str:
    if rows.body.has_angle:
        return f"state.rot[env, {row - rows.first + rows.first_angle}]"
    return repr(float(rows.body.angle or 0.0))


def _move_lines(physics: Physics, rows: BodyRows, is_first: bool) -> list[str]:
    """Return the lines that move and turn a body by its force and torque in a substep."""
    body, lines, step = rows.body, [], physics.step / physics.substeps
    drag = physics.drag if body.drag is None else body.drag
    decay = f" * {_decay(drag)}" if is_first and drag != 0.0 else ""
    if body.is_movable:
        lines.append(f"velocity = velocity{decay} + force * {product(step, value(body.mass))}")
        if body.max_speed is not None:
            lines.append(f"velocity = capped(velocity, {value(body.max_speed)})")
        if body.speed_range is not None:
            lines.append(f"velocity = {_clamped('velocity', (body.speed_range, body.speed_range))}")
        lines.append(f"position = position + velocity * {step!r}")
        limits = (physics.half_width, physics.half_height)
        if limits != (None, None):
            lines.append(f"position = {_clamped('position', limits)}")
        lines += ["state.vel[env, body] = velocity", "state.pos[env, body] = position"]
    if body.is_rotatable:
        row = angle_row(rows, "body")
        lines.append(f"spin = state.spin[env, {row}]{decay} + torque * {product(step, inertia(body))}")
        lines.append(f"state.spin[env, {row}] = spin")
        lines.append(f"state.rot[env, {row}] = state.rot[env, {row}] + spin * {step!r}")
    return lines


def _clamped(vector: str, limits: tuple[Number | None, Number | None]) -> str:
    """Return code of a vector whose components are at most the limits; None: no limit."""
    parts = [f"{vector}[{axis}]" for axis in range(2)]
    axes = [
        part if limit is None else f"wp.clamp({part}, -{value(limit)}, {value(limit)})"
        for part, limit in zip(parts, limits, strict=True)
    ]
    return f"wp.vec2({', '.join(axes)})"


def _decay(drag: Number) -> str:
    return f"(1.0 - params.{drag})" if isinstance(drag, str) else repr(1.0 - drag)


def _sum(first: Number, second: Number) -> str:
    if isinstance(first, str) or isinstance(second, str):
        return f"({first} + {second})"
    return repr(first + second)


def relayout(physics: Physics, State: type) -> Any:
    """Build ``Rules.relayout`` for the arrays of the bodies."""
    vectors = ("pos", "vel", "force", "drive")
    lines = [
        f"state.{name} = wp.array(ptr=state.{name}.ptr, shape=(n, {shape[0]}), "
        f"dtype={'wp.vec2' if name in vectors else 'float'})"
        for name, shape in physics.fields.items()
    ]
    return compiled("dense", "state: State, n: int", [*lines, "return state"], {"State": State})

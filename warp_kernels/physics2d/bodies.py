"""Bodies, joints and constants of a scene, as data.

A scenario lists what there is, and the kit makes phases of it::

    physics = Physics(
        bodies=(
            Body("agent", Disc(0.03), count=4, thrust=0.6, is_movable=True),
            Body("package", Box(0.15, 0.15), mass="package_mass", is_movable=True),
            Body("goal", Disc(0.15), collides=False),
        ),
        agents=4,
    )

A `Number` is a constant, or the name of a field of Params, which may differ from world to world.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

Number = float | str
"""A constant, or the name of a field of Params."""
LINE_GAP = 4.0 / 600.0
"""Distance at which lines and boxes touch other bodies [m], as in VMAS 1.5.2."""


@dataclass(frozen=True)
class Disc:
    """A disc."""

    radius: Number
    """Radius [m]."""


@dataclass(frozen=True)
class Line:
    """A line segment; its angle is that of its direction."""

    length: Number
    """Length [m]."""


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    length: Number
    """Side along the angle of the body [m]."""
    width: Number
    """Other side [m]."""
    is_hollow: bool = False
    """Only the outline pushes other bodies, so that they may be inside."""


@dataclass(frozen=True)
class Body:
    """Equal bodies in consecutive rows. A name of several has the rows "name_0", "name_1", ..."""

    name: str
    shape: Disc | Line | Box
    count: int = 1
    is_movable: bool = False
    """Forces move it."""
    is_rotatable: bool = False
    """Torques turn it."""
    collides: bool | tuple[str, ...] = True
    """Collides with all other bodies that collide, with none, or with bodies of these names."""
    mass: Number = 1.0
    """Mass [kg]."""
    thrust: Number = 1.0
    """Force of an agent at full throttle [N]."""
    turning_thrust: Number = 0.0
    """Torque of an agent at full throttle [Nm]; above 0, its actions have a third component."""
    max_force: Number | None = None
    """Largest norm of the force of an agent [N]."""
    force_range: Number | None = None
    """Largest force of an agent along each axis [N]."""
    max_speed: Number | None = None
    """Largest speed [m/s]."""
    speed_range: Number | None = None
    """Largest speed along each axis [m/s]."""
    drag: Number | None = None
    """Share of the velocities that is lost per step; None: that of `Physics`."""
    linear_friction: Number | None = None
    """Deceleration [m/s^2]; None: that of `Physics`."""
    angular_friction: Number | None = None
    """Angular deceleration [rad/s^2]; None: that of `Physics`."""
    gravity: tuple[float, float] = (0.0, 0.0)
    """Acceleration in addition to that of `Physics` [m/s^2]."""
    angle: float | None = 0.0
    """Constant angle [rad]; None: it is in State. Rotatable bodies have it in State."""

    @property
    def is_dynamic(self) -> bool:
        """Whether it moves or turns."""
        return self.is_movable or self.is_rotatable

    @property
    def has_angle(self) -> bool:
        """Whether its angle is in State."""
        return self.is_rotatable or self.angle is None

    def meets(self, other: "Body") -> bool:
        """Return whether it collides with another body by both of their filters."""
        pairs = ((self, other), (other, self))
        filters = all(mine.collides is True or (mine.collides and it.name in mine.collides) for mine, it in pairs)
        return bool(filters) and (self.is_dynamic or other.is_dynamic)


@dataclass(frozen=True)
class Joint:
    """A joint that holds an anchor of one body at a distance from an anchor of another one.

    Bodies that a joint of distance 0 connects do not collide.
    """

    body: str
    """Row of a body, such as "agent_0" or "line"."""
    other: str
    """Row of another body."""
    anchor: tuple[float, float] = (0.0, 0.0)
    """Anchor in the body, from -1 to 1 in half sizes along both sides."""
    other_anchor: tuple[float, float] = (0.0, 0.0)
    """Anchor in the other body."""
    distance: float = 0.0
    """Distance of the anchors [m]."""
    angle: float | None = None
    """Angle of the body relative to the other one that a torque holds [rad]; None: both turn freely."""


@dataclass(frozen=True)
class BodyRows:
    """Rows of a `Body` in the arrays of State."""

    body: Body
    first: int
    """First row of `pos`."""
    first_angle: int
    """Its row of `rot`, `spin` and `torque`; -1 for a body with a constant angle."""

    @property
    def end(self) -> int:
        """Row after its last one."""
        return self.first + self.body.count


@dataclass(frozen=True)
class Physics:
    """Bodies, joints and constants of a scene.

    Rows are in the order of `bodies`: the agents, then other bodies that move or turn, then the fixed ones.

    Raises:
        ValueError: The order, a name, a size or a joint is not as documented.
    """

    bodies: tuple[Body, ...]
    """All bodies, in the order of their rows."""
    agents: int
    """Number of agents A, the first rows."""
    joints: tuple[Joint, ...] = ()
    """Joints between rows of bodies."""
    driven: int = 0
    """The force of the first so many rows is their ``drive`` in State, which a phase before the motion writes, in place
    of throttles."""
    extra_throttles: int = 0
    """Components of an action after the throttles of force and torque, which phases read."""
    step: float = 0.1
    """Duration of a step [s]."""
    substeps: int = 1
    """Equal parts of a step; joints need at least 2."""
    drag: float = 0.25
    """Share of the velocities that is lost per step."""
    linear_friction: float = 0.0
    """Deceleration of moving bodies [m/s^2]."""
    angular_friction: float = 0.0
    """Angular deceleration of turning bodies [rad/s^2]."""
    gravity: tuple[float, float] = (0.0, 0.0)
    """Acceleration of movable bodies [m/s^2]."""
    half_width: Number | None = None
    """Centers of movable bodies stay in [-half_width, half_width] [m]; None: no limit."""
    half_height: Number | None = None
    """Centers of movable bodies stay in [-half_height, half_height] [m]; None: no limit."""
    contact_force: float = 100.0
    """Stiffness of contacts [N/m]."""
    contact_margin: float = 0.001
    """Softness of contacts [m]."""
    joint_force: float = 130.0
    """Stiffness of joints [N/m]."""
    joint_torque: float = 1.0
    """Stiffness of the angles of joints [Nm]."""

    def __post_init__(self) -> None:
        """Check the order of bodies, their names and sizes, and the joints."""
        ranks = [0 if rows.end <= self.agents else 1 if rows.body.is_dynamic else 2 for rows in self.rows]
        names = [body.name for body in self.bodies]
        if ranks != sorted(ranks) or self.agents not in [0, *(rows.end for rows in self.rows)]:
            order = f"{self.agents} agents, then moving or turning bodies, then fixed ones"
            raise ValueError(f"bodies: expected {order}, got {', '.join(names)}")
        if self.driven not in [0, *(rows.end for rows in self.rows if rows.body.is_movable)]:
            raise ValueError(f"driven: expected 0 or the rows up to a movable body, got {self.driven}")
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"bodies: expected different names, got {min(repeated)!r} twice")
        for body in self.bodies:
            sizes = [size for size in vars(body.shape).values() if not isinstance(size, str | bool)]
            sizes += [] if isinstance(body.mass, str) else [body.mass]
            if min(sizes, default=1.0) <= 0.0 or body.count < 0:
                raise ValueError(f"body {body.name!r}: expected sizes and a mass > 0, got {body}")
            filters = body.collides if isinstance(body.collides, tuple) else ()
            if unknown := [name for name in filters if name not in names]:
                raise ValueError(f"body {body.name!r}: collides: expected names of bodies, got {unknown[0]!r}")
        if self.substeps < 1 + bool(self.joints):
            raise ValueError(f"substeps: expected at least {1 + bool(self.joints)}, got {self.substeps}")
        for joint in self.joints:
            if self.row(joint.body) == self.row(joint.other):
                raise ValueError(f"joint: expected two bodies, got {joint.body!r} twice")
            if max(map(abs, (*joint.anchor, *joint.other_anchor))) > 1.0 or joint.distance < 0.0:
                raise ValueError(f"joint of {joint.body!r}: expected anchors in [-1, 1], a distance >= 0, got {joint}")

    @cached_property
    def rows(self) -> tuple[BodyRows, ...]:
        """Rows of every `Body`."""
        first = angles = 0
        rows = []
        for body in self.bodies:
            rows.append(BodyRows(body, first, angles if body.has_angle else -1))
            first += body.count
            angles += body.count * body.has_angle
        return tuple(rows)

    @property
    def num_bodies(self) -> int:
        """Number of bodies N."""
        return sum(body.count for body in self.bodies)

    @property
    def num_moving(self) -> int:
        """Number of bodies M that move or turn, the first rows."""
        return sum(body.count for body in self.bodies if body.is_dynamic)

    @property
    def num_angles(self) -> int:
        """Number of bodies R whose angle is in State."""
        return sum(body.count for body in self.bodies if body.has_angle)

    @property
    def has_forces(self) -> bool:
        """Whether bodies act on each other, so that all forces are computed before a body moves."""
        pairs = ((mine, other) for index, mine in enumerate(self.bodies) for other in self.bodies[index:])
        return bool(self.joints) or any(a.meets(b) and (a is not b or a.count > 1) for a, b in pairs)

    @property
    def fields(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the fields of State that the bodies need, without the axis of worlds."""
        moving, angles = self.num_moving, self.num_angles
        fields: dict[str, tuple[int, ...]] = {"pos": (self.num_bodies,), "vel": (moving,)}
        fields |= {"force": (moving,)} if self.has_forces else {}
        fields |= {"rot": (angles,), "spin": (angles,)} if angles else {}
        fields |= {"torque": (angles,)} if angles and self.has_forces else {}
        return fields | ({"drive": (self.driven,)} if self.driven else {})

    @property
    def digest(self) -> str:
        """Number of the scene for `Rules.key`, which differs if any of it does."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]

    def named(self, name: str) -> BodyRows:
        """Return the rows of a `Body`.

        Raises:
            ValueError: There is no such body.
        """
        for rows in self.rows:
            if rows.body.name == name:
                return rows
        raise ValueError(f"body: expected one of {', '.join(body.name for body in self.bodies)}, got {name!r}")

    def row(self, name: str) -> int:
        """Return the row of a body, such as "line" or "agent_2".

        Raises:
            ValueError: There is no such body.
        """
        places = dict(self._places())
        if name not in places:
            raise ValueError(f"body: expected one of {', '.join(places)}, got {name!r}")
        return places[name]

    def rows_at(self, row: int) -> BodyRows:
        """Return the rows that a row is among."""
        return next(rows for rows in self.rows if rows.first <= row < rows.end)

    def _places(self) -> Iterator[tuple[str, int]]:
        for rows in self.rows:
            name, count = rows.body.name, rows.body.count
            yield from ((name if count == 1 else f"{name}_{index}", rows.first + index) for index in range(count))


def reach(shape: Disc | Line | Box) -> Number:
    """Return the radius of the circle around a shape [m]; code of Warp if a size is a field of Params."""
    if isinstance(shape, Disc):
        return value(shape.radius)
    if isinstance(shape, Line):
        return half(shape.length)
    if isinstance(shape.length, str) or isinstance(shape.width, str):
        return f"wp.length(wp.vec2({half(shape.length)}, {half(shape.width)}))"
    return math.hypot(0.5 * shape.length, 0.5 * shape.width)


def inertia(body: Body) -> Number:
    """Return the moment of inertia of a body [kg m^2]; code of Warp if it depends on Params."""
    shape, mass = body.shape, value(body.mass)
    if isinstance(shape, Disc):
        sizes, share = (shape.radius,), 0.5
    else:
        sizes = (shape.length,) if isinstance(shape, Line) else (shape.length, shape.width)
        share = 1.0 / 12.0
    if isinstance(mass, str) or any(isinstance(size, str) for size in sizes):
        squares = " + ".join(f"{value(size)} * {value(size)}" for size in sizes)
        return f"({share} * {mass} * ({squares}))"
    return share * mass * sum(float(size) ** 2 for size in sizes)


def value(number: Number) -> Number:
    """Return a number as code of Warp: the constant, or the field of Params."""
    return f"params.{number}" if isinstance(number, str) else float(number)


def half(number: Number) -> Number:
    """Return half a number as code of Warp."""
    return f"(0.5 * params.{number})" if isinstance(number, str) else 0.5 * number

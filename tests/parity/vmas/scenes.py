"""Scenes of bodies for comparisons with VMAS, and single steps of their phases without an environment."""

import functools

import numpy as np
import warp as wp

import warp_kernels
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Box, Disc, Joint, Line, Physics
from warp_kernels.physics2d.motion import motion


@wp.struct
class Params:
    mass: float  # [kg]


@wp.struct
class State:
    pos: wp.array2d(dtype=wp.vec2)
    vel: wp.array2d(dtype=wp.vec2)
    force: wp.array2d(dtype=wp.vec2)
    rot: wp.array2d(dtype=float)
    spin: wp.array2d(dtype=float)
    torque: wp.array2d(dtype=float)


_FREE = {"is_movable": True, "is_rotatable": True}
SCENES = {
    "shapes": Physics(
        bodies=(
            Body("agent", Disc(0.1), count=2, is_movable=True, thrust=0.7, max_force=0.6),
            Body("disc", Disc(0.15), mass=3.0, is_movable=True),
            Body("line", Line(0.5), count=2, mass=2.0, **_FREE),
            Body("box", Box(0.3, 0.2), count=2, mass=4.0, **_FREE),
            Body("ring", Box(0.4, 0.3, is_hollow=True), mass=1.5, **_FREE),
            Body("wall", Box(2.0, 0.2), angle=0.3),
            Body("bar", Line(1.0), angle=None),
            Body("goal", Disc(0.2), collides=False),
        ),
        agents=2,
    ),
    "forces": Physics(
        bodies=(
            Body("agent", Disc(0.05), count=2, thrust=0.5, turning_thrust=0.02, **_FREE),
            Body("fast", Disc(0.1), is_movable=True, max_speed=0.5, drag=0.1, gravity=(0.3, 0.1)),
            Body("slow", Line(0.4), mass=2.0, speed_range=0.3, linear_friction=0.1, angular_friction=0.2, **_FREE),
            Body("wheel", Line(0.6), mass=5.0, is_rotatable=True, drag=0.0),
            Body("picky", Box(0.2, 0.1), collides=("agent", "wheel"), **_FREE),
        ),
        agents=2,
        substeps=3,
        drag=0.2,
        linear_friction=0.05,
        angular_friction=0.1,
        gravity=(0.0, -0.05),
        half_width=0.45,
        half_height=0.4,
    ),
    "joints": Physics(
        bodies=(
            Body("agent", Disc(0.05), count=2, thrust=0.5, **_FREE),
            Body("rod", Line(0.4), mass=2.0, collides=False, **_FREE),
            Body("link", Box(0.2, 0.1), mass=1.5, **_FREE),
            Body("post", Disc(0.05)),
        ),
        agents=2,
        substeps=5,
        joint_torque=0.001,
        joints=(
            Joint("rod", "agent_0", anchor=(-1.0, 0.0), angle=0.4),
            Joint("rod", "agent_1", anchor=(1.0, 0.0)),
            Joint("link", "post", anchor=(1.0, -1.0), other_anchor=(0.0, 0.5), distance=0.3),
            Joint("link", "agent_1", distance=0.25),
        ),
    ),
    "free": Physics(
        bodies=(
            Body("agent", Disc(0.05), count=2, thrust=0.3, turning_thrust=0.0003, collides=False, **_FREE),
            Body("box", Box(0.2, 0.1), mass=2.0, collides=False, **_FREE),
        ),
        agents=2,
        drag=0.02,
        linear_friction=0.001,
        angular_friction=0.002,
    ),
}


def random_states(physics, count, seed):
    """Return random places and velocities of bodies close to each other, and actions, by name."""
    rng = np.random.default_rng(seed)
    moving = np.array([rows.body.is_movable for rows in physics.rows for _ in range(rows.body.count)])
    angles = [rows for rows in physics.rows if rows.body.has_angle]
    turning = np.array([rows.body.is_rotatable for rows in angles for _ in range(rows.body.count)], dtype=bool)
    state = {
        "pos": rng.uniform(-0.4, 0.4, (count, physics.num_bodies, 2)),
        "vel": rng.normal(0.0, 0.3, (count, physics.num_moving, 2)) * moving[: physics.num_moving, None],
        "rot": rng.uniform(-4.0, 4.0, (count, physics.num_angles)),
        "spin": rng.normal(0.0, 1.0, (count, physics.num_angles)) * turning,
        "action": rng.uniform(-1.0, 1.0, (count, physics.agents, 3)),
    }
    return {name: values.astype(np.float32) for name, values in state.items()}


class Stepper:
    """Worlds of a scene on the CPU, with a kernel per phase.

    Attributes:
        state: The arrays of State.
    """

    def __init__(self, physics, count):
        warp_kernels.start()
        self.physics, self.count, self.state, self.io = physics, count, State(), IO()
        vectors = {"pos": wp.vec2, "vel": wp.vec2, "force": wp.vec2}
        shapes = dict.fromkeys(("force", "rot", "spin", "torque"), (1,)) | physics.fields
        for name, shape in shapes.items():
            setattr(self.state, name, wp.zeros((count, *shape), dtype=vectors.get(name, float), device="cpu"))
        self._kernels = kernels_of(physics)

    def set(self, **values):
        """Set arrays of State, and the actions (E, A, K)."""
        for name, array in values.items():
            if name == "action":
                self.io.control = wp.array(array, dtype=float, device="cpu")
            elif array.size:
                getattr(self.state, name).assign(array)

    def step(self):
        """Take a step."""
        for kernel in self._kernels:
            size = (self.count, self.physics.num_moving)
            wp.launch(kernel, size, [Params(), self.state, self.io], device="cpu")

    def get(self, *names):
        """Return copies of arrays of State by name."""
        return {name: getattr(self.state, name).numpy().copy() for name in names}


@functools.cache
def kernels_of(physics):
    """Return a kernel per phase of a scene."""

    def kernel_of(run):
        @wp.kernel(module="unique", enable_backward=False)
        def play(params: Params, state: State, io: IO):
            env, body = wp.tid()
            run(params, state, io, env, body)

        return play

    return [kernel_of(phase.run) for phase in motion(physics, Params, State, continuous=True)]


def worst(result, expected):
    """Return the largest difference of two arrays, relative above 1."""
    return float((np.abs(result - expected) / np.maximum(1.0, np.abs(expected))).max(initial=0.0))

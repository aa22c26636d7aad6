"""The kit of physics: recorded steps of VMAS 1.5.2 from random states, conservation laws, and bad scenes.

``make test-parity`` plays the original itself, see tests/libraries/test_vmas.py.
"""

import numpy as np
import pytest
import warp as wp

from parity.traces import read_arrays, select_arrays
from parity.vmas.scenes import SCENES, Stepper, worst
from parity.vmas.vmas_replay import PHYSICS
from warp_kernels.physics2d import geometry, lidar
from warp_kernels.physics2d.bodies import Body, Box, Disc, Joint, Line, Physics

PLACES, FORCES = 1e-5, 1e-4
"""Largest differences of places, and of velocities, forces and torques, relative above 1; they are float32."""


def recorded_scene(name):
    return select_arrays(read_arrays(PHYSICS), name)


@pytest.mark.variations(quick=1)
@pytest.mark.parametrize("name", ["shapes", "forces", "joints"])
def test_steps_from_random_states_equal_vmas(name):
    """Forces, torques, places and velocities of bodies that touch, after one step."""
    physics, trace = SCENES[name], recorded_scene(name)
    stepper = Stepper(physics, len(trace["pos"]))
    stepper.set(**{key: trace[key] for key in ("pos", "vel", "rot", "spin", "action")})
    stepper.step()
    result = stepper.get(*physics.fields)
    assert set(result) == {"pos", "vel", "force", "rot", "spin", "torque"}
    for key, values in result.items():
        assert np.isfinite(trace[f"after_{key}"]).all()
        assert worst(values, trace[f"after_{key}"]) < (PLACES if key in ("pos", "rot") else FORCES), key
    pushed = np.abs(trace["after_force"]).max(-1) > 1.0
    assert pushed.any(1).sum() > 10


def test_a_thousand_steps_without_contacts_equal_vmas():
    physics, trace = SCENES["free"], recorded_scene("free")
    stepper = Stepper(physics, 1)
    stepper.set(**{key: trace[key] for key in ("pos", "vel", "rot", "spin")})
    places = []
    for action in trace["action"]:
        stepper.set(action=action[None])
        stepper.step()
        places.append(stepper.get("pos", "rot"))
    assert len(places) == 1000
    for key in ("pos", "rot"):
        result = np.stack([place[key][0] for place in places[19::20]])
        assert np.ptp(result, axis=0).max() > 0.1
        assert worst(result, trace[f"after_{key}"]) < PLACES


CONSERVING = Physics(
    bodies=(
        Body("agent", Disc(0.1), count=3, thrust=0.0, is_movable=True),
        Body("box", Box(0.3, 0.2), mass=2.0, is_movable=True, is_rotatable=True),
        Body("line", Line(0.4), mass=1.5, is_movable=True, is_rotatable=True),
    ),
    agents=3,
    drag=0.0,
    substeps=100,
)


def cross(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def test_momentum_and_energy_are_conserved_without_drag():
    """Discs, a box and a line that start apart fly through each other's places; energy counts between contacts."""
    rng = np.random.default_rng(0)
    count = 60
    mass = np.array([1.0, 1.0, 1.0, 2.0, 1.5])
    inertia = np.array([2.0 * (0.3**2 + 0.2**2) / 12.0, 1.5 * 0.4**2 / 12.0])
    corners = np.array([[-0.6, 0.0], [0.6, 0.05], [0.0, 0.6], [0.0, 0.0], [0.0, -0.7]])
    vel = np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, -0.5], [0.0, 0.0], [0.0, 0.5]])
    pos = corners + rng.uniform(-0.05, 0.05, (count, 5, 2))
    vel = vel + rng.uniform(-0.1, 0.1, (count, 5, 2))
    stepper = Stepper(CONSERVING, count)
    stepper.set(
        pos=pos.astype(np.float32), vel=vel.astype(np.float32), action=np.zeros((count, 3, 2), np.float32),
        rot=rng.uniform(-3.0, 3.0, (count, 2)).astype(np.float32),
    )  # fmt: skip

    def measure():
        state = {key: values.astype(np.float64) for key, values in stepper.get("pos", "vel", "spin", "force").items()}
        momentum = (mass[:, None] * state["vel"]).sum(1)
        turning = (mass * cross(state["pos"], state["vel"])).sum(1) + (inertia * state["spin"]).sum(1)
        energy = 0.5 * (mass * (state["vel"] ** 2).sum(-1)).sum(1) + 0.5 * (inertia * state["spin"] ** 2).sum(1)
        return momentum, turning, energy, np.abs(state["force"]).max((1, 2))

    momentum, turning, energy, _ = measure()
    touched = np.zeros(count, bool)
    for _ in range(40):
        stepper.step()
        touched |= measure()[3] > 0.1
    new_momentum, new_turning, new_energy, force = measure()
    assert touched.mean() > 0.9
    assert np.abs(new_momentum - momentum).max() < 1e-4
    assert np.abs(new_turning - turning).max() < 2e-3
    apart = touched & (force == 0.0)
    assert apart.sum() > 20
    assert np.median(np.abs(new_energy - energy)[apart] / energy[apart]) < 0.01


def test_forces_of_a_pair_are_opposite():
    trace = recorded_scene("shapes")
    stepper = Stepper(CONSERVING, 40)
    stepper.set(pos=trace["pos"][:, :5], vel=np.zeros((40, 5, 2), np.float32), action=np.zeros((40, 3, 2), np.float32))
    stepper.step()
    force = stepper.get("force")["force"]
    assert (np.abs(force) > 1.0).any((1, 2)).sum() > 20
    assert np.abs(force.sum(1)).max() < 1e-4


AGENT = Body("agent", Disc(0.1), is_movable=True)


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        (
            {"bodies": (AGENT, Body("line", Line(1.0)), Body("ball", Disc(0.1), is_movable=True))},
            r"^bodies: expected 1 agents, then moving or turning bodies, then fixed ones, got agent, line, ball$",
        ),
        ({"bodies": (AGENT, AGENT)}, r"^bodies: expected different names, got 'agent' twice$"),
        ({"bodies": (AGENT, Body("wall", Box(1.0, 0.0)))}, r"^body 'wall': expected sizes and a mass > 0, got Body"),
        (
            {"bodies": (AGENT, Body("wall", Disc(1.0), collides=("agnt",)))},
            r"^body 'wall': collides: expected names of bodies, got 'agnt'$",
        ),
        (
            {"joints": (Joint("agent", "line"),), "substeps": 2},
            r"^body: expected one of agent, got 'line'$",
        ),
        ({"joints": (Joint("agent", "agent"),), "substeps": 2}, r"^joint: expected two bodies, got 'agent' twice$"),
        ({"substeps": 0}, r"^substeps: expected at least 1, got 0$"),
        ({"driven": 2}, r"^driven: expected 0 or the rows up to a movable body, got 2$"),
    ],
)
def test_bad_scenes_are_refused_in_one_line(scene, message):
    with pytest.raises(ValueError, match=message):
        Physics(**{"bodies": (AGENT,), "agents": 1} | scene)


def test_names_of_rows():
    physics = SCENES["shapes"]
    assert [physics.row(name) for name in ("agent_1", "disc", "line_1", "goal")] == [1, 2, 4, 10]
    assert (physics.num_bodies, physics.num_moving, physics.num_angles) == (11, 8, 6)


@wp.kernel(module="unique", enable_backward=False)
def cast(rays: wp.array(dtype=wp.vec4), distance: wp.array2d(dtype=float)):
    ray = wp.tid()
    origin = wp.vec2(rays[ray][0], rays[ray][1])
    unit = geometry.direction(rays[ray][2])
    distance[ray, 0] = lidar.disc_ray(origin, unit, wp.vec2(0.5, 0.2), 0.3)
    distance[ray, 1] = lidar.line_ray(origin, unit, wp.vec2(0.5, 0.2), geometry.direction(0.7), 0.4)
    distance[ray, 2] = lidar.box_ray(origin, unit, wp.vec2(0.5, 0.2), geometry.direction(0.7), wp.vec2(0.4, 0.2))


def test_rays_end_on_the_outline_of_what_they_meet():
    """The point at the distance of a ray is on the outline, and a ray that misses passes by."""
    rng = np.random.default_rng(0)
    rays = rng.uniform([-1.5, -1.5, -np.pi, 0.0], [-0.2, -0.6, np.pi, 0.0], (3000, 4)).astype(np.float32)
    distance = wp.zeros((len(rays), 3), dtype=float, device="cpu")
    wp.launch(cast, len(rays), [wp.array(rays, dtype=wp.vec4, device="cpu")], [distance], device="cpu")
    distance = distance.numpy()
    reach = np.linspace(0.0, 4.0, 800)
    unit = np.stack([np.cos(rays[:, 2]), np.sin(rays[:, 2])], -1)
    turn = np.array([[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]])

    def depth(points, shape):
        local = (points - [0.5, 0.2]) @ turn.T
        if shape == 0:
            return 0.3 - np.linalg.norm(local, axis=-1)
        return np.minimum(0.4 - np.abs(local[..., 0]), (0.2 if shape == 2 else 0.004) - np.abs(local[..., 1]))

    for shape in range(3):
        hits = np.isfinite(distance[:, shape])
        assert 20 < hits.sum() < 2900
        ends = rays[hits, :2] + distance[hits, shape, None] * unit[hits]
        assert np.abs(depth(ends, shape) - (0.004 if shape == 1 else 0.0)).max() < (0.4 if shape == 1 else 1e-5)
        along = rays[:, None, :2] + reach[:, None] * unit[:, None]
        inside = (depth(along, shape) > 0.005 if shape != 1 else depth(along, shape) > 0.0).any(1)
        assert (hits | ~inside | (shape == 1)).all()
        assert (inside | ~hits).mean() > 0.97

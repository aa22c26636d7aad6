"""Steps of VMAS 1.5.2, which replays compare with the kit of physics and with the scenarios.

The recorded traces of the quick tests are made by this module:

    .nox/vmas/bin/python -m libraries.vmas_oracle   # in the folder tests
"""

import functools
import itertools
import json
import random
import unittest.mock
from pathlib import Path

import numpy as np
import torch
import vmas
from parity.traces import write_arrays
from parity.vmas.scenes import SCENES, random_states
from parity.vmas.vmas_replay import SCENARIOS
from vmas.simulator import core, joints
from vmas.simulator.dynamics.holonomic import Holonomic
from vmas.simulator.dynamics.holonomic_with_rot import HolonomicWithRotation

from warp_kernels.physics2d.bodies import Box, Disc
from warp_kernels.physics2d.motion import num_throttles

FOLDER = Path(__file__).parents[1] / "parity" / "vmas"
PHYSICS, TRACE = FOLDER / "physics.npz.xz", FOLDER / "scenarios.npz.xz"
STATES, STEPS = 40, 22
"""Recorded states per scene, and transitions per scenario."""


# ---------------------------------------------------------------- scenes


def shape_of(shape):
    """Return a shape of VMAS."""
    if isinstance(shape, Disc):
        return core.Sphere(shape.radius)
    return core.Box(shape.length, shape.width, shape.is_hollow) if isinstance(shape, Box) else core.Line(shape.length)


def entity_of(physics, rows, index):
    """Return a body as an entity of VMAS."""
    body = rows.body
    common = dict(
        name=f"{body.name}_{index}" if body.count > 1 else body.name, shape=shape_of(body.shape), mass=body.mass,
        movable=body.is_movable, rotatable=body.is_rotatable, collide=bool(body.collides), v_range=body.speed_range,
        max_speed=body.max_speed, drag=body.drag, linear_friction=body.linear_friction,
        angular_friction=body.angular_friction,
        gravity=torch.tensor(body.gravity) if any(body.gravity) else None,
    )  # fmt: skip
    if isinstance(body.collides, tuple):
        names = body.collides
        common["collision_filter"] = lambda entity: entity.name.rpartition("_")[0] in names or entity.name in names
    if rows.first >= physics.agents:
        return core.Landmark(**common)
    turns = num_throttles(physics) == 3
    multiplier = [body.thrust, body.thrust, body.turning_thrust] if turns else body.thrust
    dynamics = HolonomicWithRotation() if turns else Holonomic()
    return core.Agent(**common, u_multiplier=multiplier, max_f=body.max_force, dynamics=dynamics)


def pile_up(entities):
    """Put all entities of the second world of a batch at one place.

    VMAS skips pairs of bodies that are far apart in all worlds of a batch; so the first world is as in a large one.
    Bodies at one place do not push each other, and those of the second world take no action.
    """
    for entity in entities:
        entity.set_pos(torch.zeros(2), 1)
        entity.set_vel(torch.zeros(2), 1)


def first_only(action):
    """Return the action of an agent in the first world, and none in the second one, (2, K)."""
    row = torch.from_numpy(np.asarray(action))
    return torch.stack([row, torch.zeros_like(row)])


def world_of(physics, count=2):
    """Return worlds of VMAS with the bodies and joints of a scene, and their entities in the order of the rows."""
    world = core.World(
        count, torch.device("cpu"), dt=physics.step, substeps=physics.substeps, drag=physics.drag,
        linear_friction=physics.linear_friction, angular_friction=physics.angular_friction,
        x_semidim=physics.half_width, y_semidim=physics.half_height, collision_force=physics.contact_force,
        joint_force=physics.joint_force, torque_constraint_force=physics.joint_torque,
        contact_margin=physics.contact_margin, gravity=physics.gravity,
    )  # fmt: skip
    entities = []
    for rows in physics.rows:
        for index in range(rows.body.count):
            entity = entity_of(physics, rows, index)
            (world.add_agent if isinstance(entity, core.Agent) else world.add_landmark)(entity)
            entities.append(entity)
            if not rows.body.has_angle:
                entity.set_rot(torch.tensor([rows.body.angle]), None)
    for joint in physics.joints:
        ends = [entities[physics.row(name)] for name in (joint.body, joint.other)]
        constraint = joints.JointConstraint(
            *ends, joint.anchor, joint.other_anchor, joint.distance, joint.angle is None, joint.angle
        )
        world._joints[frozenset(end.name for end in ends)] = constraint
    return world, entities


def put(physics, entities, states, index):
    """Put the first world into one of the states."""
    angle = 0
    pile_up(entities)
    for row, entity in enumerate(entities):
        entity.set_pos(torch.from_numpy(states["pos"][index, row]), 0)
        if row < physics.num_moving:
            entity.set_vel(torch.from_numpy(states["vel"][index, row]), 0)
        if physics.rows_at(row).body.has_angle:
            entity.set_rot(torch.from_numpy(states["rot"][index, angle : angle + 1]), 0)
            entity.set_ang_vel(torch.from_numpy(states["spin"][index, angle : angle + 1]), 0)
            angle += 1


def play(physics, world, entities, action):
    """Take a step with throttles (A, 3); return the state after it, and the forces and torques of its last part."""
    size = num_throttles(physics)
    for agent, throttle in zip(world.agents, action, strict=True):
        multiplier = agent.action.u_multiplier_tensor
        agent.action.u = first_only(throttle[:size]) * multiplier
        agent.dynamics.check_and_process_action()
    world.step()
    moving = entities[: physics.num_moving]
    angles = [entity for row, entity in enumerate(entities) if physics.rows_at(row).body.has_angle]
    values = {
        "pos": [entity.state.pos[0] for entity in entities],
        "vel": [entity.state.vel[0] for entity in moving],
        "force": [world.forces_dict[entity][0] * entity.movable for entity in moving],
        "rot": [entity.state.rot[0, 0] for entity in angles],
        "spin": [entity.state.ang_vel[0, 0] for entity in angles],
        "torque": [world.torques_dict[entity][0, 0] * entity.rotatable for entity in angles],
    }
    return {name: np.array([value.numpy() for value in rows], np.float32) for name, rows in values.items()}


def record_scene(physics, count, seed):
    """Return random states of a scene, and what a step makes of each, by name."""
    world, entities = world_of(physics)
    trace = random_states(physics, count, seed)
    results = []
    for index in range(count):
        put(physics, entities, trace, index)
        results.append(play(physics, world, entities, trace["action"][index]))
    return trace | {f"after_{name}": np.stack([result[name] for result in results]) for name in results[0]}


def record_walk(physics, steps, seed):
    """Return one state, actions and the places after every step, by name."""
    world, entities = world_of(physics)
    start = random_states(physics, 1, seed)
    action = np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, physics.agents, 3)).astype(np.float32)
    put(physics, entities, start, 0)
    results = []
    for throttle in action:
        pile_up(entities)
        results.append(play(physics, world, entities, throttle))
    walk = {f"after_{name}": np.stack([result[name] for result in results]) for name in ("pos", "rot")}
    return start | {"action": action} | walk


# ---------------------------------------------------------------- scenarios


def make(name, settings):
    """Return an original scenario with two worlds, of which the first one is compared."""
    continuous = settings.get("continuous_actions", True)
    kwargs = {key: value for key, value in settings.items() if key not in ("continuous_actions", "max_steps")}
    return vmas.make_env(name, 2, device="cpu", continuous_actions=continuous, seed=0, **kwargs)


def entities_of(env, name, settings):
    """Return the entities in the order of the rows."""
    named = {entity.name: entity for entity in env.world.entities}
    return [named[entity] for entity in SCENARIOS[name].entities(settings)]


def state_of(env, name, settings):
    """Return the state of a scenario by name: places of entities, and what it remembers."""
    entities = entities_of(env, name, settings)
    state = {
        "pos": torch.stack([entity.state.pos[0] for entity in entities]),
        "vel": torch.stack([entity.state.vel[0] for entity in entities]),
        "rot": torch.stack([entity.state.rot[0, 0] for entity in entities]),
        "spin": torch.stack([entity.state.ang_vel[0, 0] for entity in entities]),
    }
    state |= SCENARIOS[name].memory(env.scenario)
    return {key: np.asarray(value, np.float32) for key, value in state.items()}


class ScriptNoise:
    """Gives the scripted players of VMAS's football known normal numbers, instead of those of ``torch.randn``."""

    def __init__(self, env):
        """Find the scripted players of an environment; other scenarios have none."""
        controller = getattr(env.scenario, "red_controller", None)
        self.players = controller.teammates if controller else []
        self.numbers = np.zeros((len(self.players), 12), np.float32)
        for index, agent in enumerate(self.players):
            agent._action_script = functools.partial(self.play, index, controller)

    def play(self, index, controller, agent, world):
        """Run the script of a player."""
        row = self.numbers[index]
        ways = itertools.cycle((row[8:10], row[10:12]))  # of the target, and of the velocity there
        is_choice = index == 0 and controller.decision_strength != 1

        def draw(*size, device=None):
            nonlocal is_choice
            shape = tuple(size[0]) if isinstance(size[0], torch.Size) else size
            values = row[1:5].reshape(2, 2) if len(shape) == 3 else row[5:8] if shape[1] == 3 else None
            if is_choice:  # of the player that goes for the ball: numbers of opponents have no effect
                values, is_choice = np.pad(self.numbers[:, 0], (0, shape[1] - len(self.numbers))), False
            return torch.from_numpy(np.broadcast_to(next(ways) if values is None else values, shape).copy())

        with unittest.mock.patch.object(torch, "randn", draw):
            controller.run(agent, world)


def bring_together(env, entities, rng):
    """Move some agents to the surfaces of other bodies, and some of those that move to bodies that do not collide."""
    for entity in entities:
        other_entities = [other for other in entities if other is not entity]
        is_agent = isinstance(entity, core.Agent)
        targets = [other for other in other_entities if other.collide or not is_agent] or other_entities
        if entity.movable and targets and rng.random() < (0.3 if is_agent else 0.15):
            other = targets[rng.integers(len(targets))]
            shape = other.shape
            angle = rng.uniform(-np.pi, np.pi)
            away = np.array([np.cos(angle), np.sin(angle)])
            if isinstance(shape, core.Sphere):
                offset = away * (shape.radius + entity.shape.circumscribed_radius() + rng.uniform(-0.02, 0.01))
            else:
                half = (
                    np.array([shape.length, getattr(shape, "width", 0.0) if isinstance(shape, core.Box) else 0.0]) / 2
                )
                half = np.minimum(half, 1.0)
                share = rng.uniform(-1.0, 1.0, 2)
                share[1 if isinstance(shape, core.Line) or rng.random() < 0.5 else 0] = rng.choice([-1.0, 1.0])
                offset = share * half + np.sign(share) * rng.uniform(0.01, 0.04)
                turn = float(other.state.rot[0, 0])
                offset = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ offset
            entity.set_pos(other.state.pos[0] + torch.tensor(offset, dtype=torch.float32), 0)


def reach_goals(entities, rng):
    """Move all entities with a goal to it."""
    for entity in entities:
        if entity.goal is not None:
            offset = torch.tensor(rng.uniform(-0.03, 0.03, 2), dtype=torch.float32)
            entity.set_pos(entity.goal.state.pos[0] + offset, 0)


def record(name, settings, steps, seed):
    """Play a scenario; return the arrays of its transitions, with a leading number of steps, by name."""
    torch.manual_seed(seed)
    random.seed(seed)
    rng = np.random.default_rng(seed)
    env = make(name, settings)
    env.seed(seed)
    entities, trace = entities_of(env, name, settings), {}
    noise = ScriptNoise(env)
    continuous = settings.get("continuous_actions", True)
    for step in range(steps):
        if step % 15 == 0:
            env.reset()
        if rng.random() < 0.5:
            bring_together(env, entities, rng)
        if rng.random() < 0.1:
            reach_goals(entities, rng)
        SCENARIOS[name].arrange(env, rng)
        pile_up(entities)
        values = state_of(env, name, settings)
        if noise.players:
            values["noise"] = noise.numbers = rng.standard_normal(noise.numbers.shape, np.float32)
        components = env.agents[0].action_size
        size = (len(env.agents), components if continuous else 1)
        choices = 3**components
        action = rng.uniform(-1.0, 1.0, size).astype(np.float32) if continuous else rng.integers(0, choices, size)
        action = action * env.agents[0].u_range if continuous else action
        values["action"] = action if continuous else action.astype(np.int8)
        obs, reward, done, _ = env.step([first_only(action[row]) for row in range(len(env.agents))])
        values |= {f"after_{key}": value for key, value in state_of(env, name, settings).items()}
        values |= {
            "obs": torch.stack(obs)[:, 0].numpy(),
            "reward": torch.stack(reward)[:, 0].flatten().numpy(),
            "done": done[0].numpy(),
        }
        SCENARIOS[name].hide(values)
        for key, value in values.items():
            trace.setdefault(key, []).append(value)
        if done[0]:
            env.reset()
    return {key: np.stack(values) for key, values in trace.items()}


def record_all(folder=FOLDER):
    """Write the traces of the quick tests."""
    arrays = {}
    for seed, (name, physics) in enumerate(SCENES.items()):
        walks = name in ("free",)
        trace = record_walk(physics, 1000, seed) if walks else record_scene(physics, STATES, seed)
        if walks:  # every twentieth place
            trace |= {key: value[19::20] for key, value in trace.items() if key.startswith("after_")}
        arrays |= {f"{name}.{key}": value for key, value in trace.items()}
    write_arrays(folder / PHYSICS.name, arrays)
    traced = [(name, settings) for name, scenario in SCENARIOS.items() for settings in scenario.traced]
    arrays = {"settings": np.array(json.dumps(traced))}
    for index, (name, settings) in enumerate(traced):
        for key, values in record(name, settings, STEPS, seed=index).items():
            arrays[f"{index}.{key}"] = values
    write_arrays(folder / TRACE.name, arrays)
    for path in (PHYSICS, TRACE):
        print(f"{folder / path.name}: {(folder / path.name).stat().st_size} bytes")


if __name__ == "__main__":
    record_all()

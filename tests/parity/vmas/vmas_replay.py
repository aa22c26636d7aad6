"""Replay of recorded transitions of VMAS's scenarios."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TRACE = Path(__file__).with_name("scenarios.npz.xz")
PHYSICS = Path(__file__).with_name("physics.npz.xz")


class Traced(NamedTuple):
    """How traces of a scenario are recorded."""

    id: str
    """ID of the environment."""
    entities: Callable[[dict[str, Any]], list[str]]
    """Names of the original's entities in the order of the rows, from the settings."""
    memory: Callable[[Any], dict[str, Any]]
    """State of the original beside its entities, by name."""
    traced: tuple[dict[str, Any], ...]
    """Settings of the recorded traces."""
    arrange: Callable[[Any, np.random.Generator], None] = lambda env, rng: None
    """Moves bodies of the first world so that rare cases occur."""
    hide: Callable[[dict[str, Any]], None] = lambda values: None
    """Sets to NaN what is random in a transition."""


def agents(settings, count):
    """Return the names of agents."""
    return [f"agent_{index}" for index in range(settings.get("n_agents", count))]


def transport_entities(settings):
    """Return agents, packages and the goal."""
    packages = [f"package {index}" for index in range(settings.get("n_packages", 1))]
    return [*agents(settings, 4), *packages, "goal"]


def transport_memory(scenario):
    """Return the distances of packages to the goal, and whether they are on it."""
    packages = scenario.packages
    return {
        "gap": [float(package.global_shaping[0]) / scenario.shaping_factor for package in packages],
        "on_goal": [float(package.on_goal[0]) for package in packages],
    }


def balance_entities(settings):
    """Return agents, package, line, goal and floor."""
    return [*agents(settings, 3), "package", "line", "goal", "floor"]


def balance_memory(scenario):
    """Return the distance of the package to the goal."""
    return {"gap": float(scenario.global_shaping[0]) / scenario.shaping_factor}


def navigation_entities(settings):
    """Return agents and their goals."""
    names = agents(settings, 4)
    return [*names, *(f"goal {index}" for index in range(len(names)))]


def navigation_memory(scenario):
    """Return the distances of agents to their goals."""
    return {"gap": [float(agent.pos_shaping[0]) / scenario.pos_shaping_factor for agent in scenario.world.agents]}


def wheel_entities(settings):
    """Return agents and the line."""
    return [*agents(settings, 4), "line"]


def dispersion_entities(settings):
    """Return agents and food."""
    names = agents(settings, 4)
    return [*names, *(f"food_{index}" for index in range(settings.get("n_food", len(names))))]


def dispersion_memory(scenario):
    """Return the food that has been eaten."""
    return {"eaten": [float(food.eaten[0]) for food in scenario.world.landmarks]}


def sampling_memory(scenario):
    """Return the peaks, the largest density and the cells that were sampled."""
    return {
        "peak": [peak[0].numpy() for peak in scenario.locs],
        "max_density": float(scenario.max_pdf[0]),
        "sampled": scenario.sampled[0].numpy(),
    }


def reverse_transport_entities(settings):
    """Return agents, the package, which has the number of the last agent, and the goal."""
    names = agents(settings, 4)
    return [*names, f"package {len(names) - 1}", "goal"]


def reverse_transport_memory(scenario):
    """Return the distance of the package to the goal."""
    return {"gap": float(scenario.package.global_shaping[0]) / scenario.shaping_factor}


def give_way_entities(settings):
    """Return agents, goals, and the walls by kind."""
    passages = ("1", "2") if settings.get("mirror_passage") else ("1",)
    ceilings = [f"ceil 1{'' if number == '1' else number} {index}" for number in passages for index in (1, 0)]
    names = ["ceil 2", "ceil 22"][: len(passages)]
    sides = [f"{name} {index}" for name in names for index in (0, 1)]
    floor = ["floor"] * (len(passages) == 1)
    return [
        *("agent_0", "agent_1", "goal_0", "goal_1", "wall 0", "wall 1"),
        *ceilings,
        *sides,
        *(f"{name} 2" for name in names),
        *floor,
    ]


def give_way_memory(scenario):
    """Return what the agents and their controllers remember."""
    players = scenario.world.agents
    memory = {}
    if scenario.pos_shaping_factor:
        memory["gap"] = [float(agent.shaping[0]) / scenario.pos_shaping_factor for agent in players]
    if getattr(scenario, "use_velocity_controller", True):
        memory["error"] = [agent.controller.prev_err[0].numpy() for agent in players]
        memory["error_sum"] = [agent.controller.accum_errs[0].numpy() for agent in players]
    return memory


def multi_give_way_entities(settings):
    """Return agents, goals, long walls and short ones."""
    counts = {"agent_": 4, "goal ": 4, "wall ": 8, "short wall ": 4}
    return [f"{name}{index}" for name, count in counts.items() for index in range(count)]


def discovery_entities(settings):
    """Return agents and targets."""
    return [*agents(settings, 5), *(f"target_{index}" for index in range(settings.get("n_targets", 7)))]


def discovery_memory(scenario):
    """Return the targets that are gone, and which ones agents cover in this step."""
    return {
        "covered": scenario.all_time_covered_targets[0].numpy(),
        "coverers": (getattr(scenario, "agents_per_target", 0) * scenario.covered_targets)[0].numpy(),
    }


def discovery_arrange(env, rng):
    """Put two agents near a target."""
    import torch

    targets = env.scenario._targets
    if rng.random() < 0.4:
        target = targets[rng.integers(len(targets))]
        for agent in rng.permutation(len(env.agents))[:2]:
            offset = torch.tensor(rng.uniform(-0.25, 0.25, 2), dtype=torch.float32)
            env.agents[agent].set_pos(target.state.pos[0] + offset, 0)


def hide_moved_targets(values):
    """Hide places of targets that were covered in a transition, and what LIDARs see then: they are random."""
    covered = np.flatnonzero(values["after_coverers"])
    if covered.size:
        values["after_pos"][covered - len(values["after_coverers"])] = np.nan
        values["obs"][:, 4:] = np.nan


def flocking_entities(settings):
    """Return agents, the target and obstacles."""
    return [*agents(settings, 4), "target", *(f"obstacle_{index}" for index in range(settings.get("n_obstacles", 5)))]


def flocking_memory(scenario):
    """Return the time of the target, and the deviations of distances."""
    deviation = [float(agent.distance_shaping[0]) for agent in scenario.world.policy_agents]
    return {"time": float(scenario.t[0]), "deviation": np.array(deviation) / scenario.dist_shaping_factor}


def football_entities(settings):
    """Return players, the ball and the walls by kind."""
    counts = {name: settings.get(f"n_{name}_agents", 3) for name in ("blue", "red")}
    corners = [f"{side} {{}} {end}" for end in ("Top", "Bottom") for side in ("Right", "Left")]
    return [
        *(f"agent_{name}_{index}" for name, count in counts.items() for index in range(count)),
        "Ball",
        *(corner.format("").replace("  ", " ") + " Wall" for corner in corners),
        *("Right Goal Back", "Left Goal Back"),
        *(corner.format("Goal") for corner in corners),
    ]


def football_memory(scenario):
    """Return where scripted players go, and the distances that the dense reward compares."""
    ball, controller = scenario.ball, scenario.red_controller
    memory = {}
    if controller is not None and controller.teammates:
        goals = [controller.objectives[agent] for agent in controller.teammates]
        memory["target"] = [goal["target_pos"][0].numpy() for goal in goals]
        memory["lead"] = [goal["target_pos_rel"][0].numpy() for goal in goals]
    if scenario.dense_reward:
        factors = scenario.pos_shaping_factor_ball_goal, scenario.pos_shaping_factor_agent_ball
        teams = ("blue",) if scenario.ai_red_agents else ("blue", "red")
        memory["ball_to_goal"] = [float(getattr(ball, f"pos_shaping_{team}")[0]) / factors[0] for team in teams]
        memory["agent_to_ball"] = [float(getattr(ball, f"pos_shaping_agent_{team}")[0]) / factors[1] for team in teams]
    return memory


def football_arrange(env, rng):
    """Put the ball near a goal line or a border or before an agent, or two scripted players about as far from it."""
    import torch

    scenario, case = env.scenario, rng.random()
    half = np.array([scenario.pitch_length, scenario.pitch_width]) / 2.0
    if case < 0.15:
        position = rng.choice([-1.0, 1.0]) * (half[0] + rng.uniform(-0.01, 0.03)), rng.uniform(-0.2, 0.2)
    elif case < 0.3:
        position = (rng.choice([-1.0, 1.0], 2) * (half - rng.uniform(0.0, 0.06, 2))) * rng.choice([0.5, 1.0], 2)
    elif case < 0.6:
        agent = env.agents[rng.integers(len(env.agents))]
        angle = float(agent.state.rot[0, 0]) + rng.uniform(-1.0, 1.0)
        reach = agent.shape.radius + scenario.ball_size + rng.uniform(0.0, 0.05)
        position = agent.state.pos[0].numpy() + reach * np.array([np.cos(angle), np.sin(angle)])
    elif scenario.red_controller is not None:
        position = rng.uniform(-0.4, 0.4, 2)
        for player in scenario.red_agents[:2]:  # behind it, as their side counts more than their distance
            angle, reach = rng.uniform(-0.7, 0.7), rng.uniform(0.1, 0.2)
            offset = reach * np.array([np.cos(angle), np.sin(angle)])
            player.set_pos(torch.tensor(position + offset, dtype=torch.float32), 0)
    else:
        return
    scenario.ball.set_pos(torch.tensor(position, dtype=torch.float32), 0)
    scenario.ball.set_vel(torch.tensor(rng.uniform(-0.3, 0.3, 2), dtype=torch.float32), 0)


SCENARIOS = {
    "balance": Traced(
        "VMASBalance-v0",
        balance_entities,
        balance_memory,
        ({}, {"n_agents": 2, "package_mass": 1.0, "continuous_actions": False}),
    ),
    "dispersion": Traced(
        "VMASDispersion-v0",
        dispersion_entities,
        dispersion_memory,
        (
            {"penalise_by_time": True},
            {"n_agents": 2, "n_food": 5, "share_reward": True, "food_radius": 0.2, "continuous_actions": False},
        ),
    ),
    "navigation": Traced(
        "VMASNavigation-v0",
        navigation_entities,
        navigation_memory,
        (
            {},
            {
                "n_agents": 6,
                "agents_with_same_goal": 3,
                "split_goals": True,
                "collisions": False,
                "observe_all_goals": True,
                "enforce_bounds": True,
                "shared_rew": False,
                "pos_shaping_factor": 2.0,
                "continuous_actions": False,
            },
            {"n_agents": 3, "n_lidar_rays": 7, "lidar_range": 0.6, "shared_rew": False, "agent_radius": 0.15},
        ),
    ),
    "wheel": Traced("VMASWheel-v0", wheel_entities, lambda scenario: {}, ({}, {"n_agents": 2, "line_mass": 5.0})),
    "transport": Traced(
        "VMASTransport-v0",
        transport_entities,
        transport_memory,
        (
            {},
            {"n_agents": 2, "n_packages": 2, "package_width": 0.3, "package_mass": 5.0, "continuous_actions": False},
        ),
    ),
    "sampling": Traced(
        "VMASSampling-v0",
        lambda settings: agents(settings, 3),
        sampling_memory,
        (
            {},
            {
                "n_agents": 5,
                "shared_rew": False,
                "lidar_range": 0.4,
                "agent_radius": 0.1,
                "xdim": 0.5,
                "grid_spacing": 0.25,
                "n_gaussians": 2,
                "cov": 0.2,
                "norm": False,
                "continuous_actions": False,
            },
        ),
    ),
    "reverse_transport": Traced(
        "VMASReverseTransport-v0",
        reverse_transport_entities,
        reverse_transport_memory,
        (
            {},
            {
                "n_agents": 2,
                "package_width": 0.3,
                "package_length": 0.4,
                "package_mass": 5.0,
                "continuous_actions": False,
            },
        ),
    ),
    "give_way": Traced(
        "VMASGiveWay-v0",
        give_way_entities,
        give_way_memory,
        (
            {"observe_rel_pos": True, "agent_collision_penalty": -1.0, "passage_collision_penalty": -0.5},
            {
                "mirror_passage": True,
                "done_on_completion": True,
                "use_velocity_controller": False,
                "energy_rew_coeff": 0.2,
                "obstacle_collision_penalty": -0.3,
                "a_range": 2.0,
                "continuous_actions": False,
            },
        ),
    ),
    "football": Traced(
        "VMASFootball-v0",
        football_entities,
        football_memory,
        (
            {},
            {
                "n_blue_agents": 2,
                "n_red_agents": 2,
                "ai_red_agents": False,
                "enable_shooting": True,
                "continuous_actions": False,
                "shooting_angle": 2.5,
            },
            {
                "n_blue_agents": 5,
                "n_red_agents": 2,
                "physically_different": True,
                "enable_shooting": True,
                "ai_strength": 0.8,
                "ai_decision_strength": 0.7,
                "ai_precision_strength": 0.9,
                "dense_reward": False,
                "observe_teammates": False,
                "observe_adversaries": False,
            },
        ),
        football_arrange,
    ),
    "discovery": Traced(
        "VMASDiscovery-v0",
        discovery_entities,
        discovery_memory,
        (
            {"agent_collision_penalty": -1.0, "use_agent_lidar": True},
            {
                "n_agents": 3,
                "n_targets": 4,
                "x_semidim": 0.8,
                "min_dist_between_entities": 0.15,
                "lidar_range": 0.5,
                "covering_range": 0.3,
                "n_lidar_rays_entities": 9,
                "targets_respawn": False,
                "shared_reward": True,
                "covering_rew_coeff": 0.5,
                "time_penalty": -0.01,
                "continuous_actions": False,
            },
        ),
        discovery_arrange,
        hide_moved_targets,
    ),
    "flocking": Traced(
        "VMASFlocking-v0",
        flocking_entities,
        flocking_memory,
        (
            {},
            {
                "n_agents": 2,
                "n_obstacles": 7,
                "min_dist_between_entities": 0.2,
                "n_lidar_rays": 9,
                "collision_reward": -0.5,
                "dist_shaping_factor": 2.0,
                "continuous_actions": False,
            },
        ),
    ),
    "multi_give_way": Traced(
        "VMASMultiGiveWay-v0",
        multi_give_way_entities,
        give_way_memory,
        (
            {},
            {
                "u_range": 0.8,
                "a_range": 2.0,
                "linear_friction": 0.2,
                "min_input_norm": 0.2,
                "shared_rew": False,
                "pos_shaping_factor": 2.0,
                "final_reward": 0.1,
                "agent_collision_penalty": -1.0,
                "continuous_actions": False,
            },
        ),
    ),
}


def traces_of(name):
    """Return the indices of the recorded traces of a scenario."""
    listed = [scenario for scenario, traced in SCENARIOS.items() for _ in traced.traced]
    return [index for index, scenario in enumerate(listed) if scenario == name]


def assert_uniform(points, half):
    """Assert that points (N, 2) are uniform in [-half, half)^2, by their quarters and means."""
    points = points.double() / half
    assert points.abs().max() <= 1.0 + 1e-6
    error = 5.0 / len(points) ** 0.5
    assert ((points < 0.0).double().mean(0) - 0.5).abs().max() < error
    assert (points.abs().mean(0) - 0.5).abs().max() < error


def check_action_tables(page):
    """Compare the rows of the action tables of a page with the effect of each action on the first agent."""
    import torch

    from docs.scripts import tables
    from gpu_envs.runtime.factory import make_core

    throttles = {"nothing": 0.0, "left": -1.0, "right": 1.0, "down": -1.0, "up": 1.0}

    def change(action, continuous):
        core = make_core(tables.names()[page], 1, "cpu", seed=0, autoreset="disabled", continuous_actions=continuous)
        core.reset()
        core.world_state["pos"].copy_(
            3.0 + torch.arange(core.world_state["pos"].numel()).view_as(core.world_state["pos"])
        )
        core.step(torch.zeros_like(core.action_buffer) + torch.tensor(action, dtype=core.action_buffer.dtype))
        return core.world_state["vel"][0, 0]

    continuous, discrete = tables.action_tables(page)
    velocity_at_rest, unit = change(0, False), (change([1.0, 1.0], True) - change([0.0, 0.0], True))
    assert [row[0] for row in discrete] == list(range(9))
    for index, horizontal, vertical in discrete:
        expected = torch.tensor([throttles[horizontal], throttles[vertical]]) * unit
        torch.testing.assert_close(change(index, False) - velocity_at_rest, expected)
    for component, axis, limits in continuous:
        assert (axis, limits) == (("along x", "along y")[component], "[-1, 1]")
        action = [0.0, 0.0]
        action[component] = -0.5
        expected = torch.zeros(2)
        expected[component] = -0.5 * unit[component]
        torch.testing.assert_close(change(action, True) - velocity_at_rest, expected)


def core_at(name, settings, trace):
    """Return a core with a world per transition of a trace, in the state before it."""
    import torch

    from gpu_envs.runtime.factory import make_core

    worlds = len(trace["pos"])
    core = make_core(SCENARIOS[name].id, worlds, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    state = core.get_state()
    for field, values in core.world_state.items():
        if field in trace:
            rows = values_of(core, name, field, trace[field])
            state[f"state.{field}"] = torch.from_numpy(rows).to(values.dtype)
    core.set_state(state)
    return core


def values_of(core, name, field, values):
    """Return the values of the rows that a field of State has: those that move, or those with an angle."""
    physics = physics_of(core, name)
    if field == "vel":
        return values[:, : physics.num_moving]
    if field in ("rot", "spin"):
        rows = [row for row in range(physics.num_bodies) if physics.rows_at(row).body.has_angle]
        return values[:, rows]
    return values


def physics_of(core, name):
    """Return the bodies of an environment."""
    import importlib

    return importlib.import_module(f"gpu_envs.envs.vmas.{name}").physics_of(core.config)


def replay(name, settings, trace, tolerance=1e-5):
    """Take every transition of a trace, compare all results, and count the cases that matter."""
    import torch

    core = core_at(name, settings, trace)
    action = torch.from_numpy(trace["action"])
    obs, reward, terminated, truncated, _ = core.step(
        action if core.config.continuous_actions else action[..., 0].long()
    )
    differences = {}
    for field, values in core.world_state.items():
        if f"after_{field}" in trace and values.numel():
            expected = values_of(core, name, field, trace[f"after_{field}"])
            is_known = ~np.isnan(expected)
            result, expected = values.numpy()[is_known], expected[is_known]
            differences[field] = np.abs(result - expected).max()
            np.testing.assert_allclose(result, expected, atol=tolerance, rtol=tolerance, err_msg=field)
    is_known = ~np.isnan(trace["obs"])
    np.testing.assert_allclose(obs.numpy()[is_known], trace["obs"][is_known], atol=tolerance, rtol=tolerance)
    # rewards are differences of distances times up to 100
    np.testing.assert_allclose(reward.numpy(), trace["reward"], atol=20.0 * tolerance, rtol=tolerance)
    np.testing.assert_array_equal(terminated.numpy(), np.broadcast_to(trace["done"][:, None], terminated.shape))
    assert not truncated.any()
    return {
        "steps": len(trace["done"]),
        "ends": int(trace["done"].sum()),
        "rewards": int((trace["reward"] != 0).sum()),
        "worst": max(differences.values()),
    }

"""The kit of physics and the environments VMAS*-v0 against VMAS 1.5.2 itself."""

import numpy as np
import pytest
import vmas
from libraries import vmas_oracle as oracle
from libraries.oracle_checks import assert_recorded
from parity.vmas.scenes import SCENES, Stepper, worst
from parity.vmas.vmas_replay import SCENARIOS, replay

from gpu_envs.runtime.factory import make_core
from gpu_envs.vmas import make_env

STATES, STEPS = 400, 300


@pytest.mark.parametrize("name", ["shapes", "forces", "joints"])
def test_steps_from_random_states_equal_the_original(name):
    """Forces are relative above 1 N, and up to 60 N; a few states are near a choice of the nearest side."""
    physics, trace = SCENES[name], oracle.record_scene(SCENES[name], STATES, seed=100)
    stepper = Stepper(physics, STATES)
    stepper.set(**{key: trace[key] for key in ("pos", "vel", "rot", "spin", "action")})
    stepper.step()
    for key, values in stepper.get(*physics.fields).items():
        errors = [worst(mine, other) for mine, other in zip(values, trace[f"after_{key}"], strict=True)]
        limit = 1e-5 if key in ("pos", "rot") else 1e-4
        assert np.mean(np.array(errors) < limit) > 0.98, (key, sorted(errors)[-10:])


SETTINGS = {
    "balance": ({}, {"n_agents": 5, "package_mass": 2.0, "random_package_pos_on_line": False}),
    "discovery": (
        {"n_agents": 4, "agents_per_target": 3, "covering_range": 0.4, "time_penalty": -0.1, "shared_reward": True},
        {"use_agent_lidar": True, "n_lidar_rays_agents": 7, "targets_respawn": False, "agent_collision_penalty": -0.5},
        {"n_targets": 3, "y_semidim": 0.7, "agents_per_target": 1, "min_dist_between_entities": 0.3},
    ),
    "dispersion": ({"n_agents": 3, "n_food": 2, "pos_range": 0.5}, {"share_reward": True, "penalise_by_time": True}),
    "flocking": (
        {"n_agents": 6, "n_obstacles": 2, "collision_reward": -1.0},
        {"n_agents": 1, "n_lidar_rays": 20, "dist_shaping_factor": 0.5, "min_dist_between_entities": 0.05},
    ),
    "football": (
        {"ai_decision_strength": 0.5, "ai_precision_strength": 0.5, "ai_strength": 0.7, "n_red_agents": 4},
        {"n_blue_agents": 5, "physically_different": True, "enable_shooting": True, "ball_mass": 0.5},
        {"ai_red_agents": False, "enable_shooting": True, "n_blue_agents": 2, "shooting_radius": 0.12},
        {"ai_red_agents": False, "n_red_agents": 2, "goal_size": 0.6, "ball_size": 0.05, "scoring_reward": 1.0},
    ),
    "give_way": (
        {
            "linear_friction": 0.3,
            "min_input_norm": 0.2,
            "obstacle_collision_penalty": -0.3,
            "agent_collision_penalty": -1.0,
        },
        {"mirror_passage": True, "passage_collision_penalty": -0.5, "energy_rew_coeff": 0.1, "v_range": 0.8},
    ),
    "multi_give_way": (
        {"min_input_norm": 0.2, "final_reward": 1.0},
        {"shared_rew": False, "pos_shaping_factor": 3.0, "linear_friction": 0.3, "agent_collision_penalty": -1.0},
        {"shared_rew": False, "u_range": 1.0, "a_range": 0.3, "pos_shaping_factor": 0.0},
    ),
    "navigation": (
        {"n_agents": 5, "collisions": False, "agents_with_same_goal": 3},
        {"n_agents": 3, "shared_rew": False, "enforce_bounds": True, "world_spawning_x": 0.7},
        {"n_lidar_rays": 20, "lidar_range": 0.8, "agent_radius": 0.12, "final_reward": 0.5},
    ),
    "transport": ({"n_agents": 6}, {"n_packages": 3, "package_length": 0.25, "package_mass": 2.0}),
    "reverse_transport": ({"n_agents": 6, "package_width": 0.4}, {"package_length": 0.5, "package_mass": 2.0}),
    "sampling": (
        {"n_agents": 5, "lidar_range": 0.5, "n_gaussians": 5, "cov": 0.02},
        {"xdim": 0.5, "ydim": 0.25, "grid_spacing": 0.125, "agent_radius": 0.08, "shared_rew": False, "norm": False},
    ),
    "wheel": ({"line_length": 1.0}, {"n_agents": 6, "line_mass": 3.0, "desired_velocity": 0.2}),
}


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("name", SCENARIOS)
def test_transitions_equal_the_original(name, continuous):
    for seed, chosen in enumerate(SETTINGS[name]):
        settings = chosen | {"continuous_actions": continuous}
        counts = replay(name, settings, oracle.record(name, settings, STEPS, seed + 50), tolerance=5e-5)
        assert counts["steps"] == STEPS
        assert counts["rewards"] > 20


@pytest.mark.parametrize("name", SCENARIOS)
def test_spaces_and_names_equal_the_original(name):
    for continuous in (True, False):
        theirs = oracle.make(name, {"continuous_actions": continuous})
        core = make_core(SCENARIOS[name].id, 1, "cpu", continuous_actions=continuous)
        assert list(core.possible_agents) == [agent.name for agent in theirs.agents]
        for index, agent in enumerate(core.possible_agents):
            mine, other = core.action_spaces[agent], theirs.action_space[index]
            assert mine.shape == other.shape
            assert getattr(mine, "n", None) == getattr(other, "n", None)
            assert core.observation_spaces[agent].shape == theirs.observation_space[index].shape


def test_recorded_traces_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path)
    assert_recorded(tmp_path / oracle.PHYSICS.name, oracle.PHYSICS, tolerance=1e-4)
    assert_recorded(tmp_path / oracle.TRACE.name, oracle.TRACE, tolerance=1e-4)


@pytest.mark.parametrize("options", [{}, {"dict_spaces": True, "terminated_truncated": True, "max_steps": 2}])
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_loop_runs_with_both_libraries(name, options):
    """Structures, shapes and dtypes of all that a loop gets; values are compared above."""

    def layout(value):
        if isinstance(value, dict):
            return {key: layout(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [layout(item) for item in value]
        return tuple(value.squeeze(-1).shape), value.dtype  # rewards of VMAS's wheel are (E, 1)

    def play(make):
        env = make(name, num_envs=3, seed=0, **options)
        yield env.n_agents, [agent.name for agent in env.agents], env.num_envs, env.max_steps
        yield layout(env.reset(seed=1))
        for _ in range(2):
            actions = env.get_random_actions()
            yield layout(actions)
            *results, infos = env.step(actions)
            yield layout(results), type(infos), len(infos)
        yield layout(env.done())
        yield layout(env.reset_at(1, return_dones=True))
        yield type(env.action_space).__name__, type(env.observation_space).__name__

    assert list(play(make_env)) == list(play(vmas.make_env))

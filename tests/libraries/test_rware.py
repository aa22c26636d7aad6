"""RobotWarehouse-v0 against rware 2.0.0, transition by transition."""

import gymnasium
import numpy as np
import pytest
import rware
import torch
from libraries import rware_oracle as oracle
from libraries.oracle_checks import assert_equally_frequent, assert_recorded
from parity.grid.warehouse_replay import core_at, replay

from gpu_envs.envs.grid.robot_warehouse import REWARD_TYPES, nested_space, original_settings
from gpu_envs.runtime.factory import make_core

SETTINGS, STEPS = 48, 500


@pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")
@pytest.mark.parametrize("part", range(4))
def test_transitions_with_random_settings_equal_the_original(part):
    total = {}
    for index in range(part, SETTINGS, 4):
        settings = oracle.random_settings(np.random.default_rng(index), kind=index % len(oracle.KINDS))
        time_limit = ("termination", "truncation")[index // 4 % 2]
        counts = replay(settings, oracle.record(settings, STEPS, index), time_limit=time_limit)
        total = {name: count + total.get(name, 0) for name, count in counts.items()}
    assert total["steps"] == SETTINGS * STEPS // 4
    few = {"ties", "rings"} if part in (1, 2) else set()  # fewer robots
    assert min(count for name, count in total.items() if name not in few) > 20, total


@pytest.mark.parametrize(
    "name",
    ["rware-tiny-2ag-v2", "rware-small-4ag-hard-v2", "rware-medium-19ag-easy-v2", "rware-large-8ag-v2"],
)
def test_settings_of_registered_names_equal_the_original(name):
    theirs = gymnasium.make(name).unwrapped
    core = make_core("RobotWarehouse-v0", 1, "cpu", **original_settings(name))
    for setting, value in gymnasium.spec(name).kwargs.items():
        ours = getattr(core.config, setting)
        assert (REWARD_TYPES.index(ours) if setting == "reward_type" else ours) == getattr(value, "value", value)
    np.testing.assert_array_equal(core.world_state["floor"][0].numpy() > 0, theirs.highways > 0)
    assert [(column, row) for row, column in core.world_state["goal"][0].tolist()] == theirs.goals
    for row, agent in enumerate(core.possible_agents):
        assert core.observation_spaces[agent] == theirs.observation_space[row]
        assert core.action_spaces[agent] == theirs.action_space[row]


def test_longer_names_equal_the_original():
    rware.image_registration()
    for name in ("rware-img-tiny-2ag-v2", "rware-imgdict-Nd-small-3ag-easy-v2"):
        theirs = gymnasium.make(name).unwrapped
        core = make_core("RobotWarehouse-v0", 1, "cpu", **original_settings(name))
        (ours,) = {core.observation_spaces[agent].shape for agent in core.possible_agents}
        assert ours == (gymnasium.spaces.flatdim(theirs.observation_space[0]),)
        assert core.config.image_observation_directional == theirs.image_observation_directional


@pytest.mark.parametrize(
    "settings",
    [{}, {"msg_bits": 2}, {"observation_type": "image"}, {"observation_type": "image_dict", "sensor_range": 2}],
)
@pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")
def test_dictionaries_equal_the_original(settings):
    kind = settings.get("observation_type", "dict")
    theirs = oracle.make(**settings | {"observation_type": kind, "n_agents": 1})
    theirs.reset(seed=3)
    trace = {name: np.array([value]) for name, value in (oracle.state_of(theirs) | {"step": 0}).items()}
    core = core_at(settings | {"n_agents": 1}, trace)
    bits = settings.get("msg_bits", 0)
    core.step(torch.zeros((1, 1, 1 + bits) if bits else (1, 1), dtype=torch.long))
    space = nested_space(core.config)
    assert space == theirs.observation_space[0]
    ours = gymnasium.spaces.unflatten(space, core.obs[0, 0].numpy())
    want = theirs.step([[0, 0, 0]] if bits else [0])[0][0]
    if kind == "image":
        np.testing.assert_array_equal(ours, want)
    elif kind == "image_dict":
        for name in ("image", "features"):
            np.testing.assert_array_equal(ours[name], want[name])
    else:
        assert ours["self"].keys() == want["self"].keys()
        for name, value in want["self"].items():
            np.testing.assert_array_equal(ours["self"][name], value, err_msg=name)
        for mine, other in zip(ours["sensors"], want["sensors"], strict=True):
            for name, value in other.items():
                np.testing.assert_array_equal(mine.get(name), value, err_msg=name)


def test_recorded_traces_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "trace.npz.xz")
    assert_recorded(tmp_path / "trace.npz.xz", oracle.TRACE)


def test_starts_are_distributed_as_in_the_original():
    """Chi-square of cells and directions of robots and of requested shelves in 3,000 starts of the original."""
    settings = dict(layout="xx.x\n....\nxg.x", n_agents=3, request_queue_size=2)
    env = oracle.make(**settings)
    theirs = []
    for seed in range(3000):
        env.reset(seed=seed)
        state = oracle.state_of(env)
        cells = np.array(state["row"]) * 4 + np.array(state["column"])
        theirs.append([*cells, *state["direction"], *np.flatnonzero(state["shelf"].ravel() == 2)])
    core = make_core("RobotWarehouse-v0", 60_000, "cpu", seed=0, **settings)
    core.reset()
    state = core.world_state
    requested = (state["shelf"].flatten(1) == 2).nonzero()[:, 1].reshape(-1, 2)
    ours = torch.cat([state["row"] * 4 + state["column"], state["direction"], requested], 1).numpy()
    for mine, other in zip(ours.T, np.array(theirs).T, strict=True):
        assert_equally_frequent(mine, other)

"""Info entries of an environment (EnvDefinition.info) reach every view."""

import climbers
import gymnasium
import numpy as np
import pytest
import torch
from toy import announce

import gpu_envs

pytestmark = pytest.mark.usefixtures("toys")


def test_infos_of_batched_envs_have_extra_entries():
    for reuse in (False, True):
        env = gpu_envs.make("Toy-v0", 4, "cpu", seed=0, reuse_buffers=reuse)
        _, infos = env.reset()
        cells = env.core.world_state["cell"]
        assert torch.equal(infos["walker_1"]["place"], cells[:, 1])
        *_, infos = env.step(env.sample_actions())
        assert torch.equal(infos["walker_2"]["place"], cells[:, 2])
        copy = infos["walker_2"]["place"].clone()
        for _ in range(5):
            env.step(env.sample_actions())
        assert torch.equal(infos["walker_2"]["place"], copy) != reuse


def test_infos_of_rows_have_extra_entries():
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=4, device="cpu", seed=0)
    env.reset(seed=0)
    *_, info = env.step(env.sample_actions())
    assert torch.equal(info["place"], env.core.world_state["cell"].flatten())
    assert info["_place"].all()


def test_infos_of_single_worlds_have_extra_entries():
    env = gpu_envs.parallel_env("Toy-v0", masked=False)
    env.reset(seed=0)
    *_, infos = env.step(dict.fromkeys(env.agents, 0))
    cells = env._world.core.world_state["cell"][0].numpy()
    assert [infos[agent]["place"] for agent in env.possible_agents] == cells.tolist()
    learner = gymnasium.make("gpu_envs/Toy-v0", agent="walker_1", masked=False)
    _, info = learner.reset(seed=0)
    assert isinstance(info["place"], np.ndarray)
    assert info["place"] == learner.unwrapped.core.world_state["cell"][0, 1]


def test_final_info_of_rows_has_the_entries_at_the_end_of_the_episode(monkeypatch):
    announce(monkeypatch, "Climbers-v0", climbers)
    env = gymnasium.make_vec("gpu_envs/Climbers-v0", num_envs=2, device="cpu", autoreset_mode="same_step")
    env.reset(seed=0)
    for _ in range(5):
        *_, info = env.step(torch.tensor([2, 1, 2, 1]))
    assert info["_final_info"].all()
    assert info["final_info"]["height"].tolist() == [6, 5, 6, 5]
    assert info["final_info"]["_height"].all()


def test_infos_of_views_of_one_world_are_those_at_an_agents_end(monkeypatch):
    announce(monkeypatch, "Climbers-v0", climbers)
    env = gpu_envs.parallel_env("Climbers-v0")
    env.reset(seed=0)
    ends = {}
    while env.agents:
        *_, terminated, truncated, infos = env.step({"climber_0": 2, "climber_1": 1})
        ends |= {agent: infos[agent]["height"] for agent in infos if terminated[agent] or truncated[agent]}
    assert ends == {"climber_0": 6, "climber_1": 5}

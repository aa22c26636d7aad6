"""Info entries of an environment (EnvDefinition.info) reach every view."""

import gymnasium
import numpy as np
import pytest
import torch
from toy import announce

import gpu_envs


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    announce(monkeypatch)


def test_infos_of_batched_envs_have_extra_entries():
    for reuse in (False, True):
        env = gpu_envs.make("Toy-v0", 4, "cpu", seed=0, reuse_buffers=reuse)
        _, infos = env.reset()
        cells = env.core.world_state["cell"]
        assert torch.equal(infos["walker_1"]["place"], cells[:, 1])
        *_, infos = env.step(env.sample_actions())
        assert torch.equal(infos["walker_2"]["place"], cells[:, 2])
        kept = infos["walker_2"]["place"].clone()
        for _ in range(5):
            env.step(env.sample_actions())
        assert torch.equal(infos["walker_2"]["place"], kept) != reuse


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

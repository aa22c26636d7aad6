"""docs/guides/libraries.md: interfaces for any library, and their requirements beyond reset and step."""

import copy
import pickle
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from small_environments import SMALL, group_of

import gpu_envs
from gpu_envs.errors import CheckpointError

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "libraries.md"


def rows(**settings):
    return gymnasium.make_vec(
        "gpu_envs/SimpleTag-v0", num_envs=3, group="adversary", device="cpu", **SMALL["SimpleTag-v0"], **settings
    )


def test_every_interface_plays_a_step():
    """The last section of the page runs, and each interface plays."""
    section = PAGE.read_text(encoding="utf-8").partition("## Using another library")[2]
    (code,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    space = {}
    exec(compile(code, PAGE, "exec"), space)
    world, turns, single, rows, arrays, batch, core = (
        space[name] for name in ("world", "turns", "one", "rows", "arrays", "batch", "core")
    )
    world.reset(seed=0)
    assert set(world.step(dict.fromkeys(world.agents, 0))[0]) == set(world.possible_agents)
    turns.reset(seed=0)
    for agent in turns.agent_iter(len(turns.possible_agents)):
        turns.step(turns.action_space(agent).sample())
    single.reset(seed=0)
    assert single.observation_space.contains(single.step(single.action_space.sample())[0])
    for env, kind in ((rows, torch.Tensor), (arrays, np.ndarray)):
        env.reset(seed=0)
        assert isinstance(env.step(env.action_space.sample())[0], kind)
    batch.reset(seed=0)
    assert batch.step(batch.sample_actions())[0]["agent_0"].shape == (64, 14)
    assert core.step(core.sample_actions())[0].shape == (64, 4, 16)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_envs_report_their_autoreset_mode(mode):
    env = rows(autoreset_mode=mode)
    assert env.autoreset_mode is env.metadata["autoreset_mode"] is mode
    assert env.unwrapped is env
    assert env.spec.id == "gpu_envs/SimpleTag-v0"
    assert copy.deepcopy(env.spec).kwargs == pickle.loads(pickle.dumps(env.spec)).kwargs == env.spec.kwargs
    env.reset(seed=0)
    env.close()
    env.close()
    assert env.closed


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_are_rebuilt_and_need_a_reset(copied):
    """Copies have equal arguments, share nothing, and need a reset."""
    group = group_of("SimpleTag-v0")
    for env in (
        rows(autoreset_mode="same_step", to_numpy=True, opponents={"agent": "random"}),
        gymnasium.make("gpu_envs/SimpleTag-v0", agent=f"{group}_0", **SMALL["SimpleTag-v0"]),
        gpu_envs.parallel_env("SimpleTag-v0", **SMALL["SimpleTag-v0"]),
        gpu_envs.make(
            "SimpleTag-v0", 3, "cpu", domain_randomization={"good_max_speed": (1.0, 1.6)}, **SMALL["SimpleTag-v0"]
        ),
    ):
        env.reset(seed=1)
        twin = copied(env)
        if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
            for view in (twin, twin.unwrapped):
                assert view.spec.id == env.spec.id == "gpu_envs/SimpleTag-v0"
                assert view.spec.kwargs == env.spec.kwargs
        first, _ = twin.reset(seed=5)
        same, _ = env.reset(seed=5)
        assert type(first) is type(same)
        torch.testing.assert_close(first, same, rtol=0, atol=0)
        if isinstance(env, gymnasium.vector.VectorEnv):
            assert (twin.num_envs, twin.autoreset_mode, twin.to_numpy) == (env.num_envs, env.autoreset_mode, True)
            assert twin.core.obs.data_ptr() != env.core.obs.data_ptr()
        twin.close()
        env.close()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copying_a_core_raises(copied):
    core = gpu_envs.make("SimpleTag-v0", 2, "cpu").core
    with pytest.raises(CheckpointError, match=r"a core can be neither pickled nor copied; .*set_state\(core.get_state"):
        copied(core)


def test_copies_have_the_current_opponents():
    """The copy has the opponents of `set_opponents`, not the initial ones."""

    def stand_still(obs):
        return torch.zeros(obs.shape[:2], dtype=torch.int64)

    env = rows(autoreset_mode="same_step")
    env.set_opponents({"agent": stand_still})
    twin = copy.deepcopy(env)
    for view in (env, twin):
        view.reset(seed=0)
    action = env.sample_actions()
    assert torch.equal(env.step(action)[0], twin.step(action)[0])
    twin.set_opponents("random")
    assert any(not torch.equal(env.step(action)[0], twin.step(action)[0]) for _ in range(5))

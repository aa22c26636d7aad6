"""``spec`` of Gymnasium's views: the time limit in force, and policies among the arguments."""

import copy
import json
import pickle

import gymnasium
import pytest
import torch
import toy
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import RecordEpisodeStatistics, TimeAwareObservation
from small_environments import SMALL, group_of, refuses_illegal

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core

pytestmark = pytest.mark.representative


def up(obs, *mask):
    """Act as an opponent that always moves up."""
    return 4


class Up:
    """Another."""

    def __call__(self, obs, *mask):
        return 4


def steps_of_an_episode(env):
    """Return the number of steps of an episode and the flags of the last one."""
    _, info = env.reset(seed=0)
    env.action_space.seed(0)
    masked = refuses_illegal(env.unwrapped.core.id)
    for step in range(1, 10_000):
        action = env.action_space.sample(info["action_mask"] if masked else None)
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return step, terminated, truncated
    raise AssertionError


def test_spec_has_the_limit_in_force(env_id):
    full, learner, group = f"gpu_envs/{env_id}", f"{group_of(env_id)}_0", group_of(env_id)
    for settings in ({}, SMALL[env_id]):
        limit = make_core(env_id, 1, "cpu", **settings).definition.max_episode_steps
        assert gymnasium.make(full, agent=learner, **settings).spec.max_episode_steps == limit > 0
        rows = gymnasium.make_vec(full, num_envs=2, group=group, device="cpu", **settings)
        assert rows.spec.max_episode_steps == limit
        assert rows.core.definition.max_episode_steps == limit
    env = TimeAwareObservation(gymnasium.make(full, agent=learner, **SMALL[env_id]))
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    env.step(env.action_space.sample())


def test_settings_and_arguments_that_change_the_limit_show():
    def limits(**settings):
        rows = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=2, group="agent", device="cpu", **settings)
        return (
            gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", **settings).spec.max_episode_steps,
            rows.spec.max_episode_steps,
        )

    assert limits() == (25, 25)
    assert limits(max_cycles=50) == (50, 50)
    assert limits(max_episode_steps=10) == (10, 10)
    assert gymnasium.make_vec("gpu_envs/CartPole-v1", max_episode_steps=9, device="cpu").spec.max_episode_steps == 9
    assert gymnasium.make("gpu_envs/CartPole-v1", max_episode_steps=9).spec.max_episode_steps == 9
    assert gymnasium.make("gpu_envs/CartPole-v1", max_episode_steps=-1).spec.max_episode_steps is None
    endless = gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", max_cycles=50, max_episode_steps=-1)
    assert endless.spec.max_episode_steps == 50, "the environment's own limit stays"


def test_no_limit_is_none(monkeypatch):
    toy.announce(monkeypatch)
    assert gymnasium.make("gpu_envs/Toy-v0", agent="walker_0", max_steps=0).spec.max_episode_steps is None
    assert gymnasium.make_vec("gpu_envs/Toy-v0", device="cpu", max_steps=0).spec.max_episode_steps is None
    assert gymnasium.make("gpu_envs/Toy-v0", agent="walker_0", max_steps=6).spec.max_episode_steps == 6


def test_episode_ends_once_by_the_kind_of_its_limit(env_id):
    """A limit of the rules terminates, a cut truncates; a second limit is added to none."""
    env = gymnasium.make(f"gpu_envs/{env_id}", agent=f"{group_of(env_id)}_0", **SMALL[env_id])
    assert str(env).count("TimeLimit") == ("max_episode_steps" in SMALL[env_id])
    step, terminated, truncated = steps_of_an_episode(env)
    assert step <= env.spec.max_episode_steps
    assert terminated != truncated
    assert not (truncated and env.unwrapped.core.definition.time_limit_terminates)


@pytest.mark.parametrize("opponents", [up, Up(), torch.nn.Linear(1, 1), {"adversary": up}, {"adversary_0": "random"}])
def test_spec_with_policies_is_json(opponents, tmp_path, capsys):
    env = gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", opponents=opponents, max_cycles=3)
    wrapped = RecordEpisodeStatistics(env)
    for spec in (env.spec, wrapped.spec):
        decoded = EnvSpec.from_json(spec.to_json())
        assert decoded == spec
        assert json.loads(spec.to_json())["max_episode_steps"] == 3
        spec.pprint(print_all=True)
    assert "max_episode_steps=3" in capsys.readouterr().out
    assert gymnasium.make(EnvSpec.from_json(env.spec.to_json()), opponents="random").spec.max_episode_steps == 3
    if opponents == {"adversary_0": "random"}:
        gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
        return
    with pytest.raises(
        ConfigError, match=r"'policy [\w.]+'; JSON keeps only the name of a policy, give opponents= again"
    ):
        gymnasium.make(EnvSpec.from_json(env.spec.to_json()))


def test_spec_keeps_its_policies():
    """Environments made from the spec use its policies; copies of the spec share them."""
    calls = []

    class Watched(torch.nn.Module):
        def forward(self, obs):
            calls.append(obs)
            return 0

    model = Watched()
    model.grown = torch.ones(1, requires_grad=True) * 2  # torch refuses to copy it
    env = RecordEpisodeStatistics(gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", opponents=model))
    rebuilt = gymnasium.make(copy.deepcopy(env.spec))
    rebuilt.reset(seed=0)
    rebuilt.step(0)
    assert len(calls) == 3
    twin = pickle.loads(pickle.dumps(gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", opponents=up)))
    assert twin.spec.to_json()
    gymnasium.make(twin.spec).reset()


def test_specs_of_rows_are_json_too():
    settings = {"group": "agent", "opponents": {"adversary": lambda obs: torch.zeros(2, 3, dtype=torch.int64)}}
    env = gymnasium.make_vec(
        "gpu_envs/SimpleTag-v0",
        num_envs=2,
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
        device=torch.device("cpu"),
        **settings,
    )
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    rows = gymnasium.make_vec(spec, opponents="random")
    assert rows.autoreset_mode is env.autoreset_mode
    assert rows.num_envs == 2

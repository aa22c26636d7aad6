"""TorchRL: the EnvBase returns the results of the core; transforms, losses and the example's MAPPO work with it."""

import copy
import json
import pickle
import sys
from pathlib import Path

import pytest
import torch
from small_environments import SMALL
from torchrl.envs import ActionMask, Compose, GymEnv, RewardSum, StepCounter, TransformedEnv
from torchrl.envs.utils import MarlGroupMapType, check_env_specs, step_mdp

from docs.scripts import notebook
from gpu_envs.errors import ActionError, ConfigError, DeviceError, ResetNeededError
from gpu_envs.runtime.factory import make_core
from gpu_envs.views.torchrl import TorchRLEnv

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

CASES = {
    "discrete": ("SimpleTag-v0", {}),
    "one-hot": ("SimpleTag-v0", {"categorical_actions": False}),
    "continuous": ("SimpleTag-v0", {"continuous_actions": True}),
    "multi-discrete": ("TagContinuous-v0", {}),
    "multi-one-hot": ("TagContinuous-v0", {"categorical_actions": False}),
    "masks and turns": ("LeducPoker-v0", {}),
    "masks, one-hot": ("LeducPoker-v0", {"categorical_actions": False}),
    "one agent": ("CartPole-v1", {}),
    "info": ("SimpleSpread-v0", {"benchmark_data": True, "return_state": True}),
    "an agent each": ("SimpleTag-v0", {"group_map": MarlGroupMapType.ONE_GROUP_PER_AGENT, "return_state": True}),
}


def make(env_id, num_envs=5, device="cpu", **settings):
    return TorchRLEnv(env_id, num_envs, device, **{"seed": 0, **SMALL[env_id], **settings})


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


def stacked_actions(env, data):
    """Return the actions of a step in the format of the core."""
    actions = torch.zeros_like(env.core.action_buffer)
    for group, agents in env.group_map.items():
        action = data[group, "action"]
        if not env.categorical_actions:
            action = env.full_action_spec[group, "action"].to_categorical(action)
        for index, agent in enumerate(agents):
            row = env.core.possible_agents.index(agent)
            mine = action[:, index]
            actions[:, row] = (
                mine if mine.ndim == 1 else torch.nn.functional.pad(mine, (0, actions.shape[2] - mine.shape[1]))
            )
    return actions


def compare(env, data, current, alive, cut):
    """Hold the part of a tensordict that an environment writes against the core's tensors."""
    done = ~alive
    expected = {"done": done, "terminated": done & ~cut, "truncated": cut}
    for group, agents in env.group_map.items():
        rows = [env.core.possible_agents.index(agent) for agent in agents]
        width = env.core.observation_spaces[agents[0]].shape[0]
        assert torch.equal(data[group, "observation"], current["obs"][:, rows, :width])
        assert torch.equal(data[group, "alive"], alive[:, rows])
        for name, flags in expected.items():
            assert torch.equal(data[group, name], flags[:, rows, None]), name
        if "reward" in data[group].keys():  # noqa: SIM118 a tensordict
            assert torch.equal(data[group, "reward"], current["reward"][:, rows, None])
        if "action_mask" in current:
            assert torch.equal(data[group, "action_mask"], current["action_mask"][:, rows])
            assert torch.equal(data[group, "to_move"], current["to_move"][:, rows])
        for name in env.core.definition.info:
            assert torch.equal(data[group, "info", name], current[name][:, rows])
    if env.return_state:
        assert torch.equal(data["state"], current["state"])
    over = done.all(1, keepdim=True)
    assert torch.equal(data["done"], over)
    assert torch.equal(data["truncated"], over & cut.any(1, keepdim=True))
    assert torch.equal(data["terminated"], over & ~cut.any(1, keepdim=True))


def test_gym_env_of_torchrl_makes_an_environment():
    """It passes ``frameskip`` first, and makes the environment again without it."""
    env = GymEnv("gpu_envs/CartPole-v1")
    check_env_specs(env)
    assert env.rollout(5).shape[0] <= 5
    skipping = GymEnv("gpu_envs/CartPole-v1", frame_skip=4)
    assert skipping.rollout(20)["next", "reward"].max() == 4.0  # of four steps


@pytest.mark.parametrize("case", CASES)
def test_rollout_is_the_cores(case):
    """A rollout over several episodes, read after its end, equals the step results of the core."""
    env_id, settings = CASES[case]
    env, steps = make(env_id, **settings), 23
    data = env.rollout(steps, break_when_any_done=False)
    assert data.batch_size == (5, steps)
    options = {name: value for name, value in settings.items() if name in ("continuous_actions", "benchmark_data")}
    core = make_core(env_id, 5, "cpu", autoreset="disabled", seed=0, **SMALL[env_id] | options)
    obs, info = core.reset()
    current, cut, ends = info | {"obs": obs, "state": core.state()}, torch.zeros_like(core.alive), 0
    for t in range(steps):
        compare(env, data[:, t], current, current["alive"], cut)
        obs, reward, _, truncated, info = core.step(stacked_actions(env, data[:, t]))
        current, cut = info | {"obs": obs, "reward": reward, "state": core.state()}, cut | truncated
        compare(env, data[:, t]["next"], current, current["alive"], cut)
        over = ~current["alive"].any(1)
        if over.any():
            ends += int(over.sum())
            obs, info = core.reset(reset_mask=over)
            current, cut = info | {"obs": obs, "state": core.state()}, cut & ~over[:, None]
    assert ends >= 5
    check_env_specs(env, seed=3)


def test_rollout_stops_at_the_first_end():
    env = make("SimpleTag-v0")
    data = env.rollout(20)
    assert data.batch_size == (5, 7)
    assert data["next", "done"][:, -1].all()
    assert not data["next", "done"][:, :-1].any()
    second = env.rollout(20, auto_reset=False, tensordict=step_mdp(data[:, 0]))  # worlds that have ended stand still
    assert second.batch_size == (5, 1)
    with pytest.raises(ResetNeededError, match="before the first reset"):
        make("SimpleTag-v0").reset(data[:, 0].empty().set("_reset", torch.ones(5, 1, dtype=torch.bool)))


def test_partial_reset():
    env = make("TagContinuous-v0")
    data = env.rollout(4, break_when_any_done=False)[:, -1]["next"].clone()
    mask = torch.tensor([True, False, False, True, False])
    episodes = env.core.episode_index.clone()
    fresh = env.reset(data.clone().set("_reset", mask[:, None]))
    assert torch.equal(env.core.episode_index, episodes + mask)
    for group in env.group_map:
        previous, after = data[group], fresh[group]
        assert torch.equal(after["observation"][~mask], previous["observation"][~mask])
        assert not torch.equal(after["observation"][mask], previous["observation"][mask])
        assert after["alive"][mask].all()
        assert torch.equal(after["done"][~mask], previous["done"][~mask])
    with pytest.raises(ActionError, match=r"'_reset' of group 'tagger'.*at the root"):
        env.reset(data.clone().set(("tagger", "_reset"), torch.ones(5, 2, 1, dtype=torch.bool)))


def test_groups_are_views_of_one_tensor_that_stays_unchanged():
    env = make("SimpleTag-v0")
    first = env.rand_step(env.reset())
    parts = first["next"]
    copies = parts.clone()
    obs, _ = parts["adversary", "observation"], parts["agent", "observation"]
    assert storage(obs) == storage(parts["agent", "observation"])
    assert storage(parts["adversary", "reward"]) == storage(parts["agent", "reward"])
    assert obs.data_ptr() == parts["agent", "observation"].data_ptr() - 3 * env.core.obs_width * 4
    second = env.rand_step(step_mdp(first))["next"]
    buffers = {storage(buffer) for buffer in (env.core.obs, env.core.reward, env.core.alive, env.core.final_obs)}
    leaves = list(parts.values(include_nested=True, leaves_only=True))
    assert not buffers & {storage(leaf) for leaf in leaves}
    assert not {storage(leaf) for leaf in leaves} & {
        storage(leaf) for leaf in second.values(include_nested=True, leaves_only=True)
    }
    env.reset()
    assert (parts == copies).all()


def test_actions_of_a_single_group_are_not_copied(monkeypatch):
    env = make("SimpleSpread-v0")
    actions, step = [], env.core.step
    monkeypatch.setattr(env.core, "step", lambda action: (actions.append(action), step(action))[1])
    data = env.rand_step(env.reset())
    assert actions[0].data_ptr() == data["agent", "action"].data_ptr()


def test_group_map():
    env = make(
        "SimpleTag-v0", group_map={"odd": ["adversary_2", "adversary_0"], "one": ["adversary_1"], "prey": ["agent_0"]}
    )
    data = env.rollout(3)
    core = make_core("SimpleTag-v0", 5, "cpu", autoreset="disabled", seed=0, **SMALL["SimpleTag-v0"])
    obs, _ = core.reset()
    assert torch.equal(data["odd", "observation"][:, 0], obs[:, [2, 0]])
    assert data["prey", "observation"].shape[-1] < obs.shape[2]
    for t in range(3):
        obs = core.step(stacked_actions(env, data[:, t]))[0]
        assert torch.equal(data["next", "odd", "observation"][:, t], obs[:, [2, 0]])
    for group_map, message in (
        (MarlGroupMapType.ALL_IN_ONE_GROUP, "adversary_0 and agent_0 into group 'agents', but their spaces differ"),
        ({"all": ["adversary_0"]}, "each of its agents once"),
        ({"state": ["adversary_0", "adversary_1", "adversary_2"], "b": ["agent_0"]}, "a group named 'state'"),
        ("agents", "dict of lists"),
    ):
        with pytest.raises(ConfigError, match=message):
            make("SimpleTag-v0", group_map=group_map)


def test_equal_seeds_give_equal_resets():
    def start(env):
        return env.reset()["agent", "observation"]

    env, other = make("SimpleTag-v0", seed=1), make("SimpleTag-v0", seed=2)
    env.set_seed(7)
    other.set_seed(7)
    first = start(env)
    assert torch.equal(first, start(other))
    assert not torch.equal(first, start(env))  # a seed starts a stream, which later resets continue
    env.set_seed(7)
    assert torch.equal(first, start(env))
    assert torch.equal(first, env.reset(seed=7)["agent", "observation"])
    listed = env.reset(seed=[7, 8, 7, 9, 9])["agent", "observation"]
    assert torch.equal(listed[0], listed[2])
    assert torch.equal(listed[1:2], make("SimpleTag-v0", num_envs=1).reset(seed=8)["agent", "observation"])
    env.set_seed([7, 8, 7, 9, 9], static_seed=True)
    assert torch.equal(listed, start(env))


def test_unsupported_settings_raise():
    for settings, message in (
        ({"autoreset": "same_step"}, "TorchRL resets worlds itself"),
        ({"reuse_buffers": True}, "TorchRL keeps the results of a step"),
    ):
        with pytest.raises(ConfigError, match=message):
            make("SimpleTag-v0", **settings)
    env = make("SimpleTag-v0")
    for device in ("meta", "cuda", "cuda:3"):  # there or not
        with pytest.raises(DeviceError, match=f"SimpleTag-v0 is on cpu; create another one with device='{device}'"):
            env.to(device)
    assert env.to("cpu") is env.to(torch.device("cpu", 0)) is env
    data = env.rand_action(env.reset())
    with pytest.raises(ActionError, match=r"action of group 'agent': expected a torch\.int64"):
        env.step(data.set(("agent", "action"), data["agent", "action"].float()))
    with pytest.raises(
        ActionError, match=r"no action of group 'adversary' .*expected a torch\.int64 tensor \(5, 3\) at"
    ):
        env.step(env.reset())
    with pytest.raises(ConfigError, match="mode 'rgb_array' only"):
        env.render("human")
    assert env.render().shape == (512, 512, 3)
    env.close()
    with pytest.raises(ResetNeededError, match="closed"):
        env.core.reset()


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "TagContinuous-v0"])
@pytest.mark.parametrize("hot", [0, 2])
def test_one_hot_action_without_one_choice_raises(env_id, hot):
    env = make(env_id, categorical_actions=False)
    data = env.rand_action(env.reset())
    group = list(env.group_map)[-1]
    action = data[group, "action"].clone().float()  # of any type, as distributions give them
    env.step(data.set((group, "action"), action))
    action[3, 0] = torch.arange(action.shape[-1]) < hot
    with pytest.raises(ActionError, match=rf"action .*of {group}_0 in world 3 is out of range"):
        env.step(data.set((group, "action"), action))
    with pytest.raises(
        ActionError, match=rf"action of group '{group}': expected a .* tensor \({', '.join(map(str, action.shape))}\)"
    ):
        env.step(data.set((group, "action"), action[..., :-1]))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_are_rebuilt_with_equal_arguments(copied):
    env = make("SimpleTag-v0", group_map={"prey": ["agent_0"], "pack": [f"adversary_{k}" for k in range(3)]})
    first = env.reset()
    twin = copied(env)
    assert twin.core is not env.core
    assert (twin.group_map, twin.batch_size) == (env.group_map, env.batch_size)
    assert (twin.reset() == first).all()  # the seed is among the arguments
    env.close()
    check_env_specs(twin)


def test_core_detaches_gradients_of_actions():
    """A rollout with a reparametrised policy leaves no graph in the core."""
    env = make("SimpleTag-v0", continuous_actions=True)
    weight = torch.full((1,), 0.3, requires_grad=True)

    def policy(tensordict):
        for group in env.group_map:
            ones = torch.ones_like(env.full_action_spec[group, "action"].zero())
            tensordict[group, "action"] = torch.sigmoid(weight * ones)
        return tensordict

    assert env.rollout(3, policy)["agent", "action"].requires_grad
    assert not env.core.action_buffer.requires_grad


# ---------------------------------------------------------------- transforms and training


def test_reward_and_step_transforms_equal_the_core():
    """TorchRL's return and length of an episode equal the core's."""
    env = make("TagContinuous-v0")
    results = []
    step = env.core.step
    env.core.step = lambda action: (results.append(step(action)), results[-1])[1]
    keys = [(group, "reward") for group in env.group_map]
    sums = RewardSum(in_keys=keys, out_keys=[(group, "episode_reward") for group in env.group_map])
    wrapped = TransformedEnv(env, Compose(sums, StepCounter()))
    check_env_specs(wrapped)
    results.clear()
    data = wrapped.rollout(30, break_when_any_done=False)["next"]
    ended = 0
    for t, (*_, info) in enumerate(results):
        over = data["done"][:, t, 0]
        for group, rows in env.core.groups.items():
            mine = data[group, "episode_reward"][over, t, :, 0]
            torch.testing.assert_close(mine, info["episode_return"][over][:, list(rows)])
        assert torch.equal(data["step_count"][over, t, 0], info["episode_length"][over].amax(1).long())
        ended += int(over.sum())
    assert ended >= 10


@pytest.mark.parametrize("categorical", [True, False])
def test_masked_actions_are_legal(categorical):
    env = make("LeducPoker-v0", 50, categorical_actions=categorical)
    data = env.rollout(40, break_when_any_done=False)  # an illegal action would raise
    masks, movers = data["player", "action_mask"], data["player", "to_move"]
    assert (masks.sum(-1)[~movers] == 1).all()
    assert masks[~movers][:, 0].all()
    assert (movers.sum(-1) == 1).all()
    assert len(masks[movers].unique(dim=0)) > 1
    wrapped = TransformedEnv(
        make("LeducPoker-v0", categorical_actions=categorical),
        ActionMask(("player", "action"), ("player", "action_mask")),
    )
    wrapped.rollout(40, break_when_any_done=False)
    illegal = env.reset()
    action = torch.zeros(50, 2, dtype=torch.int64)  # to fold, when there is nothing to answer
    if not categorical:
        action = torch.nn.functional.one_hot(action, 3)
    with pytest.raises(ActionError, match=r"LeducPoker-v0: action .*of player_\d in world 0 is illegal"):
        env.step(illegal.set(("player", "action"), action))


def test_mappo_runs(capsys):
    """The example's training, short: everything that learns changes, nothing is broken."""
    import torchrl_mappo

    leaving = json.dumps(SMALL["TagContinuous-v0"])
    for env_id, config in (("SimpleTag-v0", "{}"), ("SimpleSpread-v0", "{}"), ("TagContinuous-v0", leaving)):
        few = ["--num-envs", "8", "--iterations", "2", "--steps", "30"]
        history = torchrl_mappo.main(["--env-id", env_id, "--config", config, *few])
        assert len(history) == 2
        assert all(torch.isfinite(torch.tensor(list(row.values()))).all() for row in history)
    assert "agent" in capsys.readouterr().out


@torch.no_grad()
def test_mappo_ignores_steps_of_agents_that_left():
    """Values in the steps of agents that left do not change the training data."""
    import torchrl_mappo

    torch.manual_seed(0)
    env = TransformedEnv(make("TagContinuous-v0", 8))
    actor, loss = torchrl_mappo.policy_and_loss(env, "runner")
    data = env.rollout(
        20, lambda tensordict: actor(env.rand_action(tensordict)), break_when_any_done=False
    )  # taggers at random
    loss.value_estimator(data, params=loss.critic_network_params, target_params=loss.target_critic_network_params)
    acted = data["runner", "alive"]
    assert 20 < (~acted).sum() < acted.numel() - 20

    def outcome(data):
        data = data.clone()
        data["runner", "advantage"] = torchrl_mappo.standardized(data["runner", "advantage"], acted)
        value = torchrl_mappo.mean_loss(loss, data.reshape(-1), "runner")
        torch.testing.assert_close(data["runner", "advantage"][acted].mean(), torch.tensor(0.0), atol=1e-5, rtol=0)
        return value

    poisoned = data.clone()
    for name in ("advantage", "value_target"):
        poisoned["runner", name][~acted] = 1e3
    torch.testing.assert_close(outcome(poisoned), outcome(data))
    poisoned["runner", "value_target"][acted] = 1e3
    assert outcome(poisoned) > outcome(data) + 1


@pytest.mark.learning
def test_mappo_learns():
    import torchrl_mappo

    history = torchrl_mappo.main(["--iterations", "16"])
    assert history[-1]["agent"] > history[0]["agent"] + 3  # from -26.7, which is random play, to -21


def test_blocks_of_the_guide_run():
    """The Python blocks about TorchRL run in order in one namespace."""
    notebook.run(notebook.LIBRARIES, notebook.PYTHON, "TorchRL")

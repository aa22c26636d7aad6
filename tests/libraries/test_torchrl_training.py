"""TorchRL's transforms, its losses and its MAPPO with the environments."""

import json
import sys
from pathlib import Path

import pytest
import torch
from small_environments import SMALL
from torchrl.envs import ActionMask, Compose, RewardSum, StepCounter, TransformedEnv
from torchrl.envs.utils import check_env_specs
from torchrl_worlds import make

from docs.scripts import notebook
from gpu_envs.errors import ActionError

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


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

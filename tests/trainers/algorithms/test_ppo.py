"""PPO on tasks with known solutions, and isolation of invalid rows."""

import dataclasses
from typing import get_type_hints

import pytest
import torch
from toy_core import Corridor, Identity

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition

FAST = PPOConfig(
    rollout_length=8, num_epochs=4, num_minibatches=2, learning_rate=0.01, learning_rate_final=0.001,
    hidden_sizes=(32,),
    truncation_capacity=2.0,
)  # fmt: skip
FLOATS = [name for name, hint in get_type_hints(PPOConfig).items() if hint in (float, float | None)]


def drive(core, learner: PPO, iterations: int) -> list[dict[str, float]]:
    """Train one learner for all agents of a toy environment."""
    core.reset()
    history = []
    for _ in range(iterations):
        for _ in range(learner.config.rollout_length):
            core.step(learner.act(core.obs, core.info.get("action_mask")))
            learner.observe(transition(core))
        history.append({name: float(value) for name, value in learner.update().items()})
    return history


def transition(core) -> Transition:
    return Transition(core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs)


def learner_for(core, config: PPOConfig = FAST, total_steps: int = 100_000, seed: int = 0) -> PPO:
    space = core.action_spaces[core.possible_agents[0]]
    worlds = (core.num_envs, core.num_agents)  # "auto" would compile kernels, see test_kernel_engine.py
    return PPO(config, LearnerSpec(core.obs_width, space, *worlds, total_steps, "cpu", seed, engine="torch"))


def mean_reward(core, policy, greedy: bool = True, steps: int = 16) -> float:
    obs, info = core.reset(seed=77)
    total = 0.0
    for _ in range(steps):
        obs, reward, *_ = core.step(policy.act(obs, info.get("action_mask"), greedy))
        total += float(reward.mean())
    return total / steps


@pytest.mark.parametrize(
    ("kind", "masked", "target"),
    # even and odd agents need different actions for equal observations, so only the even agents' task is used
    [("multi_discrete", False, 0.99), ("continuous", False, -0.01)],
)
def test_ppo_solves_identity(kind, masked, target):
    core = Identity(32, kind, limit=4, masked=masked)
    learner = learner_for(core)
    initial = mean_reward(core, learner.policy())
    drive(core, learner, 25)
    after = mean_reward(core, learner.policy())
    assert after >= target > initial + 0.05


def test_squashed_policy_solves_identity():
    core = Identity(32, "continuous", limit=4)
    learner = learner_for(core, dataclasses.replace(FAST, squash=True))
    initial = mean_reward(core, learner.policy())
    drive(core, learner, 25)
    after = mean_reward(core, learner.policy())
    assert after >= -0.02 > initial + 0.05


def test_ppo_solves_identity_under_masks():
    core = Identity(32, "discrete", limit=4, masked=True)
    core.groups = {"even": (0, 2), "odd": (1,)}
    learner = PPO(FAST, LearnerSpec(core.obs_width, core.action_spaces["even_0"], 32, 2, 100_000))
    core.reset()
    for _ in range(20):
        for _ in range(FAST.rollout_length):
            action = core.sample_actions()
            action[:, [0, 2]] = learner.act(core.obs[:, [0, 2]], core.mask[:, [0, 2]])
            core.step(action)  # the toy asserts that every action is legal
            learner.observe(Transition(*(t[:, [0, 2]] for t in vars(transition(core)).values() if t is not None)))
        learner.update()
    answer = learner.policy().act(core.obs[:, [0, 2]], core.mask[:, [0, 2]], greedy=True)
    assert torch.equal(answer, core.obs[:, [0, 2]].argmax(-1))


def test_ppo_solves_corridor_with_agents_that_die_one_by_one():
    core = Corridor(32)
    learner = learner_for(core)
    drive(core, learner, 20)
    cells = torch.eye(7)[:6]
    assert learner.policy().act(cells, greedy=True).tolist() == [1] * 6


def test_first_gradient_step_has_ratio_one():
    core = Corridor(16)
    learner = learner_for(core, PPOConfig(rollout_length=8, num_epochs=1, num_minibatches=1))
    for metrics in drive(core, learner, 3):  # the second and third act with an updated normalizer
        assert abs(metrics["approx_kl"]) < 1e-6
        assert metrics["clip_fraction"] == 0.0


@pytest.mark.parametrize(("entropy", "rises"), [(0.1, True), (0.0, False)])
def test_entropy_bonus_raises_entropy_without_rewards(entropy, rises):
    core = Identity(16)
    core._play = lambda action: (torch.zeros(16, 3), torch.zeros(16, 3, dtype=torch.bool))  # no rewards
    config = PPOConfig(
        rollout_length=8, num_epochs=4, learning_rate=0.01, entropy_coef=entropy, normalize_advantage=False
    )
    learner = learner_for(core, config)
    torch.nn.init.zeros_(learner.critic.module.body[-1].weight)  # exact values, hence zero advantages
    with torch.no_grad():
        learner.actor.module.body[-1].bias.copy_(torch.tensor([2.0, 0.0, 0.0]))
    history = drive(core, learner, 6)
    assert (history[-1]["entropy"] > history[0]["entropy"] + 0.1) == rises


def test_target_kl_stops_the_update():
    core = Corridor(16)
    free = learner_for(core, PPOConfig(rollout_length=8, num_epochs=6, num_minibatches=2, learning_rate=0.05))
    stopped = learner_for(
        core, PPOConfig(rollout_length=8, num_epochs=6, num_minibatches=2, learning_rate=0.05, target_kl=1e-4)
    )
    assert drive(core, free, 1)[0]["gradient_steps"] == 12
    assert drive(core, stopped, 1)[0]["gradient_steps"] == 2


def test_value_clipping_limits_the_critics_change():
    core = Corridor(16)
    loose = learner_for(core, PPOConfig(rollout_length=8, num_epochs=10, learning_rate=0.02))
    tight = learner_for(core, PPOConfig(rollout_length=8, num_epochs=10, learning_rate=0.02, clip_range_vf=1e-3))
    moved = []
    for learner in (loose, tight):
        obs = torch.eye(7)
        initial = learner.critic(obs).detach()
        core.reset(seed=1)
        drive(core, learner, 1)
        moved.append(float((learner.critic(obs).detach() - initial).abs().mean()))
    assert moved[1] < 0.5 * moved[0]


def test_schedules_are_linear_in_steps():
    core = Corridor(8)
    config = PPOConfig(
        rollout_length=8,
        num_epochs=1,
        learning_rate=0.01,
        learning_rate_final=0.002,
        entropy_coef=0.1,
        entropy_coef_final=0.0,
    )
    history = drive(core, learner_for(core, config, total_steps=256), 6)  # 64 steps each: progress 0, 1/4, ..., 1, 1
    assert [round(m["learning_rate"], 6) for m in history] == [0.01, 0.008, 0.006, 0.004, 0.002, 0.002]
    assert [round(m["entropy_coef"], 6) for m in history] == [0.1, 0.075, 0.05, 0.025, 0.0, 0.0]


def test_steps_of_the_opponent_are_not_decisions():
    """Two agents in one world take turns: agent 0 decides at steps 0 and 2, agent 1 at step 1; 3 steps per rollout."""
    config = PPOConfig(rollout_length=3, gamma=0.5, gae_lambda=0.5, normalize_obs=False, normalize_advantage=False)
    learner = PPO(config, LearnerSpec(1, Corridor(1).action_spaces["walker_0"], 1, 2, 100))
    learner.net.critic = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(learner.net.critic.weight)  # V(obs) = obs
    never, always = torch.zeros(1, 2, dtype=torch.bool), torch.ones(1, 2, dtype=torch.bool)
    mask = torch.ones(1, 2, 2, dtype=torch.bool)
    turn = torch.tensor([[True, False]])  # a buffer that changes in place, as a core's
    obs = torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]], [[7.0], [8.0]]]).unsqueeze(1)
    for first in (0, 1):
        for t in range(3):
            learner.act(obs[t], mask, turn)
            turn.logical_not_()
            reward = torch.tensor([[10.0, 100.0]]) * (t + 1)
            learner.observe(Transition(reward, never, never, always, obs[t + 1], obs[t + 1], turn))
        batch = learner.batch()
        if first == 0:
            # player 0's decision 2 has no outcome yet. Decision 0: (10 + 20) + 0.5 * V(5) = 32.5
            # player 1's decision 1: (200 + 300) + 0.5 * V(8) = 504
            assert batch["obs"].flatten().tolist() == [1, 4]
            assert batch["returns"].tolist() == [32.5, 504]
        else:
            # player 1 decides at 0 and 2, the latter without an outcome: (100 + 200) + 0.5 * V(6) = 303
            # player 0's decision 1: (20 + 30) + 0.5 * V(7) = 53.5
            assert batch["obs"].flatten().tolist() == [2, 3]
            assert batch["returns"].tolist() == [303, 53.5]
        assert all(len(value) == 2 for value in batch.values())
        learner.rollout.clear()


def test_stored_rollouts_are_copies_of_reused_buffers():
    core = Corridor(4)
    learner = learner_for(core)
    core.reset()
    observations = []
    for _ in range(8):
        observations.append(core.obs.clone())
        core.step(learner.act(core.obs))
        learner.observe(transition(core))
    assert torch.equal(learner.rollout.obs, torch.stack(observations))


def test_state_of_wrong_shape_is_refused():
    small, large = learner_for(Corridor(4)), learner_for(Corridor(4), PPOConfig(hidden_sizes=(8, 8)))
    with pytest.raises(CheckpointError, match=r"expected shape .* got"):
        large.load_state_dict(small.state_dict())


def test_state_of_another_device_is_refused():
    learner = learner_for(Corridor(4))
    state = {**learner.state_dict(), "generator": torch.zeros(16, dtype=torch.uint8)}  # as long as a GPU generator's
    with pytest.raises(CheckpointError, match=r"generator: expected \d+ bytes as on cpu, got 16"):
        learner.load_state_dict(state)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_epochs", 0), ("gamma", 1.5), ("clip_range", 0.0), ("activation", "gelu"), ("hidden_sizes", (0,)),
        ("target_kl", -1.0),
        ("value_coef", -1.0), ("entropy_coef", -0.1), ("entropy_coef_final", -0.1),
        *((name, value) for name in FLOATS for value in (float("nan"), float("inf"))),
    ],
)  # fmt: skip
def test_invalid_settings_name_the_field(field, value):
    with pytest.raises(ConfigError, match=rf"learner.{field}(\[0\])?: expected"):
        PPOConfig(**{field: value})

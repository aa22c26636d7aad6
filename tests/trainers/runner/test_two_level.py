"""Two-level trainings: clocks of decisions, phases of learning, annealed parameters."""

import csv
import dataclasses
import itertools

import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from trainers.algorithms.off_policy.dqn import DQNConfig
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.base.agent_group import DecisionClock
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.models.policy import Policy
from trainers.models.policy_set import PolicyRunner
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

TAG = {"max_cycles": 12}
LEARNER = {"rollout_length": 10, "hidden_sizes": (8,), "num_minibatches": 2, "num_epochs": 2}


def tag(steps=480, learner=None, **settings):
    """Return a training of SimpleTag with 80 steps per iteration, whose episodes cross rollouts."""
    learner = learner or PPOConfig(**LEARNER)
    common = dict(num_envs=8, eval_episodes=0, engine="torch", num_threads=1, checkpoint_interval=1)
    return TrainConfig("SimpleTag-v0", env=TAG, total_steps=steps, learner=learner, **common, **settings)


def collected(config, interval=None):
    """Return the learners after a rollout; `interval` gives all policies a clock, also for n = 1."""
    core = make_train_core(config, config.num_envs, config.seed)
    learners = LearnerGroup(config, core)
    for assignment in learners.assignments.values():
        if interval is not None:
            assignment.clock = DecisionClock(interval, assignment.agents, core)
    Collector(config, core, learners).collect()
    return learners


def games(**settings):
    """Return a training of a repeated game, which terminates after 7 steps."""
    learner = PPOConfig(rollout_length=14, hidden_sizes=(8,), gamma=1.0, gae_lambda=1.0, normalize_advantage=False)
    common = dict(num_envs=6, total_steps=10_000, eval_episodes=0, engine="torch", sharing="agent")
    return TrainConfig("RockPaperScissors-v0", env={"num_repetitions": 7}, learner=learner, **common, **settings)


# ---------------------------------------------------------------- clocks


def test_clock_of_one_step_equals_none():
    plain, clocked = (collected(games(), interval) for interval in (None, 1))
    for name, assignment in plain.assignments.items():
        first, other = assignment.learner.batch(), clocked.assignments[name].learner.batch()
        assert first.keys() == other.keys()
        for key, tensor in first.items():
            torch.testing.assert_close(other[key], tensor, rtol=1e-6, atol=1e-6, msg=key)
        assert torch.equal(assignment.learner.rollout.action, clocked.assignments[name].learner.rollout.action)


def test_decisions_hold_their_action_and_earn_the_rewards_until_the_next():
    learners = collected(games(decide_every={"player_0": 3}))
    leader, follower = learners.assignments["player_0"].learner, learners.assignments["player_1"].learner
    starts = torch.arange(14) % 7 % 3 == 0
    assert torch.equal(leader.rollout.to_move[:-1, :, 0], starts[:, None].expand(14, 6))
    assert leader.rollout.to_move[-1].all()  # the next rollout starts an episode
    # the follower sees the leader's last action, one-hot, after its own
    played = follower.rollout.all_obs[1:, :, 0, 3:6].argmax(-1)
    chosen = leader.rollout.action[..., 0]
    for t in range(14):
        if (t + 1) % 7:  # the observation after the last step belongs to the next episode
            assert torch.equal(played[t], chosen[t - t % 7 % 3])
    batch, reward = leader.batch(), leader.rollout.reward[..., 0].view(2, 7, 6)
    left = reward.flip(1).cumsum(1).flip(1).reshape(14, 6)  # return until the end of the episode
    assert len(batch["returns"]) == 6 * int(starts.sum())
    torch.testing.assert_close(batch["returns"], left[starts].flatten())
    torch.testing.assert_close(batch["action"], chosen[starts].flatten())


def test_held_action_that_becomes_illegal_is_replaced_by_a_decision():
    learner = PPOConfig(rollout_length=40, hidden_sizes=(8,))
    config = TrainConfig(
        "Hanabi-v0", env={"colors": 2, "ranks": 3, "hand_size": 2}, num_envs=16, learner=learner, engine="torch",
        decide_every={"player": 4},
    )  # fmt: skip
    rollout = collected(config).assignments["player"].learner.rollout  # an illegal action would raise an error
    assert rollout.to_move[:-1].any(1).sum() > 0.25 * 40 * 2
    core = make_core("OneStepEconomy-v0", 2, "cpu", seed=0, autoreset="disabled", episode_length=9, period=1)
    core.reset()
    assignments = LearnerGroup(TrainConfig("OneStepEconomy-v0", env={}, num_envs=2, engine="torch"), core).assignments
    clock, agents = DecisionClock(4, assignments["planner"].agents, core), assignments["planner"].agents
    clock.held[:, :, 6] = 21  # a rate of 100 %
    core.step(torch.zeros_like(core.action_buffer))
    mask, to_move = agents.mask(core.action_mask).clone(), core.to_move[:, agents.rows]
    assert not clock.decides(core, mask, to_move).any()
    mask[1, :, -1] = False  # in the second world
    assert clock.decides(core, mask, to_move)[:, 0].tolist() == [False, True]


def test_frozen_policies_keep_their_clock(tmp_path):
    trainer = Trainer(tag(80, decide_every={"adversary": 5}), tmp_path / "run")
    trainer.run()
    saved = checkpoint.load(tmp_path / "run")
    policies = {name: saved.policy(name) for name in ("adversary", "agent")}
    assert (policies["adversary"].decide_every, policies["agent"].decide_every) == (5, 1)
    assert Policy.from_state(policies["adversary"].state_dict()).decide_every == 5
    core = make_core("SimpleTag-v0", 16, "cpu", seed=0, **TAG)
    obs, info = core.reset()
    runner, actions = PolicyRunner(core, policies), []
    for _ in range(12):
        actions.append(runner.act(obs, info).clone())
        obs, *_, info = core.step(actions[-1])
    changes = torch.stack([(previous != current) for previous, current in itertools.pairwise(actions)]).any(1)
    assert changes[:, :3].any(1).nonzero().flatten().tolist() == [4, 9]
    assert changes[:, 3].sum() > 6


# ---------------------------------------------------------------- phases


def weights(trainer, name):
    return torch.cat(
        [parameter.flatten().clone() for parameter in trainer.learners.assignments[name].learner.net.parameters()]
    )


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_policy_learns_only_after_its_step(tmp_path, network):
    trainer = Trainer(
        tag(learner=PPOConfig(**LEARNER, network=network), learn_after={"adversary": 170}), tmp_path / "run"
    )
    changed = []
    for _ in range(5):
        previous = [weights(trainer, name) for name in ("adversary", "agent")]
        trainer.iterate()
        after = [weights(trainer, name) for name in ("adversary", "agent")]
        changed.append([not torch.equal(*pair) for pair in zip(previous, after, strict=True)])
    trainer.close()
    assert changed == [[False, True]] * 3 + [[True, True]] * 2  # rollouts after 0, 80, 160, 240, 320 steps


def test_annealed_parameter_follows_its_schedule(tmp_path):
    learner = PPOConfig(rollout_length=4, hidden_sizes=(8,))
    config = TrainConfig(
        "OneStepEconomy-v0", num_envs=10, total_steps=240, learner=learner, engine="torch", eval_episodes=0,
        anneal={"tax_limit": [0.2, 1.0, 160], "labor_cost": [1.0, 0.5, 80]},
    )  # fmt: skip
    trainer, values = Trainer(config, tmp_path / "run"), []
    assert trainer.core.action_mask[0, -1].view(7, 22).sum(1).tolist() == [6] * 7  # from the first reset on
    for _ in range(6):
        trainer.iterate()
        params = trainer.core.get_params()
        values.append((round(params["tax_limit"].item(), 4), round(params["labor_cost"].item(), 4)))
    trainer.close()
    assert values == [(0.2, 1.0), (0.4, 0.75), (0.6, 0.5), (0.8, 0.5), (1.0, 0.5), (1.0, 0.5)]
    chosen = trainer.learners.assignments["planner"].learner.rollout
    assert chosen.mask is not None


def rows(folder):
    with (folder / "metrics.csv").open() as file:
        return [
            {key: value for key, value in row.items() if not key.startswith("time/") and "second" not in key}
            for row in csv.DictReader(file)
        ]


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_resumed_two_level_training_equals_an_uninterrupted_one(tmp_path, network):
    learner = PPOConfig(**LEARNER, network=network)
    anneal = {"good_accel": [4.0, 2.0, 300]}
    config = tag(480, learner, decide_every={"adversary": 4}, learn_after={"adversary": 200}, anneal=anneal)
    Trainer(config, tmp_path / "whole").run()
    first = Trainer(config, tmp_path / "parts")
    while first.iteration < 3:
        first.iterate()
    first.close()
    second = Trainer(config, tmp_path / "parts", checkpoint.load(tmp_path / "parts"))
    second.run()
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")
    expected, other = (checkpoint.load(tmp_path / name).state for name in ("whole", "parts"))
    assert expected["learner.adversary.decisions.held"].any()
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other[name]), name


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decide_every": {"adversary": 0}}, "decide_every: adversary: expected an int >= 1, got 0"),
        ({"learn_after": {"agent": 480}}, r"learn_after: agent: expected an int in \[0, 480\), got 480"),
        ({"anneal": {"x": [1.0]}}, "anneal: x: expected the first value, the last value and the steps between them"),
        ({"anneal": {"x": [0.0, float("nan"), 9]}}, r"anneal: x\[1\]: expected a finite number, got nan"),
    ],
)
def test_invalid_values_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        tag(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"decide_every": {"leader": 2}},
            r"decide_every: expected names of policies \(adversary, agent\), got 'leader'",
        ),
        ({"learn_after": {"leader": 2}}, "learn_after: expected names of policies"),
        ({"anneal": {"speed": [0.0, 1.0, 9]}}, "SimpleTag-v0: no parameter named 'speed'"),
        (
            {"learn_after": {"agent": 9}, "algorithm": "dqn", "learner": DQNConfig()},
            "learn_after: expected an on-policy algorithm, got 'dqn'; use ppo",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_there_is_a_folder(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        Trainer(dataclasses.replace(tag(4000), **settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("limits", [[0.0, 1.5, 100], [-1.0, 1.0, 100]])
def test_annealed_values_that_the_environment_refuses_raise_at_the_start(tmp_path, limits):
    config = TrainConfig("OneStepEconomy-v0", num_envs=2, eval_episodes=0, anneal={"tax_limit": limits})
    with pytest.raises(ConfigError, match=r"tax_limit: expected values in \[0\.0, 1\.0\], got"):
        Trainer(config, tmp_path / "run")


def test_actors_do_not_anneal(tmp_path):
    from trainers.algorithms.on_policy.appo import APPOConfig

    config = tag(learner=APPOConfig(**LEARNER), algorithm="appo", num_actors=1, anneal={"max_speed": [0.0, 1.0, 9]})
    with pytest.raises(ConfigError, match="anneal: expected none with actors"):
        Trainer(config, tmp_path / "run")


# ---------------------------------------------------------------- GPU


@pytest.mark.gpu
def test_rollouts_with_clocks_are_captured_without_a_host_synchronization():
    """The capture plays rollouts that are undone; held actions are unchanged."""
    outputs = []
    for cuda_graph in (False, True):
        config = dataclasses.replace(tag(decide_every={"adversary": 4}), device="cuda", cuda_graph=cuda_graph)
        core = make_train_core(config, config.num_envs, config.seed)
        learners = LearnerGroup(config, core)
        collector, actions = Collector(config, core, learners), []
        for _ in range(4):
            collector.collect()
            for assignment in learners.assignments.values():
                actions.append(assignment.learner.rollout.action.clone())
                assignment.learner.skip_update()
        outputs.append([*actions, learners.assignments["adversary"].clock.held])
    for first, other in zip(*outputs, strict=True):
        assert torch.equal(first, other)

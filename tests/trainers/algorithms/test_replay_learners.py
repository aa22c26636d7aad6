"""Requirements on replay learners: solved tasks, exact resume, own random streams, isolation of dead agents."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from toy_core import Corridor, Identity

from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.algorithms.off_policy.replay_learner import mean_metrics
from trainers.algorithms.off_policy.sac import SAC, SACConfig
from trainers.algorithms.off_policy.td3 import TD3, TD3Config
from trainers.base.learner_spec import AgentSpec, LearnerSpec
from trainers.base.transition import Transition
from trainers.buffers.rollout_buffer import RolloutOverflowError
from trainers.config.train_config import TrainConfig
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.models.networks import polyak_update
from trainers.models.normalization import masked_mean
from trainers.runner.trainer import Trainer

OWN, JOINT = ["ddpg", "td3", "sac"], ["maddpg", "matd3", "masac"]
FAST: dict[str, Any] = {
    "rollout_length": 8, "updates": 8, "replay_size": 10_000, "batch_size": 64, "learning_starts": 256,
    "learning_rate": 0.005, "gamma": 0.3, "tau": 0.05, "hidden_sizes": (32,),
}  # fmt: skip


def configured(algorithm: str, iterations: int, **learner: Any) -> TrainConfig:
    settings = algorithm_specs.find(algorithm).settings(**{**FAST, **learner})
    return TrainConfig(
        "Toy", algorithm=algorithm, num_envs=16, total_steps=iterations * 128, learner=settings, checkpoint_interval=3,
        eval_episodes=0,
    )  # fmt: skip


def identity(kind: str, masked: bool = False):
    return lambda config, num_envs, seed, **_: Identity(num_envs, kind, masked=masked, seed=seed)


def corridor(config: TrainConfig, num_envs: int, seed: int, **_: Any) -> Corridor:
    return Corridor(num_envs, seed=seed)


def trained(config: TrainConfig, out, factory) -> Trainer:
    trainer = Trainer(config, out, None, factory)
    trainer.run()
    return trainer


def score(trainer: Trainer) -> float:
    """Return the mean reward per agent and step of greedy play."""
    core = trainer.evaluator.factory(trainer.config, 64, 77)
    players = {member: seat.learner.policy() for seat in trainer.assignments.values() for member in seat.members}
    outcome = evaluate_policies(core, players, seed=1, greedy=True)
    return sum(outcome.returns[group].mean for group in core.groups) / core.num_agents / core.limit


@pytest.mark.parametrize(
    ("algorithm", "kind", "masked", "target"),
    [
        ("sac", "continuous", False, -0.02),
        *(
            pytest.param(name, "continuous", False, -0.02, marks=pytest.mark.slow)
            for name in OWN + JOINT
            if name != "sac"
        ),
        ("sac", "discrete", True, 0.98),
        *(
            pytest.param(name, kind, masked, 0.98, marks=pytest.mark.slow)
            for name in ["maddpg", "masac"]
            for kind, masked in [("discrete", False), ("discrete", True), ("multi_discrete", False)]
        ),
        pytest.param("sac", "multi_discrete", False, 0.98, marks=pytest.mark.slow),
    ],
)
def test_replay_learners_solve_identity(algorithm, kind, masked, target, tmp_path):
    longer = algorithm in JOINT or kind == "multi_discrete"
    config = configured(algorithm, 100 if longer else 12 if kind == "discrete" else 30, learning_rate=0.005)
    if kind != "discrete":  # where group "odd" has its own answer
        config = dataclasses.replace(config, sharing="all")
    trainer = trained(config, tmp_path, identity(kind, masked))
    assert score(trainer) >= target


@pytest.mark.variations
@pytest.mark.parametrize("algorithm", ["sac", "maddpg", "masac"])
def test_replay_learners_solve_corridor_with_agents_that_die_one_by_one(algorithm, tmp_path):
    trainer = trained(configured(algorithm, 12 if algorithm == "sac" else 40, gamma=0.9), tmp_path, corridor)
    policy = trainer.assignments["walker"].learner.policy()
    assert policy.act(torch.eye(7)[:6], greedy=True).tolist() == [1] * 6


@pytest.mark.parametrize("algorithm", OWN + JOINT)
def test_actions_are_random_until_learning_starts(algorithm, tmp_path):
    trainer = Trainer(configured(algorithm, 4, learning_starts=200), tmp_path, None, identity("continuous"))
    learner = trainer.assignments["even"].learner
    initial = {name: tensor.clone() for name, tensor in learner.net.state_dict().items()}
    trainer.iterate()  # 128 steps
    assert all(torch.equal(tensor, initial[name]) for name, tensor in learner.net.state_dict().items())
    actions = learner.replay.buffers["joint_action" if algorithm in JOINT else "action"][:8].flatten()
    assert actions.std().item() == pytest.approx(4 / math.sqrt(12), rel=0.1)  # uniform in [-2, 2]
    assert bool(learner.exploring)
    trainer.iterate()
    assert not bool(learner.exploring)
    assert not torch.equal(learner.net.state_dict()["actor.body.0.weight"], initial["actor.body.0.weight"])
    trainer.log.close()


def corridor_problem(turn_based: bool = False, masked: bool = False, space: spaces.Space | None = None) -> LearnerSpec:
    space = space or spaces.Box(-1.0, 1.0, (1,), np.float32)
    players = tuple(AgentSpec(row, "walker", 3, space) for row in range(2))
    return LearnerSpec(
        3,
        space,
        4,
        2,
        1000,
        state_width=6,
        agents=players,
        policy="walker",
        turn_based=turn_based,
        has_action_mask=masked,
        time_limit=20,
    )


def fill(learner: Any, poison: float | None) -> None:
    """Fill a rollout with fixed content in which a third of the rows is invalid; those and unused rows get `poison`."""
    r, g = learner.rollout, torch.Generator().manual_seed(5)
    valid = torch.ones(r.valid.shape, dtype=torch.bool)
    valid[3:, :2] = False
    valid[:4, 2] = False
    joint = learner.central_input == "joint"

    def junk(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (
            tensor if poison is None else tensor.masked_fill(mask.view(*mask.shape, *[1] * (tensor.dim() - 2)), poison)
        )

    obs = torch.randn((r.length + 1, *r.obs.shape[1:]), generator=g)
    reward = torch.randn(r.reward.shape, generator=g)
    never = torch.zeros_like(valid)
    ends = never.clone()
    ends[2, :2] = True
    action = torch.rand((r.length, *r.action.shape[1:]), generator=g) * 2 - 1
    for t in range(r.length):
        # for agents that have left, a centralized critic gets the environment's zeros
        current, then = (
            (obs[i].masked_fill(~valid[t].unsqueeze(-1), 0.0) if joint else junk(obs[i], ~valid[t])) for i in (t, t + 1)
        )
        r.begin_step(current, None, None, current.flatten(1) if joint else None)
        r.store_action(action[t] if joint else junk(action[t], ~valid[t]))
        unused = torch.full_like(obs[t], 0.0 if poison is None else poison)
        r.end_step(
            Transition(
                junk(reward[t], ~valid[t]), ends[t], never[t], valid[t],
                junk(then, ends[t]) if not joint else then, unused,
                next_state=then.flatten(1) if joint else None,
                final_state=unused.flatten(1) if joint else None,
                joint_action=action[t] if joint else None,
            )
        )  # fmt: skip


@pytest.mark.parametrize("poison", [1e9, float("nan")])
@pytest.mark.parametrize(
    ("algorithm", "more"),
    [*((name, {}) for name in OWN + JOINT), *((name, {"network": "gru", "window": 4}) for name in ("td3", "sac"))],
)
def test_invalid_rows_do_not_change_losses_or_statistics(algorithm, more, poison):
    learners = []
    for junk in (None, poison):
        entry = algorithm_specs.find(algorithm)
        learner = entry.learner_type(
            entry.settings(**{**FAST, "learning_starts": 0, "normalize_obs": True, **more}), corridor_problem()
        )
        if learner.central_input == "joint":
            learner.set_co_learners({"walker": learner})
        fill(learner, junk)
        learners.append((learner, learner.update()))
    (clean, first), (dirty, second) = learners
    for name, tensor in clean.net.state_dict().items():
        assert torch.equal(tensor, dirty.net.state_dict()[name]), name
    assert {name: float(value) for name, value in first.items()} == {n: float(v) for n, v in second.items()}
    assert float(clean.normalizer.count) == 2 * (3 * 2 + 4 + 8)


@pytest.mark.parametrize("algorithm", OWN + JOINT)
def test_replay_without_valid_rows_gives_finite_losses(algorithm):
    entry = algorithm_specs.find(algorithm)
    learner = entry.learner_type(entry.settings(**{**FAST, "learning_starts": 0}), corridor_problem())
    if learner.central_input == "joint":
        learner.set_co_learners({"walker": learner})
    r = learner.rollout
    zeros, never = torch.zeros(4, 2, 3), torch.zeros(4, 2, dtype=torch.bool)
    for _ in range(r.length):
        learner.act(zeros, state=zeros.flatten(1))
        learner.observe(
            Transition(zeros[..., 0], never, never, never, zeros, zeros, next_state=zeros.flatten(1),
                       final_state=zeros.flatten(1), joint_action=zeros[..., :1])
        )  # fmt: skip
    metrics = learner.update()
    assert metrics["critic_loss"].item() == 0.0
    assert all(math.isfinite(float(value)) for value in metrics.values())


@pytest.mark.parametrize(
    ("algorithm", "problem", "message"),
    [
        *(
            (name, {"turn_based": True}, rf"\b{name}\b.*: expected agents that all act at every step")
            for name in OWN + JOINT
        ),
        ("td3", {"space": spaces.Discrete(2)}, "expected continuous actions, got Discrete"),
        ("sac", {"space": spaces.Box(-np.inf, np.inf, (1,), np.float32)}, "expected bounds for a tanh_gaussian policy"),
    ],
)
def test_unsupported_specs_are_refused_at_construction(algorithm, problem, message):
    entry = algorithm_specs.find(algorithm)
    with pytest.raises(ConfigError, match=message):
        entry.learner_type(entry.settings(**FAST), corridor_problem(**problem))


@pytest.mark.parametrize("algorithm", OWN + JOINT)
def test_invalid_settings_are_refused(algorithm):
    entry = algorithm_specs.find(algorithm)
    if algorithm in JOINT:
        with pytest.raises(ConfigError, match=rf"learner.network: expected .*\b{algorithm}\b.*use qmix or ppo"):
            entry.learner_type(entry.settings(network="gru"), corridor_problem())
    with pytest.raises(ConfigError, match=r"learner.tau: expected a finite number in \[0, 1\], got 2.0"):
        entry.settings(tau=2.0)
    with pytest.raises(ConfigError, match=r"replay_size = \d+: needs [\d,]+ bytes"):
        entry.learner_type(entry.settings(replay_size=10**13), corridor_problem())


@pytest.mark.parametrize("algorithm", ["ddpg", "maddpg"])
def test_settings_fixed_by_the_algorithm_are_refused(algorithm):
    with pytest.raises(ConfigError, match=rf"learner.twin: expected False, which {algorithm} fixes, got True"):
        algorithm_specs.find(algorithm).settings(twin=True)


def test_mean_metrics_and_helpers():
    values, valid = torch.tensor([1.0, torch.nan, 3.0]), torch.tensor([True, False, True])
    assert masked_mean(values, valid).item() == 2.0
    assert masked_mean(values, torch.zeros(3, dtype=torch.bool)).item() == 0.0
    means = mean_metrics([{"a": torch.tensor(1.0)}, {"a": torch.tensor(3.0), "b": torch.tensor(7.0)}])
    assert {name: float(value) for name, value in means.items()} == {"a": 2.0, "b": 7.0}
    slow, fast = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    expected = slow.weight.item() + 0.25 * (fast.weight.item() - slow.weight.item())
    polyak_update(slow, fast, 0.25)
    assert slow.weight.item() == pytest.approx(expected)


def test_truncated_steps_keep_their_true_last_observation():
    problem = LearnerSpec(1, spaces.Box(-1.0, 1.0, (1,), np.float32), 2, 1, 100)
    learner = TD3(TD3Config(rollout_length=3, replay_size=100, reward_scale=0.5), problem)
    zero = torch.zeros(2, 1)
    for t in range(3):
        cut = torch.tensor([[t == 1], [False]])
        over = torch.tensor([[False], [t == 2]])
        learner.rollout.begin_step(torch.full((2, 1, 1), float(t)))
        final = torch.full((2, 1, 1), 50.0).masked_fill(~cut.unsqueeze(-1), torch.nan)
        learner.rollout.end_step(Transition(zero + 4, over, cut, zero == 0, torch.full((2, 1, 1), t + 1.0), final))
    learner._store_rollout()
    buffers = learner.replay.buffers
    assert buffers["next_obs"][:3, :, 0, 0].tolist() == [[1, 1], [50, 2], [3, 0]]
    assert buffers["terminated"][:3, :, 0].tolist() == [[False, False], [False, False], [False, True]]
    assert buffers["reward"][:3].unique().tolist() == [2.0]
    assert bool(buffers["valid"][:3].all())


def test_cut_step_with_unknown_legal_actions_has_no_target():
    problem = LearnerSpec(1, spaces.Discrete(2), 1, 1, 100, has_action_mask=True)
    learner = SAC(SACConfig(rollout_length=2, hidden_sizes=(8,)), problem)
    obs, ones, never = torch.zeros(1, 1, 1), torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool)
    masks = torch.tensor([[True, False], [False, True], [True, True]]).view(3, 1, 1, 2)
    for t in range(2):
        learner.rollout.begin_step(obs, masks[t])
        cut = torch.full((1, 1), t == 1)
        learner.rollout.end_step(Transition(ones, never, cut, ~never, obs, obs, next_mask=masks[t + 1]))
    learner._store_rollout()
    buffers = learner.replay.buffers
    assert buffers["valid"][:2].flatten().tolist() == [True, False]
    assert torch.equal(buffers["mask"][:2], masks[:2])
    assert torch.equal(buffers["next_mask"][:2], masks[1:])


@pytest.mark.parametrize("algorithm", ["dqn", "vdn", "sac"])
def test_rollout_that_lost_final_observations_changes_no_statistics(algorithm, tmp_path):
    factory = identity("continuous" if algorithm == "sac" else "discrete")
    settings = {name: value for name, value in FAST.items() if name != "tau" or algorithm == "sac"}
    config = dataclasses.replace(
        configured("sac", 5), algorithm=algorithm,
        learner=algorithm_specs.find(algorithm).settings(**settings, normalize_obs=True),
    )  # fmt: skip
    trainer = Trainer(config, tmp_path, None, factory)
    trainer.collector.collect()
    learner = next(iter(trainer.assignments.values())).learner
    previous = learner.normalizer.state_dict()
    previous = {name: value.clone() for name, value in previous.items()}
    learner.rollout.final_count.fill_(learner.rollout.capacity + 1)
    with pytest.raises(RolloutOverflowError, match="truncation_capacity"):
        learner.update()
    assert all(torch.equal(value, previous[name]) for name, value in learner.normalizer.state_dict().items())

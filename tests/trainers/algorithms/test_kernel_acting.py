"""Learners with a replay whose policies act in kernels, compared with PyTorch and with single steps."""

import numpy as np
import pytest
import torch
from checkpoints import assert_equal_checkpoints
from scipy import stats

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.rollout.trace import RolloutTrace
from trainers.algorithms import algorithm_specs
from trainers.algorithms.off_policy import kernel_acting
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.agent_assignment import assign_policies
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

SMALL_TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 7}
CASES = {
    "values": ("SimpleSpread-v0", "dqn", {"max_cycles": 6}, {"dueling": True, "n_step": 3, "prioritized": True}),
    "turns": ("KuhnPoker-v0", "dqn", {}, {}),
    "leaving": ("TagContinuous-v0", "sac", SMALL_TAG, {}),
    "box": ("Pendulum-v1", "sac", {"max_episode_steps": 7}, {"normalize_obs": True}),
    "noisy box": (
        "Pendulum-v1",
        "td3",
        {"max_episode_steps": 7},
        {"noise": 0.2, "noise_final": 0.3, "normalize_obs": True},
    ),
    "choices": ("CartPole-v1", "sac", {"max_episode_steps": 9}, {"activation": "tanh"}),
}
"""Name of the case -> environment, algorithm, settings of the environment and of the learner."""
QUICK = ("values", "turns", "box")
SOME = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]


def config_of(case, engine="kernel", learner=None, **settings):
    env_id, algorithm, env, defaults = CASES[case]
    of_learner = {"hidden_sizes": (8, 8), "rollout_length": 16, "learning_starts": 160, "batch_size": 16, "updates": 2}
    of_learner |= {**defaults, **(learner or {})}
    arguments = {"num_envs": 5, "total_steps": 800, "eval_episodes": 0, "engine": engine, "seed": 4, **settings}
    return TrainConfig(
        env_id, env, algorithm=algorithm, learner=algorithm_specs.find(algorithm).settings(**of_learner), **arguments
    )


def collector_of(config, **settings):
    core = make_train_core(config, config.num_envs, config.seed, **settings)
    collector = Collector(config, core, LearnerGroup(config, core))
    assert (collector.kernels is not None) == (config.engine == "kernel")
    return collector


def learners_of(collector):
    return {name: assignment.learner for name, assignment in collector.learners.assignments.items()}


def play(collector, iterations):
    """Collect rollouts and learn."""
    for number in range(iterations):
        collector.collect()
        collector.learners.update(number + 1, str)


def assert_equal_states(first, other):
    assert first.keys() == other.keys()
    for name, value in first.items():
        assert torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name], name


@pytest.mark.parametrize("case", SOME)
def test_replay_holds_what_single_steps_with_the_stored_actions_give(case):
    """Bit for bit: a learner of PyTorch that takes the stored actions has the same replay and statistics."""
    collector, single = collector_of(config_of(case)), collector_of(config_of(case, "torch"))
    learners, references = learners_of(collector), learners_of(single)
    truncations = 0
    for number in range(5):
        collector.collect()
        for name, other in references.items():
            rollout, stored = other.rollout, learners[name].rollout.action.clone()

            def act(obs, mask=None, to_move=None, state=None, rollout=rollout, stored=stored):
                rollout.begin_step(obs, mask, to_move, state)
                rollout.store_action(stored[rollout.t])
                return stored[rollout.t]

            other.act = act
        single.collect()
        for learner, other in zip(learners.values(), references.values(), strict=True):
            rollout, expected = learner.rollout, other.rollout
            truncations += int((expected.truncated & ~expected.terminated & expected.valid).sum())
            for field in ("all_obs", "reward", "terminated", "truncated", "valid", "mask", "to_move"):
                actual, reference = getattr(rollout, field), getattr(expected, field)
                assert (actual is None and reference is None) or torch.equal(actual, reference), field
            if expected.to_move is None:
                assert torch.equal(rollout.next_obs()[expected.valid], expected.next_obs()[expected.valid])
        metrics = [source.learners.update(number + 1, str) for source in (collector, single)]
        assert metrics[0] == pytest.approx(metrics[1], nan_ok=True, rel=0, abs=0)
        for learner, other in zip(learners.values(), references.values(), strict=True):
            assert_equal_states(learner.state_dict(), other.state_dict())
    assert learner.replay.filled == 80
    assert learner.replay.buffers["valid"].any()
    assert truncations or case in ("turns", "leaving")


def decisions(learner):
    """Return the decisions of the stored rollout: where agents decide, and the values or outputs of the network."""
    r = learner.rollout
    decided = r.valid if r.to_move is None else r.valid & r.to_move[:-1]
    with torch.no_grad():
        outputs = learner.actor(learner.normalizer(r.obs[decided]))
    return decided, outputs, None if r.mask is None else r.mask[:-1][decided]


@pytest.mark.parametrize("case", ["values", "turns"])
def test_actions_without_exploration_are_the_best_ones(case):
    collector = collector_of(config_of(case, learner={"learning_starts": 0}))
    play(collector, 3)
    for learner in learners_of(collector).values():
        learner.epsilon.fill_(0.0)
    collector.collect()
    for learner in learners_of(collector).values():
        decided, outputs, mask = decisions(learner)
        assert decided.sum() > 20
        best = learner.head.mode(outputs, mask)
        assert torch.equal(best, learner.rollout.action[decided])


@pytest.mark.parametrize("case", ["box", pytest.param("noisy box", marks=pytest.mark.slow)])
def test_actions_in_a_box_follow_the_outputs(case):
    """Their distance from the mean is distributed as the noise, and they are stored in the units of the environment."""
    collector = collector_of(config_of(case, num_envs=400, learner={"learning_starts": 0, "updates": 1}))
    play(collector, 2)
    collector.collect()
    (learner,) = learners_of(collector).values()
    decided, outputs, _ = decisions(learner)
    code = learner.head.encode(learner.rollout.action[decided])[:, 0].double()
    if case == "box":
        mean, log_std = (part[:, 0].double() for part in learner.head.gaussian(outputs))
        z = (torch.atanh(code) - mean) / log_std.exp()
        assert stats.kstest(z.numpy(), "norm").pvalue > 1e-4
    else:
        z = ((code - outputs[:, 0].double().tanh()) / learner.noise.double())[code.abs() < 1.0]
        assert abs(float(z.mean())) < 0.05
        assert float(z.std()) == pytest.approx(1.0, abs=0.05)
    assert learner.rollout.action.abs().max() > 1.0


def test_actions_without_noise_equal_those_of_torch():
    collector = collector_of(config_of("noisy box", learner={"learning_starts": 0}))
    play(collector, 3)
    (learner,) = learners_of(collector).values()
    learner.noise.fill_(0.0)
    for parameter in learner.actor.parameters():
        parameter.data += 0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    collector.collect()
    decided, outputs, _ = decisions(learner)
    assert float(outputs.std()) > 0.3
    expected = learner.head.decode(outputs.tanh())
    torch.testing.assert_close(learner.rollout.action[decided], expected, rtol=1e-5, atol=1e-6)


def test_changed_epsilon_is_read_in_place():
    """The share of random actions follows the schedule, and no launch is recorded again."""
    collector = collector_of(config_of("values", num_envs=200, learner={"learning_starts": 0}))
    (learner,) = learners_of(collector).values()
    play(collector, 1)
    launches = collector.kernels.plan._fused
    for epsilon in (0.0, 0.25, 1.0):
        learner.epsilon.fill_(epsilon)
        collector.collect()
        decided, outputs, _ = decisions(learner)
        other = learner.rollout.action[decided] != learner.head.mode(outputs, None)
        expected = epsilon * 0.8  # a random action is the best one with probability 1 / 5
        deviation = (expected * (1.0 - expected) / len(other)) ** 0.5
        assert float(other.double().mean()) == pytest.approx(expected, abs=4.0 * deviation)
        collector.learners.update(2, str)
    assert collector.kernels.plan._fused is launches


@pytest.mark.parametrize(
    "case", ["box", *(pytest.param(name, marks=pytest.mark.slow) for name in ("choices", "leaving"))]
)
def test_actions_are_uniformly_random_until_learning_starts(case):
    collector = collector_of(
        config_of(case, num_envs=300, total_steps=10**6, learner={"learning_starts": 300 * 16 + 1})
    )
    (learner, *_) = learners_of(collector).values()
    for number in range(3):
        collector.collect()
        action = learner.rollout.action[learner.rollout.valid].double().numpy()
        action = action if action.ndim == 1 else action[:, 0]
        if case == "box":
            likely = stats.kstest(action, "uniform", (-2.0, 4.0)).pvalue
        else:
            likely = stats.chisquare(np.bincount(action.astype(int), minlength=learner.head.sizes[0])).pvalue
        if number < 2:
            assert likely > 1e-4
        elif case == "box":
            assert likely < 1e-4
        collector.learners.update(number + 1, str)
    assert not learner.exploring


@pytest.mark.parametrize("case", SOME)
def test_resumed_run_equals_the_uninterrupted_one(case, tmp_path):
    config = config_of(case, total_steps=480)
    Trainer(config, tmp_path / "whole").run()
    part = Trainer(config, tmp_path / "parts")
    for _ in range(3):
        part.iterate()
    part.save_last()
    part.close()
    Trainer(config, tmp_path / "parts", resume=checkpoint.load(tmp_path / "parts")).run()
    assert_equal_checkpoints(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("case", ["values", pytest.param("box", marks=pytest.mark.slow)])
def test_training_is_equal_for_any_number_of_threads_and_both_schedules(case, monkeypatch):
    states = []
    for threads, schedule in ((1, "fused"), (3, "fused"), (1, "phased")):
        monkeypatch.setattr("gpu_envs.runtime.core.available_cores", lambda count=threads: count)
        monkeypatch.setattr(
            "gpu_envs.runtime.thread_pool.ThreadingHeuristic.parallel", lambda self, count=threads: count > 1
        )
        collector = collector_of(config_of(case, num_envs=40, learner={"learning_starts": 0}), schedule=schedule)
        play(collector, 3)
        assert threads == 1 or len(collector.kernels.plan._fused._commands[0]) > 1
        states.append(collector.learners.state_dict())
    assert_equal_states(states[0], states[1])
    assert_equal_states(states[0], states[2])


def test_stored_masks_are_as_wide_as_the_choices_of_the_policy():
    """In an environment whose agents differ, masks are padded to the widest one."""
    core = make_train_core(config_of("turns"), 5, 0)
    trace = RolloutTrace.allocate(core, 3, 1)
    rollout = RolloutBuffer(3, (5, 2), core.obs_width, (), torch.int64, 0, core.device)
    rollout.load_trace(trace, slice(0, 2), 1)
    assert (trace.mask.shape[-1], rollout.mask.shape) == (2, (4, 5, 2, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "vdn"}, "expected ppo, a2c, dqn, td3 or sac, got vdn; use engine = 'auto'"),
        ({"algorithm": "masac"}, "critics: expected those of single agents, got those of all agents"),
        ({"algorithm": "sac"}, r"hidden widths: expected 1 to 128, got \(256, 256\); use engine = 'auto' or 'torch'"),
    ],
)
def test_settings_without_kernels_are_refused(changes, message):
    learner = algorithm_specs.find(changes["algorithm"]).settings(replay_size=10_000)
    config = TrainConfig("SimpleSpread-v0", engine="kernel", learner=learner, **changes)
    with pytest.raises(ConfigError, match=f"^engine = 'kernel': .*{message}"):
        assign_policies(config, make_train_core(config, 2, 0))


@pytest.mark.parametrize(("steps", "acts"), [(kernel_acting.MIN_STEPS - 1, False), (kernel_acting.MIN_STEPS, True)])
def test_auto_compiles_kernels_for_long_trainings_only(steps, acts):
    config = config_of("values", "auto", total_steps=5 * steps)
    assignments = assign_policies(config, make_train_core(config, 5, 0))
    assert all((assignment.learner.kernel_policy() is not None) == acts for assignment in assignments.values())

"""Updates of PPO and A2C with fixed shapes, as CUDA graphs need them, equal those that remove invalid rows."""

import pytest
import torch

from gpu_envs.runtime.factory import make_core
from trainers.algorithms import algorithm_specs
from trainers.base.gradients import MinibatchSampler
from trainers.base.optimizers import learning_rate_of, make_adam, make_rmsprop, set_learning_rate, step_where
from trainers.buffers.rollout_buffer import RolloutOverflowError
from trainers.config.train_config import TrainConfig
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

SMALL_TAG = {"num_taggers": 2, "num_runners": 4, "episode_length": 12, "num_other_agents_observed": 3}
WHOLE = {"num_epochs": 1, "num_minibatches": 1, "rollout_length": 16}
CASES = {
    "all agents act": ("SimpleTag-v0", "ppo", {}, WHOLE),
    "agents leave": ("TagContinuous-v0", "ppo", SMALL_TAG, WHOLE),
    "turns": ("TicTacToe-v0", "ppo", {}, WHOLE),
    "turns with hidden cards": ("LeducPoker-v0", "ppo", {}, WHOLE),
    "continuous actions": ("Pendulum-v1", "ppo", {}, WHOLE),
    "recurrent network": ("TagContinuous-v0", "ppo", SMALL_TAG, {**WHOLE, "network": "gru"}),
    "critic of states": ("SimpleSpread-v0", "ppo", {}, {**WHOLE, "critic_input": "state"}),
    "recurrent critic of states": (
        "SimpleSpread-v0", "ppo", {}, {**WHOLE, "critic_input": "state", "network": "gru"},
    ),
    "critic of states, cut episodes": (
        "SimpleSpread-v0", "ppo", {"max_cycles": 6}, {**WHOLE, "critic_input": "state", "truncation_capacity": 4.0},
    ),
    "several passes": ("TagContinuous-v0", "ppo", SMALL_TAG, {**WHOLE, "num_epochs": 3}),
    "limit of the KL divergence": (
        "TagContinuous-v0", "ppo", SMALL_TAG, {**WHOLE, "num_epochs": 6, "target_kl": 1e-9},
    ),
    "updates in sequence": ("TagContinuous-v0", "happo", SMALL_TAG, WHOLE),
    "updates in sequence, recurrent": ("TagContinuous-v0", "happo", SMALL_TAG, {**WHOLE, "network": "gru"}),
    "team": ("TagContinuous-v0", "mat", SMALL_TAG, WHOLE),
    "trust regions": ("TagContinuous-v0", "hatrpo", SMALL_TAG, WHOLE),
    "mmd": ("TagContinuous-v0", "mmd", SMALL_TAG, WHOLE),
    "mmd, recurrent": ("TagContinuous-v0", "mmd", SMALL_TAG, {**WHOLE, "network": "gru"}),
    "a2c": ("TagContinuous-v0", "a2c", SMALL_TAG, {"rollout_length": 16}),
    "a2c in turns": ("TicTacToe-v0", "a2c", {}, {"rollout_length": 16}),
    "impala": ("TagContinuous-v0", "impala", SMALL_TAG, {"rollout_length": 16}),
    "appo, recurrent": ("TagContinuous-v0", "appo", SMALL_TAG, {**WHOLE, "network": "gru"}),
    "appo in turns": ("TicTacToe-v0", "appo", {}, WHOLE),
    "pg": ("TagContinuous-v0", "pg", SMALL_TAG, {"rollout_length": 16}),
    "pg in turns": ("LeducPoker-v0", "pg", {}, {"rollout_length": 16}),
}  # fmt: skip


def training(env_id, algorithm, env, learner, fixed_shapes):
    """Return a collector and its learners, which keep invalid rows if `fixed_shapes` is set."""
    settings = algorithm_specs.find(algorithm).settings(**learner)
    config = TrainConfig(env_id, env, num_envs=6, algorithm=algorithm, learner=settings, total_steps=10_000)
    core = make_core(env_id, 6, "cpu", seed=0, reuse_buffers=True, **env)
    group = LearnerGroup(config, core)
    for assignment in group.assignments.values():
        learner = assignment.learner
        learner.fixed_shapes = fixed_shapes
        # Adam and RMSprop divide by the size of the gradient, which turns rounding into steps of full length
        learner.optimizer = torch.optim.SGD(learner.net.parameters())
        learner.optimizers = {"sgd": learner.optimizer}
    return Collector(config, core, group), group


def trained(case, fixed_shapes):
    """Return the learners' states and metrics after an update."""
    collector, group = training(*case, fixed_shapes)
    collector.collect()
    return group.update(1, lambda: "nothing"), group.state_dict()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_fixed_shapes_learn_the_same(case):
    (metrics, removed), (masked_metrics, masked) = (trained(case, fixed) for fixed in (False, True))
    for name, value in removed.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            torch.testing.assert_close(masked[name], value, atol=1e-6, rtol=1e-5, msg=name)
    assert masked_metrics == pytest.approx(metrics, abs=1e-5, rel=1e-4)
    if case[3].get("target_kl"):
        steps = [value for name, value in metrics.items() if name.endswith("gradient_steps")]
        assert max(steps) < case[3]["num_epochs"]  # the limit ended the update early


def test_rollout_without_valid_rows_changes_nothing():
    collector, group = training("TagContinuous-v0", "ppo", SMALL_TAG, WHOLE, True)
    collector.collect()
    group.update(1, lambda: "nothing")
    collector.collect()
    learner = group.assignments["runner"].learner
    learner.rollout.valid.zero_()
    previous = {name: value.clone() for name, value in learner.state_dict().items() if isinstance(value, torch.Tensor)}
    metrics = learner.update()
    after = learner.state_dict()
    names = [name for name in previous if name != "generator"]
    assert all(torch.equal(previous[name], after[name]) for name in names)
    assert metrics["gradient_steps"] == 0


def test_invalid_rows_with_an_overflowing_ratio_do_not_reach_the_gradient():
    collector, group = training("TagContinuous-v0", "ppo", SMALL_TAG, WHOLE, True)
    collector.collect()
    learner = group.assignments["runner"].learner
    learner.rollout.valid[3:, 0] = False
    rollout = learner.rollout
    rollout.log_prob.masked_fill_(~rollout.valid, -1e6)
    rollout.obs.masked_fill_(~rollout.valid.unsqueeze(-1), torch.nan)
    learner.update()
    assert all(bool(parameter.isfinite().all()) for parameter in learner.net.parameters())


def test_overflow_of_final_observations_is_reported_with_the_metrics():
    case = ("SimpleTag-v0", "ppo", {"max_cycles": 4}, {**WHOLE, "truncation_capacity": 1.0})
    collector, group = training(*case, True)
    collector.collect()
    with pytest.raises(RolloutOverflowError, match="truncation_capacity"):
        group.update(1, lambda: "nothing")


@pytest.mark.parametrize("shape", [(), (3,)])
def test_minibatches_with_fixed_shapes_share_the_valid_rows_evenly(shape):
    valid = torch.zeros((40, *shape), dtype=torch.bool)
    valid[::4] = True
    batch = {"obs": torch.zeros(40, *shape, 2), "valid": valid}
    sampler = MinibatchSampler(batch, reducer=None, fixed_shapes=True)
    generator = torch.Generator().manual_seed(0)
    first, second = (sampler.minibatches(5, generator) for _ in range(2))
    assert [int(valid[rows].flatten(1).any(1).sum()) if shape else int(valid[rows].sum()) for rows, _ in first] == [
        2
    ] * 5
    assert torch.cat([rows for rows, _ in first]).sort().values.tolist() == list(range(40))
    assert not torch.equal(torch.cat([rows for rows, _ in first]), torch.cat([rows for rows, _ in second]))


@pytest.mark.parametrize("make", [make_adam, make_rmsprop], ids=["adam", "rmsprop"])
@pytest.mark.parametrize("earlier", [0, 2], ids=["first step", "later step"])
def test_step_where_takes_or_skips_the_step(make, earlier):
    more = {"alpha": 0.99, "eps": 1e-5} if make is make_rmsprop else {}

    def run(flags):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3)
        optimizer = make(net.parameters(), 0.1, False, **more)
        for flag in [True] * earlier + flags:
            optimizer.zero_grad()
            net(torch.ones(4)).square().sum().backward()
            step_where(optimizer, torch.tensor(flag))
        return [*net.parameters(), *(value for state in optimizer.state.values() for value in state.values())]

    stepped, skipped, skipped_then_stepped = run([True]), run([False]), run([False, True])
    assert all(torch.equal(left, right) for left, right in zip(stepped, skipped_then_stepped, strict=True))
    assert not torch.equal(stepped[0], skipped[0])
    if earlier:
        assert all(torch.equal(left, right) for left, right in zip(skipped, run([]), strict=True))


def test_captured_optimizer_has_its_step_size_on_the_device():
    net = torch.nn.Linear(2, 2)
    optimizer = make_adam(net.parameters(), 0.5, captured=True)
    rate = optimizer.param_groups[0]["lr"]
    set_learning_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is rate
    assert learning_rate_of(optimizer) == 0.25


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_state_critic_reads_final_states_of_cut_episodes_and_no_others(fixed_shapes):
    case = CASES["critic of states, cut episodes"]
    states = []
    for poison, of_cut in ((None, False), (torch.nan, False), (1e3, True)):
        collector, group = training(*case, fixed_shapes)
        collector.collect()
        for assignment in group.assignments.values():
            rollout = assignment.learner.rollout
            cut = rollout.truncated.any(-1)
            assert cut.any()
            assert not cut.all()
            if poison is not None:
                rollout.final_state[:-1][cut if of_cut else ~cut] = poison
        group.update(1, lambda: "nothing")
        states.append(group.state_dict())
    clean, unused, used = ({k: v for k, v in s.items() if k.split(".")[-1] == "weight"} for s in states)
    assert clean
    assert all(torch.equal(tensor, unused[name]) for name, tensor in clean.items())
    assert not all(torch.equal(tensor, used[name]) for name, tensor in clean.items())


def test_state_critic_learns_with_a_limit_that_cuts_episodes():
    env = {name: value for name, value in SMALL_TAG.items() if name != "episode_length"} | {"time_limit": "termination"}
    learner = algorithm_specs.find("mappo").settings(rollout_length=16, truncation_capacity=4.0)
    config = TrainConfig("TagContinuous-v0", env, num_envs=2, algorithm="mappo", learner=learner)
    core = make_core("TagContinuous-v0", 2, "cpu", max_episode_steps=5, reuse_buffers=True, **env)
    group = LearnerGroup(config, core)
    Collector(config, core, group).collect()
    learners = [assignment.learner for assignment in group.assignments.values()]
    assert any(bool(learner.rollout.truncated.any()) for learner in learners)
    group.update(1, lambda: "nothing")
    assert all(bool(parameter.isfinite().all()) for learner in learners for parameter in learner.net.parameters())

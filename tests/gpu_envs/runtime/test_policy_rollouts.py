"""Rollouts with policies in kernels, compared with PyTorch and with single steps."""

import pytest
import torch
from rollout_cases import CASES, equal, log_probs_of, make_core, make_policies, network_outputs

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.kernels import SCHEDULES
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace


@pytest.mark.parametrize(("case", "squashed"), [*((case, False) for case in CASES), ("box", True)])
def test_log_probabilities_equal_those_of_torch_distributions(case, squashed):
    core = make_core(case, num_envs=32)
    networks, policies = make_policies(core, squashed)
    trace = core.rollout(policies, 20)
    for group, rows in core.groups.items():
        rows, network = list(rows), networks[group]
        space = core.action_spaces[core.possible_agents[rows[0]]]
        width = network[0][0][0].shape[1]
        decided = trace.valid[:, :, rows]
        if trace.to_move is not None:
            decided &= trace.to_move[:-1, :, rows]
        mask = None if trace.mask is None else trace.mask[:-1, :, rows][decided]
        outputs = network_outputs(network, trace.obs[:-1, :, rows, :width][decided])
        expected = log_probs_of(space, outputs, trace.action[:, :, rows][decided], mask, network[1])
        assert decided.sum() > 100
        torch.testing.assert_close(
            trace.log_prob[:, :, rows][decided].double(), expected, rtol=1e-5, atol=3e-5 if squashed else 1e-5
        )


@pytest.mark.parametrize("case", ["discrete", "turns", "leaving"])
def test_single_steps_with_the_stored_actions_give_the_stored_results(case):
    """Bit for bit: the random streams of the worlds do not change."""
    core, other = make_core(case), make_core(case)
    trace = core.rollout(make_policies(core)[1], 20)
    truncations = 0
    for t in range(20):
        assert torch.equal(trace.obs[t], other.obs)
        _, reward, terminated, truncated, info = other.step(trace.action[t])
        for name, value in {"reward": reward, "terminated": terminated, "truncated": truncated}.items():
            assert torch.equal(getattr(trace, name)[t], value), name
        for name in ("valid", "episode_return", "episode_length"):
            assert torch.equal(getattr(trace, name)[t], info[name]), name
        assert torch.equal(trace.restarted[t], other.elapsed_steps == 0)
        if trace.mask is not None:
            assert torch.equal(trace.mask[t + 1], info["action_mask"])
        if trace.to_move is None:
            cut = truncated & ~terminated & info["valid"]
            truncations += int(cut.sum())
            assert torch.equal(trace.final_obs[trace.final_slot[t][cut]], info["final_obs"][cut])
            assert (trace.final_slot[t][~cut] == len(trace.final_obs) - 1).all()
    assert torch.equal(trace.obs[20], other.obs)
    assert truncations == trace.final_count.sum() > 0 or case != "discrete"
    assert trace.restarted.any()


def test_continuous_actions_reach_the_environment_within_the_box():
    core, other = make_core("box"), make_core("box")
    trace = core.rollout(make_policies(core)[1], 20)
    low, high = (torch.from_numpy(x) for x in (core.action_spaces["agent_0"].low, core.action_spaces["agent_0"].high))
    for t in range(20):
        scaled = low + (trace.action[t] + 1.0) * 0.5 * (high - low)
        _, reward, terminated, truncated, info = other.step(scaled.clamp(low, high))
        torch.testing.assert_close(trace.reward[t], reward, rtol=1e-5, atol=1e-4)
        assert torch.equal(trace.terminated[t], terminated)
        assert torch.equal(trace.truncated[t], truncated)
        last = trace.final_obs[trace.final_slot[t][truncated]]
        torch.testing.assert_close(last, info["final_obs"][truncated], rtol=1e-5, atol=1e-4)
    assert trace.truncated.any()
    assert (trace.action.abs() > 1.0).any()


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.slow] * (case != "turns")) for case in CASES])
def test_rollouts_in_all_schedules_are_equal(case):
    traces = []
    for schedule in SCHEDULES:
        core = make_core(case, schedule=schedule)
        traces.append(core.rollout(make_policies(core)[1], 12))
    for trace in traces[1:]:
        equal(traces[0], trace)


def test_rollout_equals_shorter_ones_in_a_row():
    core, other = make_core("discrete"), make_core("discrete")
    policies = make_policies(core)[1]
    rollout = core.rollout(policies, 12)
    parts = [other.rollout(policies, count) for count in (5, 7)]
    for name in ("action", "log_prob", "reward", "truncated", "episode_return"):
        assert torch.equal(getattr(rollout, name), torch.cat([getattr(part, name) for part in parts])), name


def test_recorded_rollout_equals_the_unrecorded_one():
    core, other = make_core("discrete"), make_core("discrete")
    policies = make_policies(core)[1]
    with core.record_episodes([0, 2]) as recorder:
        recorded = core.rollout(policies, 13)
    equal(recorded, other.rollout(policies, 13))
    assert [len(episode) for episode in recorder.take()] == [6] * 4


def test_world_acts_the_same_in_batches_of_any_size():
    core = make_core("discrete", num_envs=11)
    alone = make_core("discrete", num_envs=2, env_offset=5)
    policies = make_policies(core)[1]
    many, few = core.rollout(policies, 12), alone.rollout(policies, 12)
    for name in ("obs", "action", "log_prob", "reward"):
        assert torch.equal(getattr(many, name)[:, 5:7], getattr(few, name)), name


def test_rollout_on_several_threads_equals_that_on_one(monkeypatch):
    monkeypatch.setattr("gpu_envs.runtime.thread_pool.ThreadingHeuristic.parallel", lambda self: True)
    traces = []
    for threads in (1, 3):
        core = make_core("discrete", num_envs=50, threads=threads)
        trace = RolloutTrace.allocate(core, 9, 2)
        policies = list(make_policies(core)[1].values())
        plan = PolicyRollout(core, policies, torch.zeros(3, dtype=torch.int64), trace)
        assert plan.threads == threads
        assert (len(core._launcher.rollout_shards) > 1) == (threads > 1)
        traces.append(core.rollout(plan, 9))
    equal(*traces)


def test_policies_of_worlds_act_in_their_worlds_only():
    core = make_core("discrete", num_envs=4)
    first, second = (make_policies(core, seed=seed)[1]["agent"] for seed in (0, 1))
    index = torch.tensor([[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0]])
    mixed = RolloutTrace.allocate(core, 5, 1)
    core.rollout(PolicyRollout(core, [first, second], index, mixed, 1), 5)
    for policy, world in ((first, 0), (second, 1)):
        other = make_core("discrete", num_envs=4)
        alone = other.rollout({"agent": policy}, 5)
        assert torch.equal(alone.action[:, world], mixed.action[:, world])
    assert not torch.equal(mixed.action[:, 0], mixed.action[:, 1])


def test_agents_without_a_policy_take_random_actions():
    core, other = make_core("discrete"), make_core("discrete")
    policy = make_policies(core)[1]["agent"]
    trace = core.rollout({"agent_1": policy}, 6)
    assert (trace.log_prob[:, :, [0, 2]] == 0.0).all()
    assert (trace.log_prob[:, :, 1] != 0.0).all()
    for t in range(6):
        assert torch.equal(other.sample_actions()[:, [0, 2]], trace.action[t][:, [0, 2]])
        other.step(trace.action[t])


def test_greedy_actions_are_the_most_probable_ones():
    core = make_core("discrete")
    networks, policies = make_policies(core)
    trace = core.rollout(policies, 8, greedy=True)
    outputs = network_outputs(networks["agent"], trace.obs[:-1])
    assert torch.equal(trace.action.squeeze(-1) if trace.action.dim() == 4 else trace.action, outputs.argmax(-1))


@pytest.mark.parametrize("activation", ["tanh", pytest.param("relu", marks=pytest.mark.slow)])
def test_sampled_actions_have_the_probabilities_of_the_policy(activation):
    """The chi-square statistic of 20,000 samples stays below the bound of the level 0.001."""
    core = make_core("turns", num_envs=20_000)
    networks, policies = make_policies(core, activation=activation)
    trace = core.rollout(policies, 1)
    decided = trace.to_move[0]
    outputs = network_outputs(networks["player"], trace.obs[0][decided])
    probability = torch.softmax(outputs.masked_fill(~trace.mask[0][decided], -torch.inf), -1)
    bets = (trace.action[0][decided] == 1).double()
    expected, variance = probability[:, 1].sum(), (probability[:, 1] * probability[:, 0]).sum()
    assert (bets.sum() - expected).square() / variance < 10.83


def test_actions_of_agents_steps_and_worlds_are_independent():
    """The chi-square statistics of pairs of actions stay below the bound of the level 0.001."""
    core, count = make_core("discrete", num_envs=2_000), 5
    space, width = core.action_spaces["agent_0"], core.obs_width
    layers = [(torch.zeros(8, width), torch.zeros(8)), (torch.zeros(count, 8), torch.tensor([0.5, 0, 0, -0.5, 0.2]))]
    action = core.rollout({"agent": KernelPolicy.from_tensors(layers, space, seed=3)}, 5).action.view(5, 2_000, 3)
    pairs = {
        "agents": (action[:, :, 0], action[:, :, 1]),
        "steps": (action[:-1], action[1:]),
        "worlds": (action[:, :-1], action[:, 1:]),
    }
    for name, (first, other) in pairs.items():
        table = torch.bincount((count * first + other).flatten(), minlength=count**2).view(count, count).double()
        expected = table.sum(1, keepdim=True) * table.sum(0) / table.sum()
        assert ((table - expected).square() / expected).sum() < 39.25, name  # 16 degrees of freedom
        assert expected.min() > 5


def test_policy_of_another_environment_is_refused():
    core = make_core("discrete")
    _, policies = make_policies(make_core("turns"))
    with pytest.raises(ConfigError, match=r"agent_0: expected actions Discrete\(5\), got sizes \(2,\)"):
        core.rollout({"agent": policies["player"]}, 3)
    with pytest.raises(ConfigError, match="no group or agent named 'agnt'"):
        core.rollout({"agnt": policies["player"]}, 3)

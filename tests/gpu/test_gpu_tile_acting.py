"""Rollouts on a CUDA device with networks too wide for a thread, whose outputs blocks compute in tiles."""

import dataclasses

import pytest
import torch
from rollout_cases import equal, make_core, make_policies

from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace

pytestmark = pytest.mark.gpu


def plan_of(case, device, hidden, num_envs=100, num_steps=8):
    """Return rollouts of the same policies on any device."""
    core = make_core(case, num_envs, device, fuse_fp=False)
    policies = make_policies(make_core(case), hidden=hidden)[1]
    index = torch.zeros(core.num_agents, dtype=torch.int64)
    for number, agents in enumerate(core.groups.values()):
        index[list(agents)] = number
    moved = [dataclasses.replace(policy, weights=policy.weights.to(device)) for policy in policies.values()]
    return PolicyRollout(core, moved, index, RolloutTrace.allocate(core, num_steps, num_steps), 1)


@pytest.mark.parametrize(
    ("case", "hidden"), [("discrete", (64, 64)), ("leaving", (128, 128)), ("turns", (64, 48, 40)), ("box", (64,))]
)
def test_acting_in_tiles_equals_acting_in_rows_on_the_cpu(case, hidden):
    """Copying the state before every step keeps rounding from adding up."""
    cpu, gpu = (plan_of(case, device, hidden) for device in ("cpu", "cuda"))
    assert gpu._tiles
    assert not gpu._fused
    same = total = 0
    for _ in range(10):
        gpu.core.set_state({name: tensor.cuda() for name, tensor in cpu.core.get_state().items()})
        for plan in (cpu, gpu):
            plan.core.rollout(plan, 1)
        action, actual = cpu.trace.action[0], gpu.trace.action[0].cpu()
        agree = (actual - action).abs() <= (1e-4 if action.is_floating_point() else 0)
        agree = agree.reshape(*cpu.trace.log_prob.shape[1:], -1).all(-1)
        same, total = same + int(agree.sum()), total + agree.numel()
        expected, log_prob = (plan.trace.log_prob[0].cpu()[agree] for plan in (cpu, gpu))
        torch.testing.assert_close(log_prob, expected, rtol=1e-5, atol=1e-4)
    assert same >= 0.999 * total  # a sample at the border of two actions may fall on either side


def test_captured_rollout_in_tiles_equals_the_plain_one():
    plain, captured = (plan_of("discrete", "cuda", (64, 64)) for _ in range(2))
    replay = captured.core.capture(lambda: captured.core.rollout(captured, 8))
    for _ in range(2):
        plain.core.rollout(plain, 8)
        replay()
        equal(plain.trace, captured.trace)
    captured.core.raise_pending_errors()
